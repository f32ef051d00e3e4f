"""Which blob lies in which slot of the expert cache, how often each is read, and which are worth exchanging.

Slots stay where the plan put them; what lies in them may change between two windows (*swap*), by the commands of
`serving/swapping.py`. A blob goes into any slot that it fits. It is judged by its *heat*: the share of windows that
read it, as a mean that forgets. Every `swap_windows` windows the reads since are taken in; then the hottest blobs
without a slot take the places of the coldest that have one. A swap costs one blob over the link, as much as one read of
a missing blob, so it pays only after some windows: the newcomer must be hotter by a quarter and by MIN_GAIN, or two
blobs of about one heat would take turns.
"""

from dataclasses import dataclass, replace

from strata.core.inventory import ModelInventory
from strata.core.memory.shapes import Slot

EVERY_WINDOW = 1 << 16
"""The heat of a blob that every window reads."""
MEMORY_ROUNDS = 8
"""The reads of one round count for one part in so many: with 16 windows a round, heat is a mean over some 128."""
MIN_GAIN = EVERY_WINDOW // 32
"""Such a swap has paid after 32 windows, if those to come are like those before."""


@dataclass(frozen=True, slots=True)
class Residency:
    """`slots`: what lies in each slot, or is on its way: to those of `moving` (indices), which no table names, and to
    those of `landing`, which are named by one that was ordered and whose notice is awaited. `heat` of each blob, flat
    [num_layers, num_experts], as of `num_windows` windows ago; () where nothing was counted yet. `is_fresh`: it was not
    chosen by since."""

    slots: tuple[Slot, ...]
    heat: tuple[int, ...] = ()
    num_windows: int = 0
    is_fresh: bool = False
    moving: tuple[int, ...] = ()
    landing: tuple[int, ...] = ()

    def after_window(self, reads: tuple[int, ...]) -> "Residency":
        """One more window is done. `reads` of each blob since they came last, at most one a window; () where they do
        not come with this one. Windows that read a prompt are none of these."""
        num_windows = self.num_windows + 1
        if not reads:
            return replace(self, num_windows=num_windows)
        assert max(reads) <= num_windows, (max(reads), num_windows)
        part = EVERY_WINDOW // num_windows
        pairs = zip(self.heat or (0,) * len(reads), reads, strict=True)
        heat = tuple(before + (part * count - before) // MEMORY_ROUNDS for before, count in pairs)
        return replace(self, heat=heat, num_windows=0, is_fresh=True)

    def exchanged(self, inventory: ModelInventory, *, most: int, is_free: bool = False) -> "Residency":
        """With up to `most` blobs on their way to slots of colder ones, hottest first, each to the coldest that it
        fits. `is_free`: it costs nothing, so any gain will do."""
        slots, heat, num_experts = list(self.slots), self.heat, inventory.num_experts
        held = [slot.layer * num_experts + slot.expert for slot in slots]
        least = [heat[pair] if is_free else heat[pair] + heat[pair] // 4 + MIN_GAIN for pair in held]
        coldest = sorted(range(len(slots)), key=least.__getitem__)
        floor, too_large = min(least, default=0), max(inventory.blob_bytes) + 1
        moving: list[int] = []
        hotter = [pair for pair in sorted(set(range(len(heat))).difference(held)) if heat[pair] > floor]
        for pair in sorted(hotter, key=heat.__getitem__, reverse=True):
            layer, expert = divmod(pair, num_experts)
            size_bytes = inventory.blob_bytes[layer]
            if len(moving) == most or size_bytes >= too_large:
                continue
            index = next((i for i in coldest if slots[i].extent.size_bytes >= size_bytes), None)
            if index is None or heat[pair] <= least[index]:
                too_large = size_bytes  # no colder blob so large gets a slot either
                continue
            slots[index] = replace(slots[index], layer=layer, expert=expert)
            coldest.remove(index)
            moving.append(index)
        return replace(self, slots=tuple(slots), moving=tuple(sorted(moving)), is_fresh=False)

    def landed(self) -> "Residency":
        """A table that names what is on its way was ordered."""
        return replace(self, moving=(), landing=self.moving)
