"""Where programs of a chunk may work beside their buffers (`lending.md` 3.3), judged by their launches and by who owned
what when everything was at home. That such bytes are the prompt path's at that moment is the twin's to see.
"""

from dataclasses import dataclass, fields

from sim.world.errors import WorldFault
from sim.world.geometry import Geometry
from sim.world.loans import Lent, Rows
from strata.core.extent import Extent
from strata.core.programs import PassBuffers

MIN_CLASS_BYTES = 128 * 1024
SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where `program` worked, beside the buffers of its pass, which is a chunk."""

    program: str
    buffers: PassBuffers

    @property
    def place(self) -> Extent:
        return self.buffers.scratch

    @property
    def behind(self) -> int:
        """Every other buffer ends before."""
        extents = [getattr(self.buffers, field.name) for field in fields(self.buffers) if field.name != SCRATCH]
        return max(extent.end_bytes for extent in extents if isinstance(extent, Extent))


def most_work_bytes(geometry: Geometry, max_rows: int) -> int:
    """Of a slab: one buffer a class."""
    return sum({_class_bytes(row_bytes * max_rows) for row_bytes in geometry.work_bytes.values()})


def _class_bytes(size_bytes: int) -> int:
    found = MIN_CLASS_BYTES
    while found < size_bytes:
        found *= 2
    return found


def check_region(geometry: Geometry, owners: Rows) -> None:
    """Scratch has a region of its own exactly where it does not come out of what reads borrow."""
    has_region = any(owner == SCRATCH for _, _, owner in owners)
    if has_region != (bool(geometry.work_bytes) and not geometry.has_slab):
        raise WorldFault(
            f"programs work in {geometry.work_bytes} B a row, slab {geometry.has_slab}; the card: {owners}"
        )


def check_workplaces(
    found: list[Workplace], entries: list[Extent], geometry: Geometry, lent: Lent, owners: Rows
) -> None:
    """`found` of one request, whose blobs went through the ring at `entries`."""
    ring_end = max((entry.end_bytes for entry in entries if not lent.block.contains(entry)), default=0)
    regions = [Extent(start, size) for start, size, owner in owners if owner == SCRATCH]
    by_size: dict[int, Extent] = {}
    for work in found:
        row_bytes, place = geometry.work_bytes.get(work.program, 0), work.place
        if not row_bytes:
            if place.size_bytes:
                raise WorldFault(f"{work} needs nothing to work in")
            continue
        if place.size_bytes != _class_bytes(row_bytes * work.buffers.max_rows):
            raise WorldFault(f"{work} needs {row_bytes} B a row, and its size is no class with just room for it")
        if by_size.setdefault(place.size_bytes, place) != place:
            raise WorldFault(f"{work}: a buffer of its class is at {by_size[place.size_bytes]} already")
        if geometry.has_slab and place.offset_bytes < max(work.behind, ring_end):
            raise WorldFault(f"{work} lies before the carve's end, buffers or the ring that ends at {ring_end}")
        if not geometry.has_slab and not any(region.contains(place) for region in regions):
            raise WorldFault(f"{work} lies outside of the region for it, {regions}")
