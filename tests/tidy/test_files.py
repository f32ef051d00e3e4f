"""What every file of the repository keeps."""

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.tree import PACKAGES, ROOT, python_files, relative

MAX_LINES = 400
MAX_CORE_LINES = 3500
CODE = (*PACKAGES, "tests", "bench", "container", "recipes")
UNFINISHED = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")))
TEXTS = (
    *CODE,
    "docs",
    "newsfragments",
    "Makefile",
    "Containerfile",
    "README.md",
    "CONTRIBUTING.md",
    "pyproject.toml",
    ".ci",
)


def text_files() -> list[Path]:
    found = [
        path for name in TEXTS for path in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"))
    ]
    return [path for path in found if path.is_file() and path.suffix in {".py", ".md", ".toml", ".sh", ""}]


def test_package_init_files_are_empty() -> None:
    assert [relative(path) for path in python_files(*CODE) if path.name == "__init__.py" and path.stat().st_size] == []


def test_no_file_is_a_drawer_for_everything() -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(*CODE)}
    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}


def test_nothing_is_left_for_later_in_a_comment() -> None:
    found = [
        f"{relative(path)}:{number}"
        for path in text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert found == []


def test_every_module_says_what_it_decides() -> None:
    sources = {relative(path): ast.parse(path.read_text(encoding="utf-8")) for path in python_files(*PACKAGES)}
    assert [path for path, tree in sources.items() if tree.body and ast.get_docstring(tree) is None] == []


def test_broad_excepts_are_only_at_the_edges() -> None:
    edges = (
        "strata/engine/",
        "strata/server/",
        "sim/world/server/",
        "sim/world/recording.py",
        "sim/world/served.py",
        "fuzz/",
    )  # whatever is raised is what fuzzing looks for, and what a recorded world may end with
    found = [
        f"{relative(path)}:{number}"
        for path in python_files(*PACKAGES)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.match(r"\s*except( (Base)?Exception( as \w+)?)?:", line) and not relative(path).startswith(edges)
    ]
    assert found == []


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "NEWS.md", "LICENSE", "docs/design.md", "Containerfile"]
)
def test_what_a_newcomer_looks_for_is_there(name: str) -> None:
    assert (ROOT / name).stat().st_size > 0


def test_relative_links_of_the_documents_lead_somewhere() -> None:
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "design.md"]
    for document in documents:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{relative(document)} links to {target}"


def test_scripts_can_be_run() -> None:
    for name in (".ci/run", "container/install.sh"):
        assert (ROOT / name).stat().st_mode & 0o111, name


def test_the_core_stays_small() -> None:
    """Lines of code: what is neither blank nor comment nor docstring."""
    assert sum(_lines_of_code(path) for path in python_files("strata/core")) <= MAX_CORE_LINES


def _lines_of_code(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and at not in documented for at, line in lines)
