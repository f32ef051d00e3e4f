"""Where a conversation is cut: positions at which a read writes its recurrent state out, so that a checkpoint may stand
there (`lending.md` 2).

    ids     s u u u E a a a E u ...          E ends a turn
    cuts            ^       ^                positions 5 and 9: behind the token that ends a turn

A function of token ids alone: neither chunks nor what was cached moves a cut, so warm and cold reads cut at the same
places and leave the same bits.
"""

from functools import lru_cache

CUT_EVERY_TOKENS = 2048  # the longest stretch without a cut


@lru_cache(maxsize=4)
def cuts_of(ids: tuple[int, ...], *, turn_ends: frozenset[int]) -> tuple[int, ...]:
    """All cuts, in order. Those of a longer conversation that begins with `ids` begin with these."""
    cuts = [0]
    for position, token_id in enumerate(ids, 1):
        if token_id in turn_ends or position - cuts[-1] == CUT_EVERY_TOKENS:
            cuts.append(position)
    return tuple(cuts[1:])
