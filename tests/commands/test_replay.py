"""`strata replay` as people call it: both kinds of traces, every way to fail, and what it writes."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fuzz.planted import MUTANTS
from fuzz.strength import run_child
from strata.cli import main
from strata.core.commands import Launch, Wait
from strata.core.events import Reached
from strata.trace.command_trace import CommandTrace, write_trace
from strata.trace.entries import Refused
from tests.device.cuda_bodies import why_no_card
from tests.trace.builders import REGRESS, recorded

pytestmark = pytest.mark.slow

WITHOUT_A_CARD = pytest.mark.skipif(why_no_card() is None, reason="there is a card")
LENDS = "refill_cannot_be_repeated"


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    return write(tmp_path, recorded(LENDS).commands)


def write(folder: Path, trace: CommandTrace) -> Path:
    path = folder / "commands.jsonl"
    path.write_text(write_trace(trace), encoding="utf-8")
    return path


def replay(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["replay", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_decisions_go_through_the_core_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = replay(capsys, REGRESS / f"{LENDS}.jsonl")
    assert (code, err) == (0, "")
    assert "4 decisions" in out and "nothing was refused" in out
    code, out, err = replay(capsys, REGRESS / f"{LENDS}.jsonl", "--json")
    report = json.loads(out)
    assert (report["kind"], report["decisions"], report["failure"]) == ("decisions", 4, None)
    assert report["entries"] == len(recorded(LENDS).commands.entries)


def test_commands_go_onto_the_twin_and_leave_digests(commands: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = replay(capsys, commands)
    assert (code, err) == (0, "")
    owners = [line.split()[0] for line in out.splitlines()[1:]]
    assert owners == ["weights", "table", "kv", "verifier", "cache"]
    assert replay(capsys, commands)[1] == out


def test_digests_of_tensors_are_those_of_plain_bytes(commands: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sim.world.recording import replay_plainly

    plain = replay_plainly(recorded(LENDS).commands).digests
    report = json.loads(replay(capsys, commands, "--json")[1])
    assert report["deviations"] == []
    assert report["digests"] == [
        {
            "owner": run.owner,
            "offset_bytes": run.extent.offset_bytes,
            "size_bytes": run.extent.size_bytes,
            "digest": f"{run.digest:016x}",
        }
        for run in plain
    ]


def test_without_bytes_all_checks_are_kept_and_there_are_no_digests(
    commands: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = replay(capsys, commands, "--payload", "none")
    assert (code, len(out.splitlines()), err) == (0, 1, "")
    trace = recorded(LENDS).commands
    index = max(i for i, e in enumerate(trace.entries) if isinstance(e, Wait) and e.event == "back")
    wrong = write(tmp_path, replace(trace, entries=(*trace.entries[:index], *trace.entries[index + 1 :])))
    code, out, err = replay(capsys, wrong, "--payload", "none")
    assert code == 1 and "OrderError, taken when it was recorded: " in err and "no path" in err


def test_the_commands_of_a_planted_bug_give_the_checkers_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out_path, name = tmp_path / "commands.jsonl", "reader_skips_wait"
    run_child([MUTANTS / f"{name}.py"], traces=[REGRESS / f"{name}.jsonl"], record=out_path)
    code, _, err = replay(capsys, out_path)
    assert code == 1
    assert "launch experts prompt: OrderError, as when it was recorded: " in err and "no path" in err
    code, out, _ = replay(capsys, out_path, "--json")
    (deviation,) = json.loads(out)["deviations"]
    assert code == 1 and (deviation["recorded"], deviation["found"]) == ("OrderError", "OrderError")
    assert deviation["asked"]["op"] == "launch"


def test_a_refusal_that_does_not_come_again_fails_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = recorded(LENDS).commands
    index = next(i for i, entry in enumerate(trace.entries) if isinstance(entry, Launch))
    launch = trace.entries[index]
    assert isinstance(launch, Launch)
    entries = (*trace.entries[:index], Refused(launch, "WrongBytes", "of its time"), *trace.entries[index + 1 :])
    code, _, err = replay(capsys, write(tmp_path, replace(trace, entries=entries)))
    assert code == 1 and f"line {index + 2}, launch {launch.program}" in err
    assert "WrongBytes when it was recorded, and taken now" in err


def test_a_report_that_never_comes_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = recorded(LENDS).commands
    stalled = write(tmp_path, replace(trace, entries=(*trace.entries, Reached("never"))))
    code, _, err = replay(capsys, stalled)
    assert code == 1 and "nothing to report" in err


def test_what_is_exported_is_there(commands: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for trace in (commands, REGRESS / f"{LENDS}.jsonl"):
        svg, chrome = tmp_path / "card.svg", tmp_path / "chrome.json"
        code, _, err = replay(capsys, trace, "--svg", svg, "--chrome", chrome)
        assert (code, err) == (0, "")
        assert ElementTree.parse(svg).getroot().get("width") == "1080"
        assert len(json.loads(chrome.read_text())["traceEvents"]) > len(recorded(LENDS).commands.entries)


def test_every_file_that_is_no_trace_is_refused_in_one_line(
    commands: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = commands.read_text(encoding="utf-8")
    bad = tmp_path / "bad.jsonl"
    for content, reason in (
        (b"", "line 1 is no JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"GGUF", "line 1 is no JSON"),
        (text.replace('"v":1', '"v":9').encode(), "v=9, v=1 is read"),
        (text[: len(text) // 2].encode(), "line"),
        (text.replace('"op":"wait"', '"op":"weit"', 1).encode(), "a line was changed"),
        (text.replace('"kind":"commands"', '"kind":"songs"').encode(), "kind='songs'"),
    ):
        bad.write_bytes(content)
        code, out, err = replay(capsys, bad)
        assert (code, out) == (2, "") and len(err.splitlines()) == 1, err
        assert err.startswith(f"strata: {bad}: no trace") and reason in err


@pytest.mark.gpu
def test_a_card_is_asked_for_by_name(commands: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = replay(capsys, commands, "--device", "both")
    assert (code, err) == (0, "") and out.splitlines()[-1] == "hash-equal"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["none.jsonl"], "none.jsonl: cannot read the trace: No such file or directory"),
        (["."], ".: cannot read the trace: Is a directory"),
        pytest.param(["TRACE", "--device", "cuda"], "device=cuda refused: ", marks=WITHOUT_A_CARD),
        (["TRACE", "--device", "both", "--payload", "none"], "--payload=none refused: --device=both compares bytes"),
        (["TRACE", "--svg", "/none/card.svg"], "/none/card.svg: cannot be written: No such file or directory"),
        (["DECISIONS", "--payload", "none"], "--payload=none refused"),
    ],
)
def test_what_cannot_be_done_is_refused(
    arguments: list[str], reason: str, commands: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {"TRACE": str(commands), "DECISIONS": str(REGRESS / f"{LENDS}.jsonl")}
    code, _, err = replay(capsys, *[paths.get(word, word) for word in arguments])
    assert code == 2 and reason in err


def test_a_card_that_no_page_fits_needs_no_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = recorded(LENDS).commands
    odd = replace(trace, sizes=replace(trace.sizes, segment_bytes=2048, arena_bytes=4096), entries=())
    code, _, err = replay(capsys, write(tmp_path, replace(odd, places=type(trace.places)([]))))
    assert code == 2 and "segment_bytes=2,048 B are not whole pages" in err and "--payload none" in err
