"""The geometry of one read: which chunk, which ring, and how many cache slots it borrows for them.

    | ... | cache: resident slots            | lent slots and the bytes behind the last slot |
                                             '- base: buffers, addresses, ring, tail --------'

The largest chunk on the grid whose full ring still fits, and no larger than the fresh tokens need. Bytes that the
chosen layout does not need are not lent.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from strata.core.errors import Refusal
from strata.core.extent import Extent
from strata.core.inventory import ModelInventory
from strata.core.memory.layout import Bump, PromptLayout, carve_prompt, price_prompt
from strata.core.memory.shapes import CHUNK_GRID_TOKENS, MAX_CHUNK_TOKENS, PlanOptions, Slot, ring_rule
from strata.core.units import align_up


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """`extent`: the bytes that the read works in; `lent`: the cache slots among them, () where reads have an arena of
    their own. A read that borrows lends one slot at least, since its bytes are the cache's."""

    layout: PromptLayout
    extent: Extent
    lent: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Lendable:
    """The cache's slots in address order and the end of its bytes; the last `max_lent` slots may be lent."""

    slots: tuple[Slot, ...]
    end_bytes: int
    max_lent: int

    def extent_of(self, num_lent: int) -> Extent:
        """The last `num_lent` slots and everything behind them."""
        kept = len(self.slots) - num_lent
        start = self.slots[kept].extent.offset_bytes if num_lent else self.slots[-1].extent.end_bytes
        return Extent(start, self.end_bytes - start)


def plan_read(
    inventory: ModelInventory, lendable: Lendable, options: PlanOptions, *, path_tokens: int
) -> ReadPlan | Refusal:
    """Refused when not even the smallest chunk fits; the planner of the card tries the longest read first."""
    for chunk_tokens in chunks_to_try(options, path_tokens):
        rule = ring_rule(inventory, chunk_tokens=chunk_tokens) if options.ring_slots is None else options.ring_slots
        needed_bytes = price_prompt(inventory, chunk_tokens=chunk_tokens, ring_slots=rule)
        if lendable.extent_of(lendable.max_lent).size_bytes < needed_bytes:
            continue
        num_lent = _fewest_lent(lendable, needed_bytes)
        num_missing = inventory.num_pairs - len(lendable.slots) + num_lent
        ring_slots = min(rule, max(1, num_missing)) if options.ring_slots is None else rule
        extent = lendable.extent_of(num_lent)
        bump = Bump(extent.offset_bytes)
        layout = carve_prompt(bump, inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots)
        assert bump.offset_bytes <= extent.end_bytes, (bump.offset_bytes, extent)
        return ReadPlan(layout, extent, lendable.slots[len(lendable.slots) - num_lent :])
    lent_bytes = lendable.extent_of(lendable.max_lent).size_bytes
    return Refusal(
        f"no loan: a chunk needs {needed_bytes:,} B, the {lendable.max_lent:,} slots that may be lent have "
        f"{lent_bytes:,} B; lower --cache-min-slots or raise --vram",
        needed_bytes - lent_bytes,
    )


def chunks_to_try(options: PlanOptions, path_tokens: int) -> Iterator[int]:
    """Chunks worth trying for `path_tokens`, largest first: the one that was asked for, or all on the grid."""
    if options.chunk_tokens is not None:
        yield options.chunk_tokens
        return
    bound_tokens = MAX_CHUNK_TOKENS if options.max_chunk_tokens is None else options.max_chunk_tokens
    longest = min(bound_tokens, align_up(path_tokens, CHUNK_GRID_TOKENS))
    yield from range(longest // CHUNK_GRID_TOKENS * CHUNK_GRID_TOKENS, CHUNK_GRID_TOKENS - 1, -CHUNK_GRID_TOKENS)


def _fewest_lent(lendable: Lendable, needed_bytes: int) -> int:
    """How many slots must be lent to have `needed_bytes`, which all that may be lent together have."""
    low, high = 1, lendable.max_lent
    while low < high:
        middle = (low + high) // 2
        if lendable.extent_of(middle).size_bytes >= needed_bytes:
            high = middle
        else:
            low = middle + 1
    return low
