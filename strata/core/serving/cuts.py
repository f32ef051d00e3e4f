"""Where a conversation is cut: positions at which a read writes its recurrent state out, so that a checkpoint may stand
there (`lending.md` 2), and at which the blocks begin anew in which a card computes recurrent layers of a chunk.

    ids     s u u u E a a a E u ...          E ends a turn
    cuts            ^       ^                positions 5 and 9: behind the token that ends a turn
    blocks  |- - - -|- - - -|- ...           64 tokens each, counted from the last cut

A function of token ids alone: neither chunks nor what was cached moves a cut or a block, so warm and cold reads leave
the same bits. A chunk ends where a block ends; one that begins inside a block, behind a reply, has what is left of it
as a shorter one.
"""

from collections.abc import Sequence
from functools import lru_cache

CUT_EVERY_TOKENS = 2048
"""The longest stretch without a cut."""
BLOCK_TOKENS = 64


@lru_cache(maxsize=4)
def cuts_of(ids: tuple[int, ...], *, turn_ends: frozenset[int]) -> tuple[int, ...]:
    """All cuts, in order. Those of a longer conversation that begins with `ids` begin with these."""
    cuts = [0]
    for position, token_id in enumerate(ids, 1):
        if token_id in turn_ends or position - cuts[-1] == CUT_EVERY_TOKENS:
            cuts.append(position)
    return tuple(cuts[1:])


def next_chunk(cuts: Sequence[int] | None, *, start: int, stop: int, most_tokens: int) -> tuple[int, tuple[int, ...]]:
    """Of a read that must stop at `stop`: where the chunk from `start` on ends, behind a whole block where it does not
    get there and a block ends in it; and its runs of blocks, as rows: the first one, the one behind what is left of a
    block that began before it, and each cut. `cuts` None: nothing is computed in blocks."""
    end = min(stop, start + most_tokens)
    if cuts is None:
        return end, (0,)
    whole_end = end - (end - _last(cuts, end)) % BLOCK_TOKENS
    if start < whole_end and end < stop:
        end = whole_end
    inside = [cut - start for cut in cuts if start < cut < end]
    num_left = (_last(cuts, start) - start) % BLOCK_TOKENS
    is_open = 0 < num_left < min((*inside, end - start))
    return end, (0, *((num_left,) if is_open else ()), *inside)


def _last(cuts: Sequence[int], position: int) -> int:
    return max((cut for cut in cuts if cut <= position), default=0)
