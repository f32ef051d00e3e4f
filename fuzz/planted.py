"""Planted bugs: small files that say how one module is made wrong, and an import hook that makes it so.

A file has four constants, and a docstring that says what is wrong:

    MODULE       dotted name of the module to change
    FRAGMENT     text that occurs in its source exactly once
    REPLACEMENT  what stands there instead
    SOURCE       the rule that forbids it

`EQUIVALENT`, where it is there, is the proof that no run can show a difference. A file that blinds the twin has
`LETS_LIVE` too: names of planted bugs of the core which nothing but the blinded check finds,
and `IN_LOANS` where they show in worlds that lend more than cache slots.

The code that is shipped knows nothing of this: `plant` works only in a process that has not imported the module yet.
"""

import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[1]
MUTANTS = ROOT / "fuzz" / "mutants"
BLINDS = ROOT / "fuzz" / "blind"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug; `path` is its file."""

    name: str
    path: Path
    module: str
    fragment: str
    replacement: str
    source: str
    equivalent: str = ""
    lets_live: tuple[str, ...] = ()
    is_in_loans: bool = False

    @property
    def module_path(self) -> Path:
        return ROOT.joinpath(*self.module.split(".")).with_suffix(".py")

    def changed(self, text: str) -> str:
        """`text` with the bug. Raises ValueError unless the fragment is there exactly once."""
        found = text.count(self.fragment)
        if found != 1:
            raise ValueError(f"mutant {self.name}: its fragment occurs {found} times in {self.module}, not once")
        return text.replace(self.fragment, self.replacement)


def load_mutant(path: Path) -> Mutant:
    """Raises ValueError for a file that is not one."""
    values = runpy.run_path(str(path))
    try:
        module, fragment, replacement, source = (
            values[name] for name in ("MODULE", "FRAGMENT", "REPLACEMENT", "SOURCE")
        )
    except KeyError as error:
        raise ValueError(f"{path}: no planted bug, {error} is missing; see fuzz/planted.py") from error
    return Mutant(
        path.stem,
        path,
        module,
        fragment,
        replacement,
        source,
        values.get("EQUIVALENT", ""),
        tuple(values.get("LETS_LIVE", ())),
        bool(values.get("IN_LOANS", False)),
    )


def load_mutants(folder: Path) -> list[Mutant]:
    """All of a folder, by name. Raises ValueError when there is none."""
    mutants = [load_mutant(path) for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    if not mutants:
        raise ValueError(f"{folder}: no planted bugs there; one .py file each, see fuzz/planted.py")
    return mutants


def changed_source(module: str, mutants: Sequence[Mutant]) -> str:
    """The source of `module` with every bug of `mutants` that belongs to it."""
    text = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    for mutant in mutants:
        if mutant.module == module:
            text = mutant.changed(text)
    return text


def plant(mutants: Sequence[Mutant]) -> None:
    """Modules of `mutants` are imported with their bugs from now on."""
    late = [mutant.module for mutant in mutants if mutant.module in sys.modules]
    assert not late, f"imported already: {late}"
    sys.meta_path.insert(0, _Finder(mutants))


class _Finder(MetaPathFinder):
    def __init__(self, mutants: Sequence[Mutant]) -> None:
        self._mutants = mutants
        self._modules = {mutant.module for mutant in mutants}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if fullname not in self._modules:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None, fullname
        spec.loader = _Loader(fullname, spec.origin, changed_source(fullname, self._mutants))
        return spec


class _Loader(SourceFileLoader):
    """Compiles the changed source under the file's own name; byte code that lies about is not looked at."""

    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        code = compile(self._text, self.get_filename(fullname), "exec", dont_inherit=True)
        assert isinstance(code, CodeType)
        return code
