"""What may be lent in a world, and every act on bytes in the words of `docs/lending.md` 3.1, 3.2 and 3.4.

    at home   | verifier | block | draft head | head | ...                   cache |
              '-- segments that move: whole ones --'
    lent      |                                           ... cache gives its tail | behind: the same segments |

Knows sizes from the geometry and places from the twin, at the moment when everything was at home for the first time;
of the core's plan, loans and books it knows nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from sim.world.errors import WorldFault
from sim.world.geometry import Geometry
from strata.core.commands import Map, Transfer, Unmap
from strata.core.extent import Extent
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up

Act = Map | Unmap | Transfer
Rows = tuple[tuple[int, int, str], ...]
"""Offset, size, owner."""
CACHE, PROMPT, NOBODY, BLOCK, HEAD = "cache", "prompt", "", "block", "head"
ROOM_OPENS, ROOM_CLOSES, GROWS, SHRINKS = "room opens", "room closes", "prompt path grows", "prompt path shrinks"
UNMAP_HOME, MAP_BEHIND, UNMAP_BEHIND, MAP_HOME = "unmap home", "map behind", "unmap behind", "map home"
MOVES = frozenset({UNMAP_HOME, MAP_BEHIND, UNMAP_BEHIND, MAP_HOME})


@dataclass(frozen=True, slots=True)
class Home:
    """The twin's facts when everything was at home: who owned what, and how many segments backed the arena.
    `named`: what was written under a name by then, as (start, end, name)."""

    owners: Rows
    num_segments: int
    named: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Lent:
    """`blobs`: of the drafter, one for each of its experts in the block. `room`: the ring slots that the block has room
    for. `parts`: what lies in the segments that move, in the order of release, the head last; (name, bytes)."""

    block: Extent
    blobs: tuple[Extent, ...]
    room: tuple[Extent, ...]
    parts: tuple[tuple[str, Extent], ...]
    num_segments: int
    segment_bytes: int
    behind: Extent

    @property
    def zone(self) -> Extent:
        return Extent(0, self.num_segments * self.segment_bytes)

    @property
    def lends_block(self) -> bool:
        return any(name == BLOCK for name, _ in self.parts)

    def word(self, act: Act) -> str:
        """Raises WorldFault for what no rule provides for: any bytes, anybody, any place."""
        match act:
            case Transfer(extent, giver, taker, in_place):
                found = self._room_word(act) if in_place else self._transfer_word(extent, giver, taker)
            case Unmap(extent):
                found = self._place_word(extent, home=UNMAP_HOME, behind=UNMAP_BEHIND)
            case Map(_, extent):
                found = self._place_word(extent, home=MAP_HOME, behind=MAP_BEHIND)
        if not found:
            raise WorldFault(f"{act} is part of no loan; what may be lent is {self}")
        return found

    def _room_word(self, act: Transfer) -> str:
        if act.extent != self.block:
            return ""
        return {(BLOCK, PROMPT): ROOM_OPENS, (PROMPT, BLOCK): ROOM_CLOSES}.get((act.giver, act.taker), "")

    def _transfer_word(self, extent: Extent, giver: str, taker: str) -> str:
        if {giver, taker} == {CACHE, PROMPT}:
            return goes(CACHE) if giver == CACHE else comes(CACHE)
        if extent == self.behind:
            return {(NOBODY, PROMPT): GROWS, (PROMPT, NOBODY): SHRINKS}.get((giver, taker), "")
        for name, part in self.parts:
            if extent == part and (giver, taker) == (name, NOBODY):
                return goes(name)
            if extent == part and (giver, taker) == (NOBODY, name):
                return comes(name)
        return ""

    def _place_word(self, extent: Extent, *, home: str, behind: str) -> str:
        if extent.end_bytes <= self.num_segments * self.segment_bytes:
            return home
        return behind if self.behind.contains(extent) else ""


def block_blobs(geometry: Geometry, block: Extent) -> tuple[Extent, ...]:
    """The bytes of each expert of the drafter, where its block lies."""
    slot_bytes = block.size_bytes // geometry.drafter_experts if geometry.drafter_experts else 0
    size_bytes = geometry.drafter_blob_bytes
    return tuple(
        block.part(offset_bytes=expert * slot_bytes, size_bytes=size_bytes)
        for expert in range(geometry.drafter_experts)
    )


@cache
def goes(name: str) -> str:
    return f"{name} goes"


@cache
def comes(name: str) -> str:
    return f"{name} comes"


def what_is_lent(geometry: Geometry, home: Home, *, arena_bytes: int) -> Lent:
    """Raises WorldFault where the card at home is not laid out as `lending.md` 3.1 and 3.2 have it."""
    place = {owner: Extent(start, size) for start, size, owner in home.owners}
    block = place.get(BLOCK, Extent(0, 0))
    block_bytes = geometry.drafter_experts * align_up(geometry.drafter_blob_bytes, SLOT_ALIGNMENT_BYTES)
    if block.size_bytes != block_bytes:
        raise WorldFault(f"the block is {block}, the drafter's experts have {block_bytes} B")
    stride_bytes = align_up(max(geometry.blob_bytes), SLOT_ALIGNMENT_BYTES)
    room = tuple(
        Extent(block.offset_bytes + i * stride_bytes, stride_bytes)
        for i in range(block_bytes // stride_bytes if stride_bytes else 0)
    )
    parts = tuple(_parts(geometry, home, place))
    num_segments = parts[-1][1].end_bytes // geometry.segment_bytes if parts else 0
    end_bytes = num_segments * geometry.segment_bytes
    cut = tuple(
        (name, Extent(part.offset_bytes, min(part.end_bytes, end_bytes) - part.offset_bytes))
        for name, part in parts
        if part.offset_bytes < end_bytes
    )
    behind = Extent(arena_bytes, end_bytes)
    lent = Lent(block, block_blobs(geometry, block), room, cut, num_segments, geometry.segment_bytes, behind)
    early = [row for row in home.named if row[0] < end_bytes and geometry.is_elastic]
    if early:
        raise WorldFault(f"{early} were loaded into segments that are lent from the start")
    return lent


def _parts(geometry: Geometry, home: Home, place: dict[str, Extent]) -> Iterator[tuple[str, Extent]]:
    """What the switches lend lies in front, without a gap, in the order of release."""
    if not geometry.is_elastic:
        return
    names = ["verifier"]
    names += [BLOCK, "draft head"] if geometry.lends_block else []
    names += [HEAD] if geometry.lends_head else []
    names = [name for name in names if name in place]
    front = [owner for _, _, owner in home.owners[: len(names)]]
    if front != names:
        raise WorldFault(f"the arena starts with {front}, the elastic loan lends {names}")
    yield from ((name, place[name]) for name in names)
