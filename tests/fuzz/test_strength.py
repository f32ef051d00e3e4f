"""Planted bugs are what they say, the worlds find them, and the twin's checks are what finds them."""

import ast
import json
from functools import partial
from pathlib import Path

import pytest

from fuzz.__main__ import main
from fuzz.planted import BLINDS, MUTANTS, Mutant, load_mutant, load_mutants
from fuzz.strength import measure, run_child

REGRESS = Path(__file__).parents[1] / "regress"
ALL = load_mutants(MUTANTS)
BLIND = load_mutants(BLINDS)
QUICK = ("reader_skips_wait", "refill_short_by_one", "prefix_reuses_other_ids", "slot_index_off_by_one")
CANARY = "window_does_not_wait_for_back"
CLOCKS = ("reads_need_no_order", "writes_ignore_readers")
RUNS_OF_A_BLIND_TWIN, RUNS_IN_LOANS = 15, 40
RUNS_OF_DRAWN_ORDER = 200
IN_PREFIX = """
MODULE = "strata.core.serving.prefix"
SOURCE = "none"
FRAGMENT = "return Session(self.ids[:num_tokens])"
"""
"""Of a bug of somebody else's, without what stands there instead."""


def by_name(name: str) -> Mutant:
    return load_mutant(MUTANTS / f"{name}.py")


def test_there_are_enough_planted_bugs() -> None:
    assert len([mutant for mutant in ALL if not mutant.equivalent]) >= 100
    assert len(BLIND) >= 5
    assert {name for blind in BLIND for name in blind.lets_live} <= {mutant.name for mutant in ALL}


@pytest.mark.parametrize("mutant", [*ALL, *BLIND], ids=lambda mutant: mutant.name)
def test_a_fragment_occurs_once_and_its_replacement_is_python(mutant: Mutant) -> None:
    text = mutant.module_path.read_text(encoding="utf-8")
    assert text.count(mutant.fragment) == 1
    assert ast.dump(ast.parse(mutant.changed(text))) != ast.dump(ast.parse(text))
    assert mutant.source and ast.get_docstring(ast.parse(mutant.path.read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_worlds_find_a_planted_bug_in_seconds(name: str) -> None:
    report = run_child([by_name(name).path], max_runs=40)
    assert report["reached"] and report["detected"], report


@pytest.mark.slow
def test_the_canary_goes_red(capsys: pytest.CaptureFixture[str]) -> None:
    """The command line says so too, and names the class of what was found."""
    assert main(["mutants", "--seconds", "60", "--only", CANARY, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["mutants"]
    assert (found["name"], found["reached"], found["triggered"], found["detected"]) == (CANARY, True, True, True)


@pytest.mark.slow
def test_a_bug_that_is_none_is_reached_and_never_found(tmp_path: Path) -> None:
    """A folder of somebody else's: one that changes nothing, one that does not fit."""
    (tmp_path / "nothing.py").write_text(f'{IN_PREFIX}REPLACEMENT = "return Session(self.ids[0:num_tokens])"\n')
    (tmp_path / "stale.py").write_text(f'{IN_PREFIX}FRAGMENT = "is nowhere"\nREPLACEMENT = ""\n')
    nothing, stale = measure(load_mutants(tmp_path), seconds=3.0)
    assert (nothing.reached, nothing.triggered, nothing.detected) == (True, False, False)
    assert (stale.reached, stale.detected, stale.kind) == (False, False, "NotJudged")


@pytest.mark.slow
def test_what_cannot_be_planted_and_what_lives_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lives.py").write_text(f'{IN_PREFIX}REPLACEMENT = "return Session(self.ids[0:num_tokens])"\n')
    (tmp_path / "no_python.py").write_text(f'{IN_PREFIX}REPLACEMENT = "return ("\n')
    (tmp_path / "nowhere.py").write_text(IN_PREFIX.replace("prefix", "nowhere") + 'REPLACEMENT = ""\n')
    (tmp_path / "leaves.py").write_text(f"{IN_PREFIX}REPLACEMENT = \"__import__('os')._exit(3)\"\n")
    assert main(["mutants", "--seconds", "3", "--mutants", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "lives lives: " in told and "reached" in told
    for name in ("no_python", "nowhere", "leaves"):
        assert f"not judged {name}: " in told
    assert "alive: ['lives']" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "kind"),
    [
        ("raise SystemExit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("print(1); 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_bug_that_would_leave_is_found_and_says_nothing_in_between(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], act: str, kind: str
) -> None:
    (tmp_path / "bug.py").write_text(f"{IN_PREFIX}REPLACEMENT = {act!r}\n")
    assert main(["mutants", "--seconds", "5", "--mutants", str(tmp_path), "--json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)["mutants"]
    assert (found["reached"], found["detected"], found["kind"]) == (True, True, kind)


@pytest.mark.parametrize("text", ["MODULE = 'x'\n", "MODULE = (\n", "raise SystemExit(0)\n", ""])
def test_a_file_that_is_no_planted_bug_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    if text:
        (tmp_path / "bug.py").write_text(text)
    assert main(["mutants", "--seconds", "3", "--mutants", str(tmp_path)]) == 2
    assert "fuzz: " in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("blind", [b for b in BLIND if b.name in CLOCKS], ids=lambda blind: blind.name)
def test_a_blinded_twin_lets_a_bug_live(blind: Mutant) -> None:
    assert_lets_live(blind)


@pytest.mark.soak
@pytest.mark.parametrize("blind", [b for b in BLIND if b.name not in CLOCKS], ids=lambda blind: blind.name)
def test_every_blinded_twin_lets_a_bug_live(blind: Mutant) -> None:
    assert_lets_live(blind)


@pytest.mark.slow
@pytest.mark.parametrize("blind", [b for b in BLIND if b.name in CLOCKS], ids=lambda blind: blind.name)
def test_bytes_show_what_blinded_clocks_do_not_see(blind: Mutant) -> None:
    """In worlds whose order of completion is drawn: two oracles, neither of which knows of the other."""
    report = run_child([by_name(blind.lets_live[0]).path, blind.path], max_runs=RUNS_OF_DRAWN_ORDER, is_slots_only=True)
    assert report["detected"] and report["kind"] in ("WrongBytes", "WorldFault"), report


@pytest.mark.soak
def test_a_loan_for_too_much_lives_where_neither_its_bytes_nor_its_chunk_are_judged() -> None:
    """Either check finds it."""
    loans, chunks = (load_mutant(BLINDS / f"{name}.py") for name in ("loans_of_any_size", "chunks_of_any_size"))
    assert_lives("loan_for_whole_prompt", [loans, chunks])


def assert_lets_live(blind: Mutant) -> None:
    for name in blind.lets_live:
        assert_lives(name, [blind])


def assert_lives(name: str, blinds: list[Mutant]) -> None:
    """The bug is found with the checks, and in the same worlds not without them. Loans that the bug does not need are
    left out: what comes home in other orders there, other checks see too."""
    is_in_loans = any(blind.is_in_loans for blind in blinds)
    max_runs = RUNS_IN_LOANS if is_in_loans else RUNS_OF_A_BLIND_TWIN
    child = partial(run_child, max_runs=max_runs, is_at_once=True, is_slots_only=not is_in_loans)
    bug = by_name(name).path
    assert child([bug])["detected"], name
    report = child([bug, *(blind.path for blind in blinds)])
    assert report["reached"] and not report["detected"], report


@pytest.mark.soak
@pytest.mark.parametrize("path", sorted(REGRESS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_each_kept_trace_finds_the_bug_that_it_is_named_for(path: Path) -> None:
    bug = MUTANTS / f"{path.stem}.py"
    if bug.exists():
        assert run_child([bug], traces=[path])["detected"]


@pytest.mark.soak
def test_every_planted_bug_is_found() -> None:
    verdicts = measure(ALL, seconds=900.0)
    assert [verdict.name for verdict in verdicts if not verdict.detected and not verdict.equivalent] == []
    assert [verdict.name for verdict in verdicts if verdict.detected and verdict.equivalent] == []
