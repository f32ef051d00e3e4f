"""The commands that planted bugs give: recorded in a process of their own, played onto a twin that knows no core."""

import json
from pathlib import Path

import pytest

from fuzz.__main__ import main
from fuzz.planted import MUTANTS
from fuzz.strength import run_child
from sim.world.recording import replay_plainly
from strata.trace.command_trace import read_trace
from strata.trace.entries import Refused
from tests.trace.builders import RECORDABLE

REGRESS = Path(__file__).parents[1] / "regress"
WITH_BUG = [path for path in RECORDABLE if (MUTANTS / path.name).with_suffix(".py").exists()]
FOUND_BY_WORLDS = ("WrongBytes", "UndeclaredAccess", "error", "WorldFault")
"""What a world and its programs raise, which a replay does not have; `error` is that of struct."""


@pytest.mark.slow
def test_the_command_line_records_a_planted_bug(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, name = tmp_path / "commands.jsonl", "reader_skips_wait"
    assert main(["record", str(REGRESS / f"{name}.jsonl"), str(out), "--mutant", str(MUTANTS / f"{name}.py")]) == 0
    assert "OrderError" in capsys.readouterr().out
    head = json.loads(out.read_text(encoding="utf-8").partition("\n")[0])
    assert head["origin"] == {"decisions": f"{name}.jsonl", "mutants": [name]}
    clean = tmp_path / "clean.jsonl"
    assert main(["record", str(REGRESS / f"{name}.jsonl"), str(clean)]) == 0
    assert "nothing was found" in capsys.readouterr().out
    assert not any(isinstance(entry, Refused) for entry in read_trace(clean.read_text(encoding="utf-8")).entries)


def test_a_name_of_no_planted_bug_is_no_campaign_that_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants", "--only", "reader_skips_weight"]) == 2
    told = capsys.readouterr()
    assert "--only=reader_skips_weight is no planted bug" in told.err and not told.out


def test_a_file_that_is_no_trace_of_decisions_is_said_to_be_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, absent, out = tmp_path / "text", tmp_path / "absent", tmp_path / "out"
    text.write_bytes(b"\xff no trace\n")
    for path in (text, absent):
        for command in (["replay", str(path)], ["record", str(path), str(out)]):
            assert main(command) == 2
            assert capsys.readouterr().err.startswith(f"fuzz: {path}: ")
    assert not out.exists()


@pytest.mark.soak
@pytest.mark.parametrize("path", WITH_BUG, ids=lambda path: path.stem)
def test_whatever_the_twin_refuses_of_a_planted_bug_it_refuses_again(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "commands.jsonl"
    report = run_child([(MUTANTS / path.name).with_suffix(".py")], traces=[path], record=out)
    assert report["detected"], report
    if not out.exists():  # there was not even a plan
        return
    trace = read_trace(out.read_text(encoding="utf-8"))
    refused = next((entry.error for entry in trace.entries if isinstance(entry, Refused)), "")
    found = [(deviation.recorded, deviation.found) for deviation in replay_plainly(trace).deviations]
    if not refused:
        assert found == []
    else:
        is_seen = not report["is_of_world"] and refused not in FOUND_BY_WORLDS
        assert found == [(refused, refused if is_seen else "")]
