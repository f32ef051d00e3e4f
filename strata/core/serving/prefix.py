"""How much of a prompt need not be read again: the live session.

K/V cells stay where they are when a request ends. A session says which token ids they hold; the next prompt reuses
the longest run of equal ids from the start, compared by id and never by text, and at most n - 1 of its n tokens: the
last one always goes through a window, since that is what gives logits (`lending.md` 5, invariants 38-40).

    session   a b c d e f          cells 0..5 hold these ids
    prompt    a b c x y            read_from = 3; cells 3.. are overwritten, and the session is a b c from then on

A recurrent layer has no cells: its state stands where the session ends, and nowhere else. A model that has one takes
the whole session over, or goes on from a checkpoint in it (`checkpoints.py`), or takes nothing of it.
"""

from dataclasses import dataclass
from itertools import compress, count
from operator import ne

from strata.core.inventory import StateKind

PLAIN = frozenset({StateKind.KV})
REWINDABLE = PLAIN | {StateKind.PAIRS}
"""Kinds of state that hold every position up to their own. A kind that is not listed can only be extended."""


def can_rewind(kinds: frozenset[StateKind]) -> bool:
    """Whether a session of these kinds of state, cut short, is still a session."""
    return kinds <= REWINDABLE


@dataclass(frozen=True, slots=True)
class Session:
    """Cell i of K/V holds the state of `ids[i]`, for every i: nothing else may be assumed of any cell. Recurrent
    state is what it is after all of `ids`; where there are none, or `is_torn`, it is anything."""

    ids: tuple[int, ...] = ()
    is_torn: bool = False

    def usable(self, ids: tuple[int, ...], kinds: frozenset[StateKind] = REWINDABLE) -> int:
        """How many of `ids`, from the first on, need not be read by a model whose state is of `kinds`."""
        most = min(len(self.ids), len(ids))
        shared = next(compress(count(), map(ne, self.ids, ids)), most)
        is_whole = shared == len(self.ids) and not self.is_torn
        return shared if is_whole or can_rewind(kinds) else 0

    def read_from(self, prompt_ids: tuple[int, ...], kinds: frozenset[StateKind] = PLAIN) -> int:
        """First position of `prompt_ids` that must be read. A drafter's last cell below it was made with a token that
        may not follow any more. State that can be rewound goes back one token for it; what cannot has the hidden row
        that makes it anew (`drafting.py`)."""
        num_usable = self.usable(prompt_ids[:-1], kinds)
        return max(0, num_usable - (StateKind.PAIRS in kinds and can_rewind(kinds)))

    def holds(self, ids: tuple[int, ...], kinds: frozenset[StateKind] = REWINDABLE) -> bool:
        """Whether what goes on from exactly `ids` could go on from here."""
        return self.usable(ids, kinds) == len(ids)

    def after_giving_up(self, kinds: frozenset[StateKind]) -> "Session":
        """What is left when a chunk behind the session was read in part: cells behind the end are nobody's, but
        recurrent state has moved on in some layers and not in others. Checkpoints in the session still stand."""
        return Session(self.ids, is_torn=not can_rewind(kinds))

    def kept(self, num_tokens: int) -> "Session":
        """What is left once cells from `num_tokens` on are overwritten."""
        assert 0 <= num_tokens <= len(self.ids), (num_tokens, len(self.ids))
        return Session(self.ids[:num_tokens])

    def grown(self, *ids: int) -> "Session":
        """After `ids` were written into the cells that follow."""
        return Session(self.ids + ids)


NO_SESSION = Session()
