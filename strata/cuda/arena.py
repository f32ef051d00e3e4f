"""The arena: one reserved range of addresses, and physical segments that are put under it and taken away again.

    addresses   | place 0 | place 1 | place 2 | place 3 |      reserved once, never moved
                     |                   |
    segments    |   seg 0   |   seg 1   | ...                  created once, all of them, before anything is loaded

There may be more places than segments: a segment is moved to one of those behind the arena while it is lent.

Creating every segment at the start means that no request ever asks the card for memory, and that a card which is too
full says so at once. Mapping waits for nothing that runs, and nor does unmapping (measured on an H200): only the
core's own events protect a running reader.

Knows what is mapped where. Does not know owners, content or order.
"""

from collections.abc import Iterator

from strata.core.errors import ConfigError, DeviceError
from strata.core.extent import Extent
from strata.cuda.card import Card
from strata.cuda.errors import OUT_OF_MEMORY, CudaFailure
from strata.cuda.held import Held


class Arena:
    """Takes `arena_bytes` of the card until `close`, and `behind_bytes` of addresses behind them. Raises ConfigError
    when either is not whole segments, segments are not on the driver's grid, or the card has not as much free."""

    def __init__(self, card: Card, *, arena_bytes: int, segment_bytes: int, behind_bytes: int = 0) -> None:
        _check_grid(card, arena_bytes=arena_bytes, segment_bytes=segment_bytes, behind_bytes=behind_bytes)
        self._driver = card.driver
        self._access = card.access()
        self.size_bytes, self.segment_bytes = arena_bytes, segment_bytes
        self.range_bytes = arena_bytes + behind_bytes
        self._segment_at: list[int | None] = [None] * (self.range_bytes // segment_bytes)  # by place
        self._place_of: dict[int, int] = {}  # by segment index
        self._first_hole = 0  # all places before it are backed: what is asked for most lies there
        self.num_unmaps = 0  # whoever keeps what was mapped can see that it may have changed
        self._segments: list[object] = []
        with Held() as self._held:
            self.address = int(self._driver.call("cuMemAddressReserve", self.range_bytes, 0, 0, 0))
            self._held.add(self._driver.call, "cuMemAddressFree", self.address, self.range_bytes)
            for _ in range(arena_bytes // segment_bytes):
                self._segments.append(self._create(card))
                self._held.add(self._driver.call, "cuMemRelease", self._segments[-1])

    @property
    def mapped_bytes(self) -> int:
        return len(self._place_of) * self.segment_bytes

    def map(self, segment_index: int, extent: Extent) -> None:
        """Raises DeviceError; what was mapped before is mapped after, and nothing else."""
        place = self._place(extent)
        if not 0 <= segment_index < len(self._segments):
            raise DeviceError(f"map refused: segment={segment_index}, this card has {len(self._segments)} segments")
        if segment_index in self._place_of:
            raise DeviceError(
                f"map refused: segment={segment_index} lies under place {self._place_of[segment_index]} already; "
                "unmap it there first"
            )
        if self._segment_at[place] is not None:
            raise DeviceError(
                f"map refused: {show(extent)} is backed by segment={self._segment_at[place]}; unmap it first"
            )
        address = self.address + extent.offset_bytes
        self._driver.call("cuMemMap", address, self.segment_bytes, 0, self._segments[segment_index], 0)
        with Held() as mapping:
            mapping.add(self._driver.call, "cuMemUnmap", address, self.segment_bytes)
            self._driver.call("cuMemSetAccess", address, self.segment_bytes, [self._access], 1)
        self._segment_at[place] = segment_index
        self._place_of[segment_index] = place
        while self._first_hole < len(self._segment_at) and self._segment_at[self._first_hole] is not None:
            self._first_hole += 1

    def unmap(self, extent: Extent) -> None:
        """The segment keeps its bytes and can be mapped anywhere. Raises DeviceError and leaves it mapped."""
        place = self._place(extent)
        segment_index = self._segment_at[place]
        if segment_index is None:
            raise DeviceError(f"unmap refused: nothing is mapped at {show(extent)}")
        self._driver.call("cuMemUnmap", self.address + extent.offset_bytes, self.segment_bytes)
        self._segment_at[place] = None
        del self._place_of[segment_index]
        self._first_hole = min(self._first_hole, place)
        self.num_unmaps += 1

    def backing(self, extent: Extent) -> tuple[int | None, ...]:
        """The segment under each place that `extent` touches; None: a hole."""
        return tuple(self._segment_at[place] for place in self._places(extent))

    def check_inside(self, extent: Extent) -> None:
        if extent.end_bytes > self.range_bytes:
            raise DeviceError(f"{show(extent)} ends beyond the reserved {self.range_bytes:,} B")

    def check_mapped(self, extent: Extent) -> None:
        """Raises DeviceError where `extent` leaves the arena or has no segment under it: a kernel that touched such
        bytes would take the whole context with it."""
        self.check_inside(extent)
        if extent.end_bytes <= self._first_hole * self.segment_bytes:
            return
        for place in self._places(extent):
            if self._segment_at[place] is None:
                hole = Extent(place * self.segment_bytes, self.segment_bytes)
                raise DeviceError(f"{show(extent)} reaches {show(hole)}, where nothing is mapped; map it first")

    def close(self) -> None:
        """Unmap what is mapped, release every segment, free the range. What fails is raised after the rest is done."""
        for place in self._place_of.values():
            self._held.add(
                self._driver.call, "cuMemUnmap", self.address + place * self.segment_bytes, self.segment_bytes
            )
        self._held.give_back()

    def _create(self, card: Card) -> object:
        try:
            return self._driver.call("cuMemCreate", self.segment_bytes, card.allocation_properties(), 0)
        except CudaFailure as failure:
            if failure.code != OUT_OF_MEMORY:
                raise
            have, num_wanted = len(self._segments) * self.segment_bytes, self.size_bytes // self.segment_bytes
            raise ConfigError(
                f"arena refused: {num_wanted} segments x {self.segment_bytes:,} B = {self.size_bytes:,} B, "
                f"{card.name} gave {have:,} B and has {card.free_bytes():,} B left of {card.total_bytes:,} B; "
                f"{self.size_bytes - have:,} B are missing: lower --vram"
            ) from failure

    def _place(self, extent: Extent) -> int:
        """The place that `extent` is exactly."""
        if extent.size_bytes != self.segment_bytes or extent.offset_bytes % self.segment_bytes:
            raise DeviceError(f"{show(extent)} is not one segment on the grid of {self.segment_bytes:,} B")
        self.check_inside(extent)
        return extent.offset_bytes // self.segment_bytes

    def _places(self, extent: Extent) -> Iterator[int]:
        if extent.size_bytes:
            yield from range(extent.offset_bytes // self.segment_bytes, -(-extent.end_bytes // self.segment_bytes))


def show(extent: Extent) -> str:
    return f"arena [{extent.offset_bytes}, {extent.end_bytes})"


def _check_grid(card: Card, *, arena_bytes: int, segment_bytes: int, behind_bytes: int) -> None:
    grid = card.granularity_bytes
    if segment_bytes <= 0 or segment_bytes % grid:
        raise ConfigError(
            f"arena refused: segment_bytes={segment_bytes:,} must be a multiple of the {grid:,} B that {card.name} "
            "maps at a time; change --vram-segment-mib"
        )
    if arena_bytes <= 0 or arena_bytes % segment_bytes:
        raise ConfigError(
            f"arena refused: arena_bytes={arena_bytes:,} must be whole segments of {segment_bytes:,} B, above 0"
        )
    if behind_bytes < 0 or behind_bytes % segment_bytes:
        raise ConfigError(
            f"arena refused: behind_bytes={behind_bytes:,} must be whole segments of {segment_bytes:,} B, 0 or more"
        )
