"""Working memory that programs need beside the buffers of a pass: named areas, cut out of the pass's scratch bytes.

    scratch   | attention: x | angles | ...            |        one program at a time uses them, so the areas of
              | experts: counts | act | ...                |    different workspaces lie over one another

What a program leaves in its areas is there until a program of another workspace runs. Price and carve are one rule, as
for all buffers: the planner prices scratch for the rows that a pass may have, and a program carves it for as many.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strata.core.extent import Extent
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up


@dataclass(frozen=True, slots=True)
class WorkArea:
    """`row_bytes` for each row that the pass may have, and `fixed_bytes` more."""

    name: str
    row_bytes: int = 0
    fixed_bytes: int = 0

    def size_bytes(self, max_rows: int) -> int:
        return max_rows * self.row_bytes + self.fixed_bytes


Workspace = tuple[WorkArea, ...]
"""All areas that are in use at the same time."""


@dataclass(frozen=True, slots=True)
class Work:
    """`areas` of one workspace, and the programs that share it."""

    programs: tuple[str, ...]
    areas: Workspace


def carve_workspace(workspace: Workspace, scratch: Extent, *, max_rows: int) -> Mapping[str, Extent]:
    """Each area by its name, on the 256-byte grid. Overrunning `scratch` is our mistake."""
    offset_bytes, areas = 0, {}
    for area in workspace:
        areas[area.name] = scratch.part(offset_bytes=offset_bytes, size_bytes=area.size_bytes(max_rows))
        offset_bytes = align_up(offset_bytes + area.size_bytes(max_rows), SLOT_ALIGNMENT_BYTES)
    return areas


def price_workspaces(workspaces: Iterable[Workspace], *, max_rows: int) -> int:
    """Bytes of scratch in which any one of them can be carved."""
    return max((_price(workspace, max_rows) for workspace in workspaces), default=0)


def _price(workspace: Workspace, max_rows: int) -> int:
    return sum(align_up(area.size_bytes(max_rows), SLOT_ALIGNMENT_BYTES) for area in workspace)
