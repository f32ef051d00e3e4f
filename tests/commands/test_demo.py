"""The demo against a scripted server process: what makes it fail, and that the server never outlives it."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from strata.cli import build_parser
from strata.commands import child_server as child_server_module
from strata.commands.child_server import ChildFailed, child_server
from strata.commands.config_sources import Source
from strata.commands.demo import serve_command, show
from strata.commands.demo_profiles import ANY, DEMO_FIXED, MIXTURE, TINY, TURNS, DemoProfile
from strata.commands.embedded_model import EMBEDDED
from strata.commands.options import DemoOptions
from strata.commands.starting import resolve_demo
from strata.config.values import DeviceChoice, Mtp, ServeConfig
from strata.core.errors import ConfigError
from strata.core.units import MIB
from tests.commands import fake_server

LAST_LINE = re.compile(
    r"demo: ok tokens=\d+ ttft_ms=\d+ prompt_tok_s=[\d.]+ decode_tok_s=[\d.]+ link_mib=[\d.]+ cache_hit=[\d.]+ "
    r"ring_entries=\d+ allocs_while_serving=0"
)


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("STRATA_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def command(**script: object) -> list[str]:
    return [sys.executable, str(Path(fake_server.__file__)), json.dumps(script)]


def demo(profile: DemoProfile = ANY, **script: object) -> int:
    def start_command(model: Path, options: DemoOptions) -> Sequence[str]:
        return command(**script)

    return show(Path("any.gguf"), DemoOptions(profile, switches=profile.switches), start_command)


def test_the_last_line_has_its_fixed_form(capfd: pytest.CaptureFixture[str]) -> None:
    assert demo() == 0
    lines = capfd.readouterr().out.splitlines()
    assert LAST_LINE.fullmatch(lines[-1]), lines[-1]
    assert " tokens=6 " in lines[-1] and " link_mib=3.0 cache_hit=0.750 ring_entries=7 " in lines[-1]


def test_answers_map_and_timings_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    demo()
    out = capfd.readouterr().out
    assert all(question in out for question, _ in TURNS)
    assert out.count("Hello there.") == len(TURNS)
    assert "kv (2 extents)" in out and "chunk 256 tokens; ring 8 slots" in out and "turn 2: first text after" in out
    assert "room in the drafter's block: opened 2 times, 0.2 MiB written there and copied back" in out
    assert "segments that moved: 1.0 MiB copied back" in out
    assert "drafts: draft_n=8, draft_n_accepted=2, 25% of them" in out


def test_the_switches_of_the_server_are_shown_and_set(capfd: pytest.CaptureFixture[str]) -> None:
    assert demo(TINY, needs=TINY.switches) == 0
    first = capfd.readouterr().out.splitlines()[0]
    assert first.startswith("$ STRATA_MTP_ROOM_MIN=0 STRATA_PREFILL_ELASTIC_LOAN=1 ") and "strata" in first
    assert demo(ANY, needs=TINY.switches) == 1


@pytest.mark.parametrize("missing", ["num_drafts", "num_rooms"])
def test_a_demo_of_a_drafter_needs_drafts_and_a_room(capfd: pytest.CaptureFixture[str], missing: str) -> None:
    assert demo(TINY, **{missing: 0}) == 1
    assert f"{missing}=0: " in capfd.readouterr().err
    assert demo(ANY, **{missing: 0}) == 0


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ({"link_bytes": 0}, "so all experts fitted on the card; lower --vram"),
        ({"ring_entries": 0}, "ring_entries=0: no prompt was read through the ring; lower --vram"),
        ({"num_maps_while_serving": 2}, "allocs_while_serving=2"),
        ({"deltas": [" "]}, "a reply is empty"),
        ({"deltas": []}, "tokens=0"),
        ({"ending": "cut"}, "ended before the reply was complete"),
        ({"ending": "error"}, "the engine failed"),
        ({"status": 503}, "the queue is full"),
        ({"timings": None}, "without its figures"),
        ({"exit_code": 3}, "exit code 3 after SIGTERM"),
        ({"announces": False, "exit_code": 3}, "exit code 3 before it served: the file is broken"),
    ],
)
def test_what_did_not_hold_is_a_failure(
    script: dict[str, object], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert demo(**script) == 1
    captured = capfd.readouterr()
    assert "demo: failed: " in captured.err and reason in captured.err
    assert "demo: ok" not in captured.out


def test_a_server_that_refuses_to_start_refuses_the_demo_with_its_own_reasons() -> None:
    with pytest.raises(ConfigError) as caught:
        demo(announces=False, exit_code=2)
    assert caught.value.reasons == ("the file is broken",)


def test_the_server_is_gone_when_the_block_is_left_by_an_error() -> None:
    def leave_by_an_error() -> None:
        with child_server(command()) as server:
            processes.append(server._process)
            raise ZeroDivisionError

    processes: list[subprocess.Popen[str]] = []
    with pytest.raises(ZeroDivisionError):
        leave_by_an_error()
    assert processes[0].poll() == 0


@pytest.mark.slow
def test_a_server_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_server_module, "STOP_TIMEOUT_S", 0.2)
    with child_server(command(ignores_sigterm=True)) as server:
        with pytest.raises(ChildFailed, match="did not end within"):
            server.stop()
        assert server._process.poll() == -signal.SIGKILL


def test_a_server_that_says_nothing_is_given_up_and_ended() -> None:
    silent = [sys.executable, "-c", "import signal; signal.pause()"]
    with pytest.raises(ChildFailed, match="printed no address within"), child_server(silent, startup_timeout_s=0.2):
        raise AssertionError("not reached")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_demo_and_its_server(number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    assert threading.current_thread() is threading.main_thread()
    program = (
        "import signal, sys; from pathlib import Path; from strata.commands.demo import show\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whoever runs tests in the background ignores it
        "from strata.commands.options import DemoOptions\n"
        f"sys.exit(show(Path('any.gguf'), DemoOptions(), lambda model, options: {command(ending='hold')!r}))"
    )
    process = subprocess.Popen(
        [sys.executable, "-uc", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    address = next(line for line in process.stdout if line.startswith("serving ")).split()[3]
    shown = ""
    while not shown.endswith("Hello"):
        shown += process.stdout.read(1)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, "demo: stopped")
    assert not _answers(address)


def _answers(address: str) -> bool:
    import httpx

    try:
        return httpx.get(address, trust_env=False, timeout=5).status_code > 0
    except httpx.ConnectError:
        return False


def test_the_command_is_what_a_person_would_type() -> None:
    options = {"device": "twin", "vram": "64MiB", "vram-elastic": True, "mtp": "1", "spec": "3"}
    command = serve_command(Path("m.gguf"), DemoOptions(serve_options=options))
    assert " ".join(command[1:]) == "-m strata serve m.gguf --device twin --vram 64MiB --vram-elastic --mtp --spec 3"


def options_of(*arguments: str) -> tuple[ServeConfig, DemoOptions]:
    resolved, options = resolve_demo(build_parser().parse_args(["demo", *arguments]))
    return resolved.config, options


def test_the_demo_has_a_small_card_that_may_lend_unless_told_otherwise(clean: pytest.MonkeyPatch) -> None:
    config, options = options_of("--model", "smollm2")
    assert (config.vram_bytes, config.context_tokens, config.min_cache_slots) == (256 * MIB, 2048, 16)
    assert options.serve_options == {**DEMO_FIXED, **MIXTURE.options} and options.model is None


def test_the_demo_shows_the_model_that_comes_with_strata_with_every_loan(clean: pytest.MonkeyPatch) -> None:
    config, options = options_of()
    assert options.model == EMBEDDED and options_of("--model", "strata-tiny")[1] == options
    assert (config.mtp, config.window_rows, config.is_vram_elastic, config.min_cache_slots) == (Mtp(), 3, True, 16)
    switches = config.switches
    assert switches.is_room_on and switches.prefill_elastic_loan
    assert switches.prefill_mtp_loan and switches.prefill_head_loan
    clean.setenv("STRATA_MTP_ROOM_MIN", "64")
    config, options = options_of()
    assert config.switches.mtp_room_min == 64 and "STRATA_MTP_ROOM_MIN" not in options.switches


def test_environment_and_file_win_over_the_defaults_of_the_demo(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "strata.toml"
    file.write_text("ctx = 300\n")
    clean.setenv("STRATA_CONFIG", str(file))
    clean.setenv("STRATA_CACHE_MIN_SLOTS", "9")
    clean.setenv("STRATA_VRAM", "64MiB")
    config, options = options_of("--model", "smollm2", "--vram", "99MiB")
    assert (config.vram_bytes, config.context_tokens, config.min_cache_slots) == (99 * MIB, 300, 9)
    assert options.serve_options == {**DEMO_FIXED, "vram": "99MiB", "parked-mib": MIXTURE.options["parked-mib"]}


@pytest.mark.parametrize(("name", "value"), [("STRATA_MTP", "0"), ("STRATA_SPEC", "1")])
def test_without_a_drafter_the_demo_asks_for_nothing_that_needs_one(
    clean: pytest.MonkeyPatch, name: str, value: str
) -> None:
    clean.setenv(name, value)
    config, options = options_of()
    assert config.mtp is None and not options.profile.has_drafter
    switches = config.switches
    assert switches.prefill_elastic_loan
    assert not (switches.is_room_on or switches.prefill_mtp_loan or switches.prefill_head_loan)


def test_without_segments_that_move_the_demo_keeps_its_room(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("STRATA_VRAM_ELASTIC", "0")
    config, options = options_of()
    assert config.switches.is_room_on and not config.switches.prefill_elastic_loan
    assert options.profile.has_drafter and "twin-segment-kib" not in options.serve_options


def test_what_the_demo_chose_is_named_as_the_user_could_change_it(clean: pytest.MonkeyPatch) -> None:
    resolved, _ = resolve_demo(build_parser().parse_args(["demo", "--vram", "3MiB"]))
    assert resolved.sources["STRATA_VRAM"] is Source.COMMAND_LINE
    assert resolved.sources["STRATA_CACHE_MIN_SLOTS"] is Source.ENVIRONMENT


def test_another_model_has_the_floor_of_any_server(clean: pytest.MonkeyPatch) -> None:
    config, options = options_of("--model", "any.gguf")
    assert config.min_cache_slots is None and "cache-min-slots" not in options.serve_options


def test_device_and_port_of_the_demo_are_its_own(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("STRATA_PORT", "8080")
    clean.setenv("STRATA_DEVICE", "cuda")
    config, _ = options_of()
    assert (config.device, config.port) == (DeviceChoice.TWIN, 0)


@pytest.mark.parametrize(("name", "value"), [("--ctx", "255"), ("STRATA_CTX", "100")])
def test_a_context_too_small_for_the_conversation_is_refused(clean: pytest.MonkeyPatch, name: str, value: str) -> None:
    if name.startswith("STRATA_"):
        clean.setenv(name, value)
    with pytest.raises(ConfigError, match=f"ctx={value} tokens, .* takes up to 256; give {name} 256 or more"):
        options_of("--model", "smollm2", *([] if name.startswith("STRATA_") else [name, value]))
