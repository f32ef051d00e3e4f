"""The part of the arena whose physical segments an elastic loan moves behind it, and where they go.

    | zone: verifier | block | draft head | head | weights ... cache |              at home
    '----- whole segments -----'                                     | behind |     while lent

The regions that may be lent lie at the start of the arena, so that they waste no segment between them. Only whole
segments move: what shares the zone's last segment with others stays at home.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from strata.core.errors import Refusal
from strata.core.extent import Extent
from strata.core.memory.shapes import Region


@dataclass(frozen=True, slots=True)
class Zone:
    """`parts`: what lies in the segments that move, in the order of release."""

    parts: tuple[Region, ...]
    num_segments: int
    segment_bytes: int
    arena_bytes: int

    def home(self, segment: int) -> Extent:
        return Extent(segment * self.segment_bytes, self.segment_bytes)

    def behind(self, segment: int) -> Extent:
        return Extent(self.arena_bytes + segment * self.segment_bytes, self.segment_bytes)

    @property
    def size_bytes(self) -> int:
        return self.num_segments * self.segment_bytes

    @property
    def all_behind(self) -> Extent:
        """Where the prompt arena goes on while the segments are lent."""
        return Extent(self.arena_bytes, self.size_bytes)


def plan_zone(
    regions: Sequence[Region], names: Collection[str], *, segment_bytes: int, arena_bytes: int
) -> Zone | Refusal:
    """The whole segments under the regions of `names`, which come first."""
    lent = [region for region in regions if region.name in names]
    assert lent and list(regions[: len(lent)]) == lent, (regions, names)
    zone_bytes = lent[-1].extent.end_bytes
    num_segments = zone_bytes // segment_bytes
    if not num_segments:
        return Refusal(
            f"elastic loan refused: {', '.join(region.name for region in lent)} take {zone_bytes:,} B, a segment has "
            f"{segment_bytes:,} B and only whole ones are moved; lower the segment size, or lend block and head too"
        )
    end_bytes = num_segments * segment_bytes
    parts = [_cut(region, end_bytes) for region in lent if region.extent.offset_bytes < end_bytes]
    return Zone(tuple(part for part in parts if part.extent.size_bytes), num_segments, segment_bytes, arena_bytes)


def _cut(region: Region, end_bytes: int) -> Region:
    start = region.extent.offset_bytes
    return Region(region.name, Extent(start, min(region.extent.end_bytes, end_bytes) - start))
