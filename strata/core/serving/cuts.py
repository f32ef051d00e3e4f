"""Where a conversation is cut: positions at which a read writes its recurrent state out, so that a checkpoint may stand
there (`lending.md` 2).

    ids     s u u u E a a a E u ...          E ends a turn
    cuts            ^       ^                positions 5 and 9: behind the token that ends a turn

A function of token ids alone: neither chunks nor what was cached moves a cut, so warm and cold reads cut at the same
places and leave the same bits.
"""

from collections.abc import Sequence

CUT_EVERY_TOKENS = 2048
"""The longest stretch without a cut."""


def next_cut(ids: Sequence[int], *, last_cut: int, turn_ends: frozenset[int]) -> int | None:
    """The first cut behind `last_cut`, which is one or 0; None where `ids` end before it."""
    furthest = last_cut + CUT_EVERY_TOKENS
    for position in range(last_cut + 1, min(furthest, len(ids)) + 1):
        if position == furthest or ids[position - 1] in turn_ends:
            return position
    return None


def cuts_of(ids: Sequence[int], *, turn_ends: frozenset[int]) -> tuple[int, ...]:
    """All cuts, in order. Those of a longer conversation that begins with `ids` begin with these."""
    cuts: list[int] = []
    while (cut := next_cut(ids, last_cut=cuts[-1] if cuts else 0, turn_ends=turn_ends)) is not None:
        cuts.append(cut)
    return tuple(cuts)
