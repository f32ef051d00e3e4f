"""Cutting extents out of bytes, one behind the other."""

from strata.core.extent import Extent
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up


class Bump:
    """Hands out extents one behind the other, each on the 256-byte grid. Lives for one carve."""

    def __init__(self, offset_bytes: int = 0) -> None:
        self.offset_bytes = align_up(offset_bytes, SLOT_ALIGNMENT_BYTES)

    def take(self, size_bytes: int) -> Extent:
        extent = Extent(self.offset_bytes, size_bytes)
        self.offset_bytes = align_up(extent.end_bytes, SLOT_ALIGNMENT_BYTES)
        return extent


class Gauge(Bump):
    """Goes as far as a bump would, and hands out nothing: for prices."""

    def take(self, size_bytes: int) -> Extent:
        self.offset_bytes = align_up(self.offset_bytes + size_bytes, SLOT_ALIGNMENT_BYTES)
        return _NOTHING


_NOTHING = Extent(0, 0)
