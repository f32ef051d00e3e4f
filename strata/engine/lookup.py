"""Drafts without a drafter: what followed the last tokens where they stood before (prompt lookup, Saxena 2023).

    ids      a b c d e x b c d          the longest run that ends here and stood before: b c d
    drafts   e x b c d e ..             what followed it there; behind the end it goes on in what it has just said

A function of the conversation's ids alone, so that the same one is always drafted for in the same way, and of bounded
cost, however long it is.
"""

from collections.abc import Sequence

LEAST_MATCH_TOKENS = 2
"""One token that occurred before says little of what follows it."""
MOST_MATCH_TOKENS = 8
LOOK_BACK_TOKENS = 8192
"""At most this many of the last tokens are looked through: some 0.1 ms."""


def look_up(ids: Sequence[int], *, most: int) -> tuple[int, ...]:
    """`most` tokens to follow `ids`, or none where its end did not occur before. The longest earlier run of equal
    tokens is followed, the latest of equally long ones."""
    newest = tuple(reversed(ids[-LOOK_BACK_TOKENS:]))
    found, length = 0, LEAST_MATCH_TOKENS - 1
    for back in _occurrences(newest):
        if (shared := _num_shared(newest, back)) > length:
            found, length = back, shared
        if length == MOST_MATCH_TOKENS:
            break
    return tuple(newest[found - 1 - i % found] for i in range(most)) if found else ()


def _occurrences(newest: tuple[int, ...]) -> Sequence[int]:
    """How far back the last two tokens stand once more."""
    last, places = newest[:LEAST_MATCH_TOKENS], []
    back = 0
    while last:
        try:
            back = newest.index(last[0], back + 1)
        except ValueError:
            break
        if newest[back : back + LEAST_MATCH_TOKENS] == last:
            places.append(back)
    return places


def _num_shared(newest: tuple[int, ...], back: int) -> int:
    """Equal tokens up to the end and up to `back` before it, as far as they are counted."""
    earlier = newest[back : back + MOST_MATCH_TOKENS]
    pairs = zip(newest, earlier, strict=False)
    return next((num for num, (ours, theirs) in enumerate(pairs) if ours != theirs), len(earlier))
