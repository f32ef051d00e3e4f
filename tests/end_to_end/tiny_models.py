"""What tests of the project's own model run on: a stand-in of its architecture, and, in a build that has it, itself.

Sizes differ, so each comes with cards for which its experts are too many.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.commands.embedded_model import EMBEDDED
from tests.recipes.toy import write_stand_in


@dataclass(frozen=True)
class Tiny:
    """`vram` with a context of 2,048, `long_vram` with one of 8,192: whole segments of 64 KiB. `num_slots`: so few are
    resident where a test says it."""

    path: Path
    vram: str
    long_vram: str
    num_slots: int


STAND_IN = "stand-in"
NAMES = (STAND_IN, *((pytest.param(EMBEDDED.stem, marks=pytest.mark.soak),) if EMBEDDED.is_file() else ()))


def tiny_of(name: str, folder: Path) -> Tiny:
    if name == STAND_IN:
        return Tiny(write_stand_in(folder / EMBEDDED.name), vram="5MiB", long_vram="10MiB", num_slots=80)
    return Tiny(EMBEDDED, vram="14MiB", long_vram="24MiB", num_slots=146)
