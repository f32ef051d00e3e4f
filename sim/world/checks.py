"""What must hold in a world beside the twin's own checks. Judges by the twin's facts and the model's sizes; the books
of the engine are compared with them, never trusted.
"""

from dataclasses import dataclass

from sim.world.card import Card
from sim.world.errors import WorldFault as WorldFault
from sim.world.geometry import Geometry
from sim.world.loans import Rows
from sim.world.slab_checks import most_work_bytes
from sim.world.table_checks import check_addresses
from strata.core.extent import Extent
from strata.core.lending.ledger import Ledger
from strata.core.lending.segments import Backing
from strata.core.memory.policy import DEFAULT_MIN_CACHE_SLOTS
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up

MAX_LENT_PERCENT, MAX_LENT_OF_PAGEABLE = 90, 85
"""The latter where less than 90% of the expert bytes are pinned."""
GRID_TOKENS = 256
MIN_STREAM_SLOTS = 16
NUM_BUFFERS = 16
"""At most so many are carved for a read, each with some bytes of alignment."""


@dataclass(frozen=True, slots=True)
class AtStart:
    """What a world must look like again whenever nothing is open."""

    owners: Rows
    num_segments: int  # which of them backs which place, captured graphs know
    blobs: dict[str, Extent]  # resident when serving began, by content name


def look(card: Card) -> AtStart:
    """The elastic loan of the start is out by now, so owners and segments are those before it."""
    home = card.device.home
    assert home is not None
    return AtStart(home.owners, home.num_segments, resident_blobs(card))


def is_out(card: Card) -> bool:
    """Whether anything is mapped behind the arena."""
    num_places = card.geometry.arena_bytes // card.geometry.segment_bytes
    return any(index is not None for index in card.device.backing()[num_places:])


def owner_rows(card: Card) -> Rows:
    return card.device.card_map()


def resident_blobs(card: Card) -> dict[str, Extent]:
    """Content name -> bytes, as the twin knows them, of everything under the cache that is a blob. What is left of a
    larger one behind a smaller that took its place is none."""
    shadow = card.device._shadow.vram
    found: dict[str, Extent] = {}
    for offset, size, owner in owner_rows(card):
        if owner != "cache":
            continue
        for start, end, content in shadow.content_rows(Extent(offset, size)):
            if content is not None and content.name is not None:
                if end - start != card.geometry.blob_bytes[int(content.name.split()[1])]:
                    continue
                if content.name in found:
                    raise WorldFault(f"{content.name} is resident twice, at {found[content.name]} and at {start}")
                found[content.name] = Extent(start, end - start)
    return found


class BookWatch:
    """The engine's books, with what it ordered since, and the twin's map say the same of every byte and segment. What
    neither side has changed since it was compared is not compared again."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._ledger: Ledger | None = None
        self._backing: Backing | None = None
        self._num_changes = -1

    def check(self) -> None:
        runner, num_changes = self._card.runner, self._card.device.num_changes
        at = runner._state.at.booked(runner._num_acts)
        if at.ledger is self._ledger and at.backing is self._backing and num_changes == self._num_changes:
            return
        _check_owners(self._card, at.ledger)
        _check_segments(self._card, at.backing)
        self._ledger, self._backing, self._num_changes = at.ledger, at.backing, num_changes


def _check_owners(card: Card, ledger: Ledger) -> None:
    books: list[tuple[int, int, str]] = []
    for holding in ledger.holdings:
        if not holding.owner:
            continue
        start, end = holding.extent.offset_bytes, holding.extent.end_bytes
        if books and books[-1][2] == holding.owner and books[-1][1] == start:
            start = books.pop()[0]
        books.append((start, end, holding.owner))
    twin = [(start, start + size, owner) for start, size, owner in owner_rows(card) if owner]
    if books != twin:
        raise WorldFault(f"the ledger says {books}, the twin says {twin}")


def _check_segments(card: Card, backing: Backing) -> None:
    if not card.lent.num_segments:
        return
    found = {index: place * card.lent.segment_bytes for place, index in enumerate(card.device.backing())}
    places = backing.places
    if [place and place.offset_bytes for place in places] != [found.get(i) for i in range(len(places))]:
        raise WorldFault(
            f"by the books the segments of {card.lent.zone} back {places}, the twin has {card.device.backing()}"
        )


def check_rest(card: Card, start: AtStart) -> None:
    """Nothing is open: every byte is where it was, every blob in its slot, every segment under its home, and a drafter
    may read all that it has."""
    rows = owner_rows(card)
    if rows != start.owners:
        raise WorldFault(f"owners at rest {rows}, at start {start.owners}")
    found = resident_blobs(card)
    if card.geometry.num_swaps:
        places = [sorted(extent.offset_bytes for extent in blobs.values()) for blobs in (found, start.blobs)]
        if places[0] != places[1]:
            raise WorldFault(f"slots that hold a blob at rest {places[0]}, at start {places[1]}")
    elif found != start.blobs:
        lost = {name: extent for name, extent in start.blobs.items() if found.get(name) != extent}
        raise WorldFault(f"blobs not in their slots: {lost}")
    if None in card.device.backing()[: start.num_segments]:
        raise WorldFault(f"segments at rest {card.device.backing()}, not all of {start.num_segments} are at home")
    if card.lent.block.size_bytes:
        card.device.draft()
    shadow, num_experts = card.device._shadow, card.geometry.num_experts
    pinned_bytes = card.plan.pack.size_bytes if card.geometry.pinned_bytes is None else card.geometry.pinned_bytes
    check_addresses(shadow, card.payload, card.blobs, found, num_experts=num_experts, pinned_bytes=pinned_bytes)
    for (layer, expert), blob in card.blobs.items():
        extent = found.get(f"blob {layer} {expert}")
        if extent is not None and bytes(card.payload.arena(extent)) != blob:
            raise WorldFault(f"blob {layer} {expert} at {extent} has other bytes than the model")


def check_loan(card: Card, start: AtStart, *, path_tokens: int) -> None:
    """A loan is out: was one needed, is it small enough, and does the cache keep what it must (`lending.md` 3.4)?"""
    geometry = card.geometry
    if path_tokens == 0:
        raise WorldFault("slots are lent to a request that reads nothing")
    kept, total = len(resident_blobs(card)), len(start.blobs)
    floor = DEFAULT_MIN_CACHE_SLOTS if geometry.min_cache_slots is None else geometry.min_cache_slots
    expert_bytes, pinned_bytes = sum(geometry.blob_bytes) * geometry.num_experts, geometry.pinned_bytes
    is_pinned = pinned_bytes is None or 10 * pinned_bytes >= 9 * expert_bytes
    if kept < floor or (total - kept) * 100 > total * (MAX_LENT_PERCENT if is_pinned else MAX_LENT_OF_PAGEABLE):
        raise WorldFault(f"{total - kept} of {total} slots are lent, {kept} kept; the floor is {floor} slots")
    is_block = card.lent.block.offset_bytes
    rows = [(at, size) for at, size, owner in owner_rows(card) if owner == "prompt" and at != is_block]
    lent = sorted(extent for extent in start.blobs.values() if any(a <= extent.offset_bytes < a + n for a, n in rows))
    if len(lent) < 2:
        return
    lent_bytes = sum(size for _, size in rows)
    without_first_bytes = lent_bytes - (lent[1].offset_bytes - lent[0].offset_bytes)
    enough_bytes = _most_needed_bytes(geometry, path_tokens)
    if without_first_bytes > enough_bytes:
        raise WorldFault(
            f"{lent_bytes} B in {len(lent)} slots are lent to read {path_tokens} tokens, {enough_bytes} B would do"
        )


def _most_needed_bytes(geometry: Geometry, path_tokens: int) -> int:
    """Of the largest chunk and ring that a read of `path_tokens` may have, by the sizes that `PassBuffers` documents:
    id, hidden, normed, attention, router ids and weights, and expert rows of each token, and with a drafter the token
    behind it; then addresses and slots."""
    row_bytes = 4 + 16 + 16 + 4 * 2 * 4 + geometry.num_experts_used * (4 + 4 + 16) + 4 * (geometry.drafter_experts > 0)
    longest = align_up(path_tokens, GRID_TOKENS)
    chunk_tokens = geometry.chunk_tokens or min(longest, geometry.max_chunk_tokens or longest)
    num_pairs = geometry.num_experts * len(geometry.blob_bytes)
    ring_slots = geometry.ring_slots or max(MIN_STREAM_SLOTS, num_pairs)
    stride_bytes = align_up(max(geometry.blob_bytes), SLOT_ALIGNMENT_BYTES)
    tables_bytes = num_pairs * 8 + geometry.num_experts * 4
    slab_bytes = most_work_bytes(geometry, chunk_tokens) if geometry.has_slab else 0
    buffers_bytes = row_bytes * chunk_tokens + tables_bytes + NUM_BUFFERS * SLOT_ALIGNMENT_BYTES
    return buffers_bytes + ring_slots * stride_bytes + slab_bytes
