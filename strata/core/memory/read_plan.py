"""The geometry of one read: which chunk, which ring, and what it borrows for them.

    | ... | cache: resident slots            | lent slots and the bytes behind the last slot | moved segments |
                                             '- base: buffers, addresses, ring, slab, tail -------------------'

The largest chunk on the grid whose full ring still fits, and no larger than the fresh tokens need. Slots that the
chosen layout does not need are not lent. The room has no part in that choice (`lending.md` 6). Beside it a chunk that
streams borrows up to a third less for its ring, which with the room's slots has as many or one for each missing blob:
what is lent comes back over the link, as the block does, and is read over it meanwhile.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from strata.core.errors import Refusal
from strata.core.extent import Extent
from strata.core.inventory import ModelInventory
from strata.core.memory.bump import Bump
from strata.core.memory.layout import PromptLayout, carve_prompt, price_prompt
from strata.core.memory.scratch import price_scratch
from strata.core.memory.shapes import CHUNK_GRID_TOKENS, MAX_CHUNK_TOKENS, PlanOptions, Slot, ring_slots_of
from strata.core.units import align_up


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """`extent`: the bytes that the read works in; `lent`: the cache slots among them and `lent_extent` the bytes that
    the cache gives for them, none where reads have an arena of their own or moved segments are enough. Ring slots from
    `num_rule_slots` on are the room's."""

    layout: PromptLayout
    extent: Extent
    lent: tuple[Slot, ...]
    lent_extent: Extent
    num_rule_slots: int

    def with_room(self, room: tuple[Extent, ...]) -> "ReadPlan":
        """The same read, with the slots of the drafter's block behind those of the rule."""
        return replace(self, layout=replace(self.layout, ring=(*self.layout.ring, *room)))


@dataclass(frozen=True, slots=True)
class Lendable:
    """The cache's slots in address order and the end of its bytes; the last `max_lent` slots may be lent. `scratch`:
    the region for chunks whose programs need no more; None where a slab is cut for each. `num_room_slots`: further ring
    slots of a read that has a room."""

    slots: tuple[Slot, ...]
    end_bytes: int
    max_lent: int
    scratch: Extent | None
    num_room_slots: int = 0

    def extent_of(self, num_lent: int) -> Extent:
        """The last `num_lent` slots and everything behind them; without a slot no byte."""
        start = self.slots[len(self.slots) - num_lent].extent.offset_bytes if num_lent else self.end_bytes
        return Extent(start, self.end_bytes - start)


def plan_read(
    inventory: ModelInventory, lendable: Lendable, options: PlanOptions, *, path_tokens: int, behind_bytes: int = 0
) -> ReadPlan | Refusal:
    """Refused when not even the smallest chunk fits; the planner of the card tries the longest read first.
    `behind_bytes` are mapped behind the cache for this read."""
    scratch = lendable.scratch
    for chunk_tokens in chunks_to_try(options, path_tokens):
        if scratch is not None and scratch.size_bytes < price_scratch(inventory, chunk_tokens=chunk_tokens):
            continue
        rule = ring_slots_of(inventory, options, chunk_tokens=chunk_tokens)
        needed_bytes = price_prompt(inventory, chunk_tokens=chunk_tokens, ring_slots=rule, has_slab=scratch is None)
        if lendable.extent_of(lendable.max_lent).size_bytes + behind_bytes < needed_bytes:
            continue
        own = ring_slots_of(inventory, options, chunk_tokens=chunk_tokens, beside=lendable.num_room_slots)
        num_lent = _fewest_lent(lendable, needed_bytes - (rule - own) * inventory.stride_bytes - behind_bytes)
        num_missing = inventory.num_pairs - len(lendable.slots) + num_lent
        ring_slots = min(own, max(1, num_missing)) if options.ring_slots is None else rule
        lent_extent = lendable.extent_of(num_lent)
        extent = Extent(lent_extent.offset_bytes, lent_extent.size_bytes + behind_bytes)
        bump = Bump(extent.offset_bytes)
        layout = carve_prompt(bump, inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots, scratch=scratch)
        assert bump.offset_bytes <= extent.end_bytes, (bump.offset_bytes, extent)
        lent = lendable.slots[len(lendable.slots) - num_lent :]
        return ReadPlan(layout, extent, lent, lent_extent, ring_slots)
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
    return bisect_left(range(lendable.max_lent), needed_bytes, key=lambda num: lendable.extent_of(num).size_bytes)
