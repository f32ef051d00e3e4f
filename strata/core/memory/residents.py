"""Which blobs become resident: expert by expert over all layers, as far as the bytes reach."""

from collections.abc import Iterator

from strata.core.inventory import ModelInventory
from strata.core.memory.bump import Bump
from strata.core.memory.shapes import PlanOptions, Slot
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up


def slot_sizes(inventory: ModelInventory) -> Iterator[tuple[int, int, int]]:
    """(layer, expert, bytes of its slot) in the order in which blobs become resident: expert by expert over all layers,
    so that every layer keeps the same share."""
    for expert in range(inventory.num_experts):
        for layer, blob_bytes in enumerate(inventory.blob_bytes):
            if blob_bytes:
                yield layer, expert, align_up(blob_bytes, SLOT_ALIGNMENT_BYTES)


def fill_cache(bump: Bump, inventory: ModelInventory, arena_bytes: int, options: PlanOptions) -> tuple[Slot, ...]:
    """Slots up to `arena_bytes`, in address order."""
    slots: list[Slot] = []
    most = inventory.num_pairs if options.num_cache_slots is None else options.num_cache_slots
    for layer, expert, pair_bytes in slot_sizes(inventory):
        if len(slots) >= most or bump.offset_bytes + pair_bytes > arena_bytes:
            break
        slots.append(Slot(layer, expert, bump.take(pair_bytes).part(offset_bytes=0, size_bytes=pair_bytes)))
    return tuple(slots)
