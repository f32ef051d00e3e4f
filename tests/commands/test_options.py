"""The four sources of a configuration: how values are written in each, and which one wins."""

import argparse
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.cli import build_parser
from strata.commands.config_sources import MAX_FILE_BYTES, read_switches, resolve
from strata.commands.option_table import OPTIONS, SWITCHES
from strata.commands.serve_options import written_options
from strata.config.not_yet import NOT_YET
from strata.config.refusals import check_config
from strata.config.values import DeviceChoice, Mtp, Prefill, ServeConfig
from strata.core.errors import ConfigError
from strata.core.kv import KvFormat
from strata.core.units import GIB, KIB, MIB
from tests.tidy.tree import ROOT

SWITCHES_OF_ONE_BIT = [
    switch.variable
    for switch in SWITCHES
    if switch.field not in ("mtp_room_min", "prefill_repeat_min_tokens", "prefill_ring")
]


def command_line(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(["serve", "m.gguf", *arguments])


def config(*arguments: str, environment: Mapping[str, str] | None = None) -> ServeConfig:
    return resolve("m.gguf", written_options(command_line(*arguments)), environment or {}).config


def reasons(*arguments: str, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        config(*arguments, environment=environment)
    return caught.value.reasons


@pytest.fixture
def toml(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        path = tmp_path / "strata.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_nothing_set_gives_the_defaults() -> None:
    assert config() == ServeConfig("m.gguf")


def test_the_command_line_wins_over_the_environment_that_over_the_file_and_that_over_the_default(toml: Any) -> None:
    file = toml("ctx = 300\nport = 1\nqueue = 5\nvram-elastic = true\n")
    environment = {"STRATA_CTX": "400", "STRATA_PORT": "2", "STRATA_VRAM_ELASTIC": "1", "STRATA_CONFIG": file}
    found = config("--ctx", "500", "--no-vram-elastic", environment=environment)
    assert (found.context_tokens, found.port, found.max_queued, found.host) == (500, 2, 5, "127.0.0.1")
    assert found.is_vram_elastic is False
    assert config(environment={**environment, "STRATA_CONFIG": toml("ctx = 300")}).context_tokens == 400
    assert config("--config", toml("ctx = 300")).context_tokens == 300


def test_a_switch_of_the_environment_wins_over_the_file(toml: Any) -> None:
    file = toml("STRATA_MTP_ROOM_MIN = 1024\nSTRATA_MMQ_SLAB = 1\nSTRATA_PREFILL_RING = 9")
    switches = config("--config", file, environment={"STRATA_MTP_ROOM_MIN": "-1"}).switches
    assert (switches.mtp_room_min, switches.mmq_slab, switches.prefill_ring) == (-1, True, 9)


def test_the_file_of_the_command_line_wins_over_that_of_the_environment(toml: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("queue = 1")
    assert config("--config", toml("port = 7"), environment={"STRATA_CONFIG": str(other)}).max_queued == 16


WRITTEN: list[tuple[str, str, str, str, object]] = [
    ("device", "twin", '"twin"', "device", DeviceChoice.TWIN),
    ("vram", "1.5GiB", '"1.5GiB"', "vram_bytes", 3 * GIB // 2),
    ("vram", "4096", "4096", "vram_bytes", 4096),
    ("vram-elastic", "1", "true", "is_vram_elastic", True),
    ("vram-segment-mib", "64", "64", "vram_segment_bytes", 64 * MIB),
    ("twin-segment-kib", "64", "64", "twin_segment_bytes", 64 * KIB),
    ("cache-min-slots", "9", "9", "min_cache_slots", 9),
    ("cache-swaps", "3", "3", "num_swaps", 3),
    ("warm-start", "w.json", '"w.json"', "warm_start_file", "w.json"),
    ("resident-budget-gib", "1.5", "1.5", "resident_budget_bytes", 3 * GIB // 2),
    ("ctx", "9", "9", "context_tokens", 9),
    ("kv", "f32", '"f32"', "kv_format", KvFormat.F32),
    ("kv", "k8v4", '"k8v4"', "kv_format", KvFormat.K8V4),
    ("kv", "q8_0", '"q8_0"', "kv_format", KvFormat.INT8),
    ("prefill", "auto", '"auto"', "prefill", Prefill()),
    ("prefill", "512", "512", "prefill", Prefill(512)),
    ("prefill", "auto:512", '"auto:512"', "prefill", Prefill(None, 512)),
    ("short-read", "0", "0", "short_read_tokens", 0),
    ("parked-mib", "0", "0", "parked_bytes", 0),
    ("parked-mib", "300", "300", "parked_bytes", 300 * MIB),
    ("checkpoint-mib", "0", "0", "checkpoint_bytes", 0),
    ("checkpoint-mib", "300", "300", "checkpoint_bytes", 300 * MIB),
    ("mtp", "1", "true", "mtp", Mtp()),
    ("mtp", "0", "false", "mtp", None),
    ("mtp", "a.gguf", '"a.gguf"', "mtp", Mtp("a.gguf")),
    ("spec", "2", "2", "spec_rows", 2),
    ("draft-p-min", "0.25", "0.25", "least_probability", 0.25),
    ("verify-lent", "1", "true", "is_lent_verified", True),
    ("host", "::1", '"::1"', "host", "::1"),
    ("port", "0", "0", "port", 0),
    ("api-key", "k", '"k"', "api_key", "k"),
    ("queue", "2", "2", "max_queued", 2),
    ("write-deadline", "0.5", "0.5", "write_deadline_s", 0.5),
    ("shutdown-grace", "3", "3", "shutdown_grace_s", 3.0),
    ("trace", "t.jsonl", '"t.jsonl"', "trace_file", "t.jsonl"),
    ("trace-commands", "9", "9", "trace_commands", 9),
    ("batch", "4", "4", "batch_slots", 4),
    ("pipeline-windows", "1", "true", "has_pipeline_windows", True),
    ("layer-split", "1", "true", "has_layer_split", True),
    ("peer-cache", "1", "true", "has_peer_cache", True),
    ("remote-cache", "1", "true", "has_remote_cache", True),
    ("helper-cache", "1", "true", "has_helper_cache", True),
    ("kv-resident", "64", "64", "kv_resident_tokens", 64),
    ("prefill-head-alias", "1", "true", "has_prefill_head_alias", True),
]


def test_every_option_is_tried_in_every_source() -> None:
    assert {name for name, *_ in WRITTEN} == {option.name for option in OPTIONS}


@pytest.mark.parametrize(("name", "text", "in_toml", "field", "value"), WRITTEN)
def test_an_option_means_the_same_wherever_it_is_written(
    name: str, text: str, in_toml: str, field: str, value: object, toml: Any
) -> None:
    option = next(option for option in OPTIONS if option.name == name)
    argument = [f"--{name}={text}"] if option.metavar else [f"--{name}"]
    for found in (
        config(*argument),
        config(environment={f"STRATA_{name.replace('-', '_').upper()}": text}),
        config("--config", toml(f"{name} = {in_toml}")),
    ):
        assert getattr(found, field) == value
        assert found == ServeConfig("m.gguf", **{field: value})


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: switch.variable)
def test_a_switch_has_exactly_its_name_in_environment_and_file(switch: Any, toml: Any) -> None:
    for found in (
        config(environment={switch.variable: "1"}),
        config("--config", toml(f"{switch.variable} = 1")),
    ):
        assert getattr(found.switches, switch.field) == 1
    assert getattr(read_switches({switch.variable: "1"}), switch.field) == 1


def test_a_bare_mtp_is_the_models_own_block() -> None:
    assert config("--mtp").mtp == Mtp()


@pytest.mark.parametrize("name", SWITCHES_OF_ONE_BIT)
@pytest.mark.parametrize("text", ["", "2", "-1", "true", "yes", "01", " 1", "1.0"])
def test_a_switch_takes_0_or_1_and_nothing_else(name: str, text: str) -> None:
    assert reasons(environment={name: text}) == (
        f"environment variable {name}: {text.strip()!r} is refused; allowed: 0 or 1",
    )


@pytest.mark.parametrize("name", SWITCHES_OF_ONE_BIT)
@pytest.mark.parametrize("value", ["true", "1.0", '"1"', "2", "[]", "{}", "1979-05-27"])
def test_a_switch_takes_0_or_1_in_a_file_too(name: str, value: str, toml: Any) -> None:
    [reason] = reasons("--config", toml(f"{name} = {value}"))
    assert f"key {name}: " in reason and reason.endswith("is refused; allowed: 0 or 1")


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("STRATA_MTP_ROOM_MIN", "-2", "a whole number of tokens, 0 for every request, or -1 for none"),
        ("STRATA_MTP_ROOM_MIN", "1e3", "a whole number of tokens, 0 for every request, or -1 for none"),
        ("STRATA_PREFILL_REPEAT_MIN_TOKENS", "many", "a whole number of tokens"),
        ("STRATA_PREFILL_RING", "0", "a whole number of slots, 1 or more"),
        ("STRATA_PREFILL_RING", "9.5", "a whole number of slots, 1 or more"),
    ],
)
def test_a_wrong_count_names_variable_value_and_what_is_allowed(name: str, text: str, allowed: str) -> None:
    assert reasons(environment={name: text}) == (
        f"environment variable {name}: {text!r} is refused; allowed: {allowed}",
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('ctx = "9"', "key ctx: '9' is refused; allowed: a whole number of tokens"),
        ("ctx = true", "key ctx: True is refused; allowed: a whole number of tokens"),
        ("ctx = 9.0", "key ctx: 9.0 is refused; allowed: a whole number of tokens"),
        ("vram-elastic = 1", "key vram-elastic: 1 is refused; allowed: 0 or 1 (in a file: true or false)"),
        ("vram = -1", "key vram: -1 is refused; allowed: bytes, or a number with a unit"),
        ("host = 1", "key host: 1 is refused; allowed: text"),
        ('kv = "q8"', "key kv: 'q8' is refused; allowed: f16, f32, int8, q4_0, k8v4"),
        ("prefill = 1.5", "key prefill: 1.5 is refused; allowed: a number of tokens, auto, or auto:N"),
        ("write-deadline = nan", "key write-deadline: nan is refused; allowed: a number of seconds"),
        ("write-deadline = true", "key write-deadline: True is refused; allowed: a number of seconds"),
        ("cache_min_slots = 9", "key 'cache_min_slots' is not an option; did you mean cache-min-slots?"),
        ("STRATA_MTP_ROM_MIN = 9", "key 'STRATA_MTP_ROM_MIN' is not an option; did you mean STRATA_MTP_ROOM_MIN?"),
        ("STRATA_CTX = 9", "key 'STRATA_CTX' is not an option"),
        ("[server]\nport = 1", "key 'server' is not an option"),
        ('model = "m.gguf"', "key 'model' is not an option"),
        ("ctx = ", "not a TOML file: Invalid value (at"),
        ("x = " + "[" * 5000, "not a TOML file: "),
    ],
)
def test_a_mistake_in_the_file_names_file_and_key(line: str, reason: str, toml: Any) -> None:
    path = toml(line)
    [found] = reasons("--config", path)
    assert found.startswith(f"{path}: ") and reason in found


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert reasons("--config", str(tmp_path)) == (f"{tmp_path}: cannot read the configuration file: Is a directory",)
    [missing] = reasons(environment={"STRATA_CONFIG": str(tmp_path / "none.toml")})
    assert missing == f"{tmp_path}/none.toml: cannot read the configuration file: No such file or directory"
    (tmp_path / "latin.toml").write_bytes(b'host = "\xff"')
    assert "not a TOML file" in reasons("--config", str(tmp_path / "latin.toml"))[0]
    (tmp_path / "long.toml").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    assert "more than 1,048,576 B" in reasons("--config", str(tmp_path / "long.toml"))[0]


def test_mistakes_of_all_sources_are_told_at_once_also_of_overridden_values(toml: Any) -> None:
    found = reasons("--config", toml("ctx = true\nfoo = 1"), "--port", "x", environment={"STRATA_PORT": "y"})
    words = ("key ctx", "key 'foo'", "STRATA_PORT: 'y'", "--port: 'x'")
    assert all(word in reason for word, reason in zip(words, found, strict=True))


def test_a_wrong_key_is_not_printed(toml: Any) -> None:
    [reason] = reasons("--config", toml('api-key = ["secret"]'))
    assert "secret" not in reason and "key api-key: (hidden)" in reason


def test_an_unknown_variable_gets_a_line_that_it_has_no_effect() -> None:
    environment = {"STRATA_PREFIL_RING": "9", "STRATA_TEST_EXAMPLES": "5", "PATH": "/"}
    [notice] = resolve("m", {}, environment).notices
    assert notice == (
        "environment variable 'STRATA_PREFIL_RING' is not an option and has no effect; "
        "did you mean STRATA_PREFILL_RING?"
    )


def test_a_raised_threshold_gets_one_line_with_both_numbers() -> None:
    environment = {
        "STRATA_PREFILL_REPEAT_MIN_TOKENS": "100",
        "STRATA_PREFILL_REPEAT_LOAN": "1",
        "STRATA_PREFILL_ELASTIC_LOAN": "1",
    }
    resolved = resolve("m", {}, environment)
    assert resolved.notices == ("STRATA_PREFILL_REPEAT_MIN_TOKENS=100 tokens is raised to 256 tokens",)
    assert resolved.config.switches.repeat_min_tokens == 256


@given(st.sampled_from([entry.variable for entry in (*OPTIONS, *SWITCHES)]), st.text(max_size=40))
@example("STRATA_VRAM", "9" * 4000)
@example("STRATA_PREFILL", "auto:" + "9" * 5000)
@example("STRATA_RESIDENT_BUDGET_GIB", "inf")
@example("STRATA_CTX", "\u0664")
def test_any_text_is_a_value_or_one_reason(name: str, text: str) -> None:
    try:
        assert isinstance(resolve("m", {}, {name: text}).config, ServeConfig)
    except ConfigError as error:
        [reason] = error.reasons
        assert reason.startswith(f"environment variable {name}: ") and "\n" not in reason and len(reason) < 400


def test_names_of_options_and_switches_do_not_meet() -> None:
    names = [entry.variable for entry in (*OPTIONS, *SWITCHES)]
    assert len(set(names)) == len(names) and "STRATA_CONFIG" not in names


def test_every_row_of_what_is_not_built_is_an_option_or_a_switch() -> None:
    names = {f"--{option.name}" for option in OPTIONS} | {switch.variable for switch in SWITCHES}
    assert {row.name for row in NOT_YET} <= names


@pytest.mark.parametrize("command", ["serve", "plan"])
def test_help_lists_every_option_switch_and_default(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([command, "--help"])
    assert ended.value.code == 0
    text = "".join(capsys.readouterr().out.split())
    for option in OPTIONS:
        assert f"--{option.name}" in text and f"(default:{option.default})".replace(" ", "") in text
    assert all(switch.variable in text for switch in SWITCHES) and "--config" in text


def test_the_address_of_chat_is_no_unknown_variable() -> None:
    assert resolve("m", {}, {"STRATA_URL": "http://127.0.0.1:1"}).notices == ()


def test_the_configuration_file_of_the_readme_is_one(toml: Any) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("    # strata.toml\n")[2].partition("\n\n")[0]
    found = config("--config", toml(textwrap.dedent(text)))
    assert (found.port, found.min_cache_slots, found.switches.prefill_ring) == (8081, 64, 12)
    assert check_config(found) == []


def test_the_readme_has_every_option_and_switch_with_its_default() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("`strata serve MODEL`")[2].partition("`strata plan MODEL`")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    for name, default in [
        *((f"--{option.name}", option.default) for option in OPTIONS),
        *((switch.variable, switch.default) for switch in SWITCHES),
    ]:
        [row] = [row for row in rows if row.startswith((f"| `{name}`", f"| `{name} ", f"| `{name}="))]
        assert default in row.replace("`", ""), (row, default)
