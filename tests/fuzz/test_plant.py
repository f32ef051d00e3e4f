"""A planted bug is the same whichever way it comes into a process, and its mark is called where it stands."""

import ast
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType

import pytest

import fuzz.plant
from fuzz.child import Task, work
from fuzz.plant import compile_changed
from fuzz.planted import BLINDS, MUTANTS, Mutant, load_mutant, load_mutants
from fuzz.reach import MARK, Reach, marked
from fuzz.strength import FORKS, run_child

ALL = load_mutants(MUTANTS) + load_mutants(BLINDS)
IN_A_FUNCTION, OF_A_MODULE = "reader_skips_wait", "closing_drains_prompt_only"
NUM_WORLDS = 12
SOURCE = '''
LIMIT = 3

class Box:
    """A docstring."""

    def __init__(self, size):
        self.size = size

    @property
    def is_full(self):
        """Another one."""
        if self.size > LIMIT:
            return True
        elif self.size == LIMIT:
            return [size for size in range(3) if size == self.size] == []
        return False

    @staticmethod
    def most():
        return LIMIT
'''


def mutant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fragment: str, replacement: str) -> Mutant:
    """Of a module that is imported already."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("fuzz.planted.ROOT", tmp_path)
    (tmp_path / "box.py").write_text(SOURCE)
    monkeypatch.delitem(sys.modules, "box", raising=False)
    __import__("box")
    return Mutant("bug", tmp_path / "bug.py", "box", fragment, replacement, "none")


@pytest.mark.parametrize("planted", ALL, ids=lambda planted: planted.name)
def test_a_bug_is_marked_once(planted: Mutant) -> None:
    tree = marked(planted, planted.module_path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == MARK]
    assert len(calls) == 1
    assert isinstance(compile_changed([planted])[planted.module], CodeType)


@pytest.mark.parametrize(
    ("fragment", "replacement", "size", "answer"),
    [
        ("self.size > LIMIT", "self.size >= LIMIT", 3, True),
        ("return True", "return None", 4, None),
        ("size == self.size]", "size != self.size]", 3, False),
        ("        return False\n", "", 1, None),
        ("            return True\n", "            pass\n", 4, False),
        ("return True\n        elif self.size == LIMIT:", "return True\n        elif self.size != LIMIT:", -1, True),
    ],
)
def test_code_is_exchanged_and_its_mark_called(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fragment: str,
    replacement: str,
    size: int,
    answer: bool | None,
) -> None:
    bug = mutant(tmp_path, monkeypatch, fragment, replacement)
    box = sys.modules["box"].Box(size)
    reach = Reach()
    fuzz.plant.plant([bug])
    sys.meta_path.pop(0)
    assert not reach.is_reached
    assert box.is_full is answer
    assert reach.is_reached and reach.in_world
    reach.forget()
    assert reach.is_reached and not reach.in_world


@pytest.mark.parametrize(
    ("fragment", "replacement", "is_exchanged"),
    [
        ("return LIMIT", "return LIMIT + 1", True),
        ("self.size = size", "self.size = size + 1", True),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("    @staticmethod\n    def most():", "    @classmethod\n    def most(cls):", False),
        ("def __init__(self, size):", "def __init__(self, size=1):", False),
    ],
)
def test_what_is_no_function_alone_must_be_imported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fragment: str, replacement: str, is_exchanged: bool
) -> None:
    bug = mutant(tmp_path, monkeypatch, fragment, replacement)
    exchanges = fuzz.plant._exchanges("box", compile_changed([bug])["box"])
    assert (exchanges is not None) == is_exchanged
    if exchanges is not None:
        assert len(exchanges) == 1


def test_a_function_that_has_run_is_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = mutant(tmp_path, monkeypatch, "return LIMIT", "return LIMIT + 1")
    code = sys.modules["box"].Box.most.__code__
    monkeypatch.setattr(fuzz.plant, "_called_early", {code})
    assert fuzz.plant._exchanges("box", compile_changed([bug])["box"]) is None


@pytest.mark.slow
def test_a_bug_is_the_same_both_ways() -> None:
    """Digests of all commands, of worlds that do not fail."""
    path = load_mutant(MUTANTS / f"{IN_A_FUNCTION}.py").path
    exchanged = run_child([path], max_runs=0, digests=NUM_WORLDS)
    reader, writer = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_import_again, args=([path], writer))
    process.start()
    writer.close()
    assert reader.recv() == exchanged["digests"]
    process.join()
    clean = run_child([], max_runs=0, digests=NUM_WORLDS)["digests"]
    assert exchanged["digests"] != clean
    assert run_child([MUTANTS / f"{OF_A_MODULE}.py"], max_runs=0, digests=NUM_WORLDS)["digests"] != clean


@pytest.mark.slow
def test_a_process_that_ends_without_a_report_is_said_to(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text(
        '"""It leaves."""\nMODULE = "strata.core.serving.prefix"\nSOURCE = "none"\n'
        'FRAGMENT = "return Session(self.ids[:num_tokens])"\nREPLACEMENT = "__import__(\'os\')._exit(3)"\n'
    )
    with pytest.raises(RuntimeError, match="leaves: its process ended without a report"):
        run_child([tmp_path / "leaves.py"], max_runs=20)


def test_a_bug_without_a_reach_is_planted_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = mutant(tmp_path, monkeypatch, "return LIMIT", "return LIMIT + 1")
    monkeypatch.delattr("builtins." + MARK, raising=False)
    fuzz.plant.plant([bug])
    sys.meta_path.pop(0)
    assert sys.modules["box"].Box.most() == 4


def test_the_next_branch_is_another_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, reach = mutant(tmp_path, monkeypatch, "return True", "return None"), Reach()
    fuzz.plant.plant([bug])
    sys.meta_path.pop(0)
    assert sys.modules["box"].Box(1).is_full is False
    assert not reach.is_reached


def _import_again(paths: Sequence[Path], writer: Connection) -> None:
    fuzz.plant._exchanges = lambda module, changed: None
    writer.send(work(Task(paths, max_runs=0, digests=NUM_WORLDS))["digests"])
