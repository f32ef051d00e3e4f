"""Planted bugs: small files that say how one module is made wrong; `plant.py` makes it so.

A file has four constants, and a docstring that says what is wrong:

    MODULE       dotted name of the module to change
    FRAGMENT     text that occurs in its source exactly once
    REPLACEMENT  what stands there instead
    SOURCE       the rule that forbids it

`EQUIVALENT`, where it is there, is the proof that no run can show a difference. A file that blinds the twin has
`LETS_LIVE` too: names of planted bugs of the core which nothing but the blinded check finds,
and `IN_LOANS` where they show in worlds that lend more than cache slots.
"""

import runpy
from dataclasses import dataclass
from pathlib import Path

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
    try:
        values = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:  # whatever a file of somebody else's does
        raise ValueError(f"{path}: no planted bug, it cannot be run: {type(error).__name__}: {error}") from error
    try:
        module, fragment, replacement, source = (
            values[name] for name in ("MODULE", "FRAGMENT", "REPLACEMENT", "SOURCE")
        )
    except KeyError as error:
        raise ValueError(f"{path}: no planted bug, {error} is missing; see fuzz/planted.py") from error
    if not all(isinstance(text, str) for text in (module, fragment, replacement, source)):
        raise ValueError(f"{path}: no planted bug, MODULE, FRAGMENT, REPLACEMENT and SOURCE are texts")
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
