"""What a window must have as drafts where no drafter drafts, and how many of its rows must stand: from token ids alone,
and written beside `strata.engine.lookup`.
"""

from collections.abc import Sequence

LEAST_TOKENS, MOST_TOKENS = 2, 8
"""Of the run at the end that must have been there before, as far as it is counted."""


def expected_drafts(ids: Sequence[int], *, most: int) -> tuple[int, ...]:
    """The latest of the longest earlier runs that end as `ids` do; behind the end the text goes on in itself."""
    longest, found = LEAST_TOKENS - 1, 0
    for end in range(len(ids) - 1, 0, -1) if most > 0 else ():
        length = 0
        while length < min(end, MOST_TOKENS) and ids[end - 1 - length] == ids[-1 - length]:
            length += 1
        if length > longest:
            longest, found = length, end
        if longest == MOST_TOKENS:
            break
    text = list(ids)
    for index in range(most if found else 0):
        text.append(text[found + index])
    return tuple(text[len(ids) :])


def expected_rows(tokens: Sequence[int], drafts: Sequence[int], terminators: Sequence[int]) -> int:
    """Rows that stand of a window that had `drafts` and gave `tokens`, which are right: one behind each draft that is
    the model's token and ends no reply."""
    for index, draft in enumerate(drafts):
        if index == len(tokens) or tokens[index] != draft or tokens[index] in terminators:
            return index + 1
    return len(drafts) + 1
