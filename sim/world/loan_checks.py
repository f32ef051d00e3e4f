"""What a request must lend, from its token ids and the switches alone, and whether the card saw that and nothing else.

Order and counts of acts hold for requests that nothing failed in; that every act is one of a loan, and that a second
window finds the block at home, hold always.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sim.interval import Spans
from sim.shadow import Shadow
from sim.streams import HOST, Operation
from sim.world.errors import WorldFault
from sim.world.geometry import Geometry
from sim.world.loans import (
    BLOCK,
    CACHE,
    GROWS,
    HEAD,
    MAP_BEHIND,
    MAP_HOME,
    MOVES,
    PROMPT,
    ROOM_CLOSES,
    ROOM_OPENS,
    SHRINKS,
    UNMAP_BEHIND,
    UNMAP_HOME,
    Lent,
    comes,
    goes,
)
from sim.world.slab_checks import Workplace
from strata.core.commands import Access, Copy, CopyPair, Launch
from strata.core.extent import Extent
from strata.core.memory.policy import NEVER
from strata.core.units import align_up

GRID_TOKENS = 256


@dataclass(slots=True)
class Journal:
    """Since a request began: words of the acts that took place, targets of ring copies in order, pieces of the block
    that went home, how many windows were launched, how many tokens the chunk of each read had room for, and where its
    programs worked."""

    words: list[str] = field(default_factory=list)
    entries: list[Extent] = field(default_factory=list)
    homes: list[Extent] = field(default_factory=list)
    num_windows: int = 0
    chunks: list[int] = field(default_factory=list)
    worked: dict[tuple[str, int], Launch] = field(default_factory=dict)

    @property
    def workplaces(self) -> list[Workplace]:
        return [Workplace(launch.program, launch.args.buffers) for launch in self.worked.values()]  # type: ignore[union-attr]

    @property
    def has_worked(self) -> bool:
        """Whether any program had something to work in."""
        return any(launch.args.buffers.scratch.size_bytes for launch in self.worked.values())  # type: ignore[union-attr]

    def note_launch(self, launch: Launch) -> None:
        """One for each program and pass stands for all, and keeps its buffers, so that their number is no other's."""
        self.worked[launch.program, id(launch.args.buffers)] = launch  # type: ignore[union-attr]

    def note_copy(self, command: Copy, *, drafter_layer: int) -> None:
        for pair in command.pairs:
            layer = _layer_of(pair)
            if layer == drafter_layer:
                self.homes.append(pair.target.extent)  # type: ignore[union-attr]
            elif layer is not None and pair.target.owner == PROMPT:  # type: ignore[union-attr]
                self.entries.append(pair.target.extent)  # type: ignore[union-attr]


def _layer_of(pair: CopyPair) -> int | None:
    """Of the blob that goes to the card; None for any other copy."""
    name = pair.target.content if isinstance(pair.target, Access) else None
    return None if name is None else _layer_named(name)


@lru_cache(maxsize=4096)
def _layer_named(name: str) -> int | None:
    return int(name.split()[1]) if name.startswith("blob ") else None


@dataclass(frozen=True, slots=True)
class Due:
    """`fresh_tokens` = n - read_from. `were_out`: the segments were lent when the request began. `has_chunks`: chunks
    are read, and not only windows."""

    fresh_tokens: int
    were_out: bool
    takes_segments: bool
    opens_room: bool
    has_chunks: bool = True


def what_is_due(geometry: Geometry, lent: Lent, *, fresh_tokens: int, were_out: bool) -> Due:
    """`lending.md` 3.1: at least so many fresh tokens, and the block is not away; 3.2: again from the threshold on,
    where something is read at all; 4, 4: windows read few tokens, and lend nothing but a room."""
    has_chunks = fresh_tokens > max(1, geometry.short_read_tokens)
    takes = geometry.is_elastic and not were_out and geometry.repeat_min_tokens != NEVER
    takes = takes and fresh_tokens >= geometry.repeat_min_tokens and has_chunks
    is_block_away = (were_out or takes) and lent.lends_block
    is_long = geometry.room_min_tokens != NEVER and fresh_tokens >= geometry.room_min_tokens
    return Due(fresh_tokens, were_out, takes, is_long and not is_block_away, has_chunks)


def check_start(journal: Journal, geometry: Geometry, lent: Lent) -> None:
    """The engine is ready with the elastic loan out, and with nothing else (`lending.md` 3.2)."""
    due = _release(lent, lends_cache=False) if geometry.is_elastic else []
    if _with_sorted_moves(journal.words) != _with_sorted_moves(due):
        raise WorldFault(f"ready after {journal.words}, due were {due}; the switches are {geometry.policy()}")


def check_acts(journal: Journal, lent: Lent, due: Due, *, is_whole: bool) -> None:
    """At the end of a request that nothing failed in. `is_whole`: it was answered, so whatever was due has happened;
    else it may have been given up before anything changed hands."""
    words = _with_sorted_moves(journal.words)
    lends_cache = goes(CACHE) in words
    paths = [_path(lent, due, lends_cache=lends_cache)]
    if not is_whole and not lends_cache:
        paths.append(_restore(lent, lends_cache=False) if due.were_out else [])
    if words not in [_with_sorted_moves(path) for path in paths]:
        raise WorldFault(f"{due} of {lent.num_segments} segments: acts were {words}, not {paths}")


def _path(lent: Lent, due: Due, *, lends_cache: bool) -> list[str]:
    opening = [ROOM_OPENS] if due.opens_room else []
    closing = [ROOM_CLOSES] if due.opens_room else []
    there = _release(lent, lends_cache=lends_cache) if due.takes_segments else [goes(CACHE)] * lends_cache
    is_out = due.were_out or due.takes_segments
    back = _restore(lent, lends_cache=lends_cache) if is_out else [comes(CACHE)] * lends_cache
    if not due.has_chunks:
        return [*back, *opening, *closing]
    return [*opening, *there, *back, *closing]


def _release(lent: Lent, *, lends_cache: bool) -> list[str]:
    """`lending.md` 3.2: verifier, drafter, prompt path, head, in this order, then grow."""
    first = [goes(name) for name, _ in lent.parts if name != HEAD]
    last = [goes(name) for name, _ in lent.parts if name == HEAD]
    moves = [UNMAP_HOME, MAP_BEHIND] * lent.num_segments
    return [*first, *[goes(CACHE)] * lends_cache, *last, *moves, GROWS]


def _restore(lent: Lent, *, lends_cache: bool) -> list[str]:
    first = [comes(name) for name, _ in lent.parts if name == HEAD]
    last = [comes(name) for name, _ in reversed(lent.parts) if name != HEAD]
    moves = [UNMAP_BEHIND, MAP_HOME] * lent.num_segments
    return [SHRINKS, *moves, *first, *[comes(CACHE)] * lends_cache, *last]


def _with_sorted_moves(words: Sequence[str]) -> list[str]:
    """Which of several segments goes first is nobody's business; the twin sees that each is free when it is mapped."""
    found: list[str] = []
    run: list[str] = []
    for word in [*words, ""]:
        if word in MOVES:
            run.append(word)
            continue
        found += [*sorted(run), word]
        run = []
    return found[:-1]


def check_ring(journal: Journal, geometry: Geometry, lent: Lent, due: Due) -> None:
    """Entry k of a read uses slot k mod ring; the room's slots lie behind the rule's, in the block, a stride apart, and
    are the ring's for as long as the room is open (`lending.md` 2, 3.1 and 6). Behind whole laps, the first of them at
    least, the ring may go round the rule's slots alone, so that those of the room can go home."""
    places = [extent.offset_bytes for extent in journal.entries]
    room = [slot.offset_bytes for slot in lent.room] if due.opens_room else []
    in_block = [lent.block.contains(extent) for extent in journal.entries]
    rule = in_block.index(True) if True in in_block else len(set(places) - set(room))
    if geometry.ring_slots is not None:
        rule = geometry.ring_slots
    ring = (places[:rule] + room)[: len(places)] if len(places) >= rule else places
    size = rule + len(room)
    beyond = next((k for k, place in enumerate(places) if place != ring[k % size]), None)
    narrows_at = max(size, beyond - beyond % size) if room and beyond is not None else len(places)
    right = [ring[k % size] if k < narrows_at else ring[(k - narrows_at) % rule] for k in range(len(places))]
    if places != right or len(set(ring)) != len(ring):
        raise WorldFault(f"{due} with {rule} slots and {len(room)} in the room: entries went to {places}, not {right}")


def check_chunk(journal: Journal, geometry: Geometry, due: Due, *, start_chunk_tokens: int) -> None:
    """No chunk is larger than the fresh tokens need, but that a first read may keep what was planned at start; and
    then it does (`lending.md` 3.2 and 6)."""
    if not due.has_chunks:
        right = []
    elif due.were_out and geometry.retains_startup:
        right = [start_chunk_tokens]
    elif geometry.chunk_tokens is not None:
        right = [geometry.chunk_tokens]
    else:
        right = list(range(GRID_TOKENS, align_up(max(1, due.fresh_tokens - 1), GRID_TOKENS) + 1, GRID_TOKENS))
    if set(journal.chunks) - set(right):
        raise WorldFault(f"{due}: chunks of {journal.chunks} tokens, {right} would do; at start {start_chunk_tokens}")


def check_reader(journal: Journal, due: Due) -> None:
    """Of a request that was answered: chunks read what is not short, and nothing else (`lending.md` 4, 4)."""
    if bool(journal.chunks) != due.has_chunks:
        raise WorldFault(f"{due}: chunks of {journal.chunks} tokens were read")


def check_homes(journal: Journal, lent: Lent, due: Due) -> None:
    """What the read wrote of the block went home, each byte once, and nothing else did (`lending.md` 3.1)."""
    if not due.opens_room:
        return
    written = {extent.offset_bytes for extent in journal.entries if lent.block.contains(extent)}
    dirty = [slot for slot in lent.room if slot.offset_bytes in written]
    wanted = [part for slot in dirty for part in _parts_in(slot, lent)]
    found = [(extent.offset_bytes, extent.end_bytes) for extent in journal.homes]
    num_bytes = sum(end - start for start, end in found)
    if list(Spans(found)) != list(Spans(wanted)) or num_bytes != sum(end - start for start, end in wanted):
        raise WorldFault(f"{len(dirty)} slots of the room were written: {sorted(wanted)}; home went {sorted(found)}")


def _parts_in(slot: Extent, lent: Lent) -> list[tuple[int, int]]:
    """The drafter's bytes that lie in `slot`."""
    first, behind = slot.offset_bytes, slot.end_bytes
    sides = [(max(blob.offset_bytes, first), min(blob.end_bytes, behind)) for blob in lent.blobs]
    return [(start, end) for start, end in sides if start < end]


def check_block_is_back(geometry: Geometry, lent: Lent, shadow: Shadow, index: int, command: object) -> None:
    """Before a second window: every blob of the block is the drafter's again, and the host knows that it is there
    (`lending.md` 5, invariants 7 and 21). Raises the twin's errors."""
    by = Operation(HOST, shadow.clocks.of(HOST)[HOST], index, command)
    for expert, extent in enumerate(lent.blobs):
        shadow.check_read(Access(extent, BLOCK, f"blob {geometry.num_layers} {expert}"), by)
