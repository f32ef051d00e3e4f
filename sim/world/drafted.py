"""What a drafter's cells must hold, and which drafts follow from them: from token ids and the windows that there were
alone, and written beside `draft_programs.py`.

    a read      cell p = of token p and the token behind it, for every p that is read
    drafts      cells of the rows that stand of the last window, likewise; then one draft a step, each of which leaves a
                cell that is of a draft, until the next drafts write over it
    rest        cells behind the session are nobody's, so the world empties them; all others must be what is said here

Pairs of a reply's last window are taken in by nobody: there cells keep what they have, and what that is is known here.
"""

import struct
from zlib import crc32

from sim.world.card import Card
from sim.world.errors import WorldFault
from sim.world.geometry import FEW_TOKENS
from sim.world.hashing import draft_cells, draft_rows, likelihood, mix
from strata.core import programs
from strata.core.extent import Extent

CELL_BYTES = 4
Ids = tuple[int, ...]


class DrafterWatch:
    """`is_on`: whether there is a drafter, and windows have rows for it."""

    def __init__(self, card: Card) -> None:
        self._card, self._geometry = card, card.geometry
        self.is_on = card.geometry.drafts
        self._cells = bytearray(CELL_BYTES * card.geometry.context_tokens)
        self._parked: dict[Ids, bytes] = {}
        self.drafts: Ids = ()  # of the window under way, all of them

    def cells(self, num_tokens: int) -> bytes:
        """Those of the first tokens; none where nothing drafts."""
        return bytes(self._cells[: CELL_BYTES * num_tokens]) if self.is_on else b""

    def parked(self, ids: Ids) -> bytes:
        """What went to host memory with that conversation."""
        return self._parked[ids] if self.is_on else b""

    def note_read(self, ids: Ids, start: int, end: int) -> None:
        """Tokens [start, end) of a prompt are through all layers."""
        self._take_in(ids, start, end)

    def note_parked(self, ids: Ids) -> None:
        self._parked[ids] = self.cells(len(ids))

    def note_restored(self, ids: Ids, start: int, end: int) -> None:
        """Cells [start, end) are on the card again."""
        if self.is_on:
            part = slice(CELL_BYTES * start, CELL_BYTES * end)
            self._cells[part] = self._parked[ids][part]

    def draft(self, ids: list[int], *, num_standing: int, num_left: int) -> Ids:
        """The drafts that the next window has, whose first token is the last of `ids`, behind one of which
        `num_standing` rows stood; the reply has `num_left` tokens to come. A drafter drafts for a whole window, and
        not where the context ends before it has."""
        geometry, position = self._geometry, len(ids) - 1
        most, self.drafts = min(geometry.window_rows, num_left) - 1, ()
        if most < 1 or position + geometry.window_rows - 3 >= geometry.context_tokens:
            return ()
        self._take_in(tuple(ids), position - num_standing, position)
        row, found, chances = 0, list[int](), list[float]()
        for step in range(geometry.window_rows - 1):
            end = position + step
            if step:
                self._put(draft_cells(draft_rows([row], found[-1:]), end - 1), end - 1)
            cells = self._cells[: CELL_BYTES * end]
            mark = mix(crc32(cells, crc32(cells)), programs.COMBINE, geometry.layers.stop)
            row = mix(mark, programs.DRAFT_HEAD, 0)
            found.append(FEW_TOKENS[row % len(FEW_TOKENS)])
            chances.append(likelihood(row))
        self.drafts = tuple(found)
        unlikely = [100 * chance < geometry.least_draft_percent for chance in chances[:most]]
        return self.drafts[: unlikely.index(True) if True in unlikely else most]

    def check_drafts(self) -> None:
        """A window is done: what it took for drafts still lies behind its first token."""
        if self.drafts:
            tokens = self._card.plan.verifier.buffers.tokens
            place = tokens.part(offset_bytes=CELL_BYTES, size_bytes=CELL_BYTES * len(self.drafts))
            drafts = struct.unpack(f"<{len(self.drafts)}i", self._card.payload.arena(place))
            if drafts != self.drafts:
                raise WorldFault(f"the drafter's drafts are {drafts}, {self.drafts} are right")

    def check_rest(self, num_tokens: int) -> None:
        """Nothing is open, and the session has so many tokens."""
        if not self.is_on:
            return
        whole, right = self._card.plan.kv[self._geometry.num_layers], self.cells(num_tokens)
        half = whole.size_bytes // 2
        for offset_bytes in (0, half):
            found = self._card.payload.arena(Extent(whole.offset_bytes + offset_bytes, half))
            if bytes(found[: len(right)]) != right:
                wrong = next(p for p in range(num_tokens) if found[4 * p : 4 * p + 4] != right[4 * p : 4 * p + 4])
                raise WorldFault(f"cell {wrong} of the drafter, of {num_tokens}, is not what its tokens say")
            found[len(right) :] = bytes(half - len(right))
        self._cells[len(right) :] = bytes(half - len(right))
        self.drafts = ()

    def _take_in(self, ids: Ids, start: int, end: int) -> None:
        if self.is_on and start < end:
            self._put(draft_cells(draft_rows(ids[start:end], ids[start + 1 : end + 1]), start), start)

    def _put(self, cells: bytes, position: int) -> None:
        start = CELL_BYTES * position
        self._cells[start : start + len(cells)] = cells
