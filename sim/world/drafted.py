"""What a drafter's cells must hold, and which drafts follow from them: of token ids alone, whatever was read or taken
over, and written beside `draft_programs.py`. (`docs/design.md`, decision 130)

    cell p      of token p and the token behind it; so a session of n tokens has n - 1 of them
    drafts      cells of all tokens before the one that was sampled last; then one draft a step, each of which leaves a
                cell that is of a draft, until the next drafts write over it
    last row    where recurrent layers are, the hidden row of the last token lies with their state
    rest        cells from the last token's on are nobody's, so the world empties them
"""

import struct
from zlib import crc32

from sim.world.card import Card
from sim.world.errors import WorldFault
from sim.world.geometry import FEW_TOKENS, Geometry
from sim.world.hashing import draft_cells, draft_rows, likelihood, mix
from strata.core import programs
from strata.core.extent import Extent

CELL_BYTES = 4
Ids = tuple[int, ...]


def cells_between(ids: Ids) -> bytes:
    """A cell for each of `ids` but the last."""
    return draft_cells(draft_rows(ids[:-1], ids[1:]), 0)


def hidden_row(geometry: Geometry, ids: Ids) -> bytes:
    """The one of the last of `ids`, which the next token makes a cell of; none where that token is read again."""
    return struct.pack("<i", ids[-1]).ljust(geometry.kept_row_bytes, b"\0") if geometry.kept_row_bytes else b""


class DrafterWatch:
    """`is_on`: whether there is a drafter, and windows have rows for it."""

    def __init__(self, card: Card) -> None:
        self._card, self._geometry = card, card.geometry
        self.is_on = card.geometry.drafts
        self.drafts: Ids = ()  # of the window under way, all of them

    def parked(self, ids: Ids) -> bytes:
        """What lies in host memory of that conversation, which was parked from rest."""
        return cells_between(ids) + bytes(CELL_BYTES) if self.is_on else b""

    def draft(self, ids: Ids, *, num_left: int) -> Ids:
        """The drafts that the next window has, whose first token is the last of `ids`; the reply has `num_left` tokens
        to come. A drafter drafts for a whole window, and not where the context ends before it has."""
        geometry, position = self._geometry, len(ids) - 1
        most, self.drafts = min(geometry.window_rows, num_left) - 1, ()
        if most < 1 or position + geometry.window_rows - 3 >= geometry.context_tokens:
            return ()
        cells, row, found, chances = cells_between(ids), 0, list[int](), list[float]()
        for step in range(geometry.window_rows - 1):
            if step:
                cells += draft_cells(draft_rows([row], found[-1:]), position + step - 1)
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

    def check_rest(self, held: Ids, *, is_torn: bool) -> None:
        """Nothing is open, and the session has these tokens; `is_torn`: recurrent state is anything."""
        if not self.is_on:
            return
        self.drafts = ()
        whole, right = self._card.plan.kv[self._geometry.num_layers], cells_between(held)
        half = whole.size_bytes // 2
        for offset_bytes in (0, half):
            found = self._card.payload.arena(Extent(whole.offset_bytes + offset_bytes, half))
            if bytes(found[: len(right)]) != right:
                wrong = next(p for p in range(len(held)) if found[4 * p : 4 * p + 4] != right[4 * p : 4 * p + 4])
                raise WorldFault(f"cell {wrong} of the drafter, of {len(held)}, is not what its tokens say")
            found[len(right) :] = bytes(half - len(right))
        if held and not is_torn and (row := hidden_row(self._geometry, held)):
            kept = self._card.plan.state[self._geometry.num_layers]
            if bytes(self._card.payload.arena(kept)) != row:
                raise WorldFault(f"the drafter does not have the hidden row of the last of {len(held)} tokens")
