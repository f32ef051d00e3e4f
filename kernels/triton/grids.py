# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""Code words of a packed matrix, as they lie or looked up: IQ3_XXS and IQ2_XS store indices into a table of values.

`grids` points at that table on the card (`packing.grid_table`): four values, at most 62 each, in a u32. An index of
IQ3_XXS is one word of it, one of IQ2_XS two. Seven bits hold the signs of eight weights; the eighth makes their number
even. What comes out is a byte 128 +- value a weight, as the codes of Q8_0 are, but weight 4 j + i is byte i of word j.
"""

import triton
import triton.language as tl

from kernels.triton.codes import IQ3_XXS, is_grid, load_or_zero, pointer_to, scales_start, words_per_group


@triton.jit
def load_codes(
    base,
    grids,
    row,
    first_group,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    GROUPS: tl.constexpr,
    IS_WHOLE: tl.constexpr,
):
    """(u32 words [rows, GROUPS * words a group] of rows `row` from group `first_group` on, their index in the plane,
    which of them exist). base: int64 address of the matrix, one or [rows, 1]; row: [rows]."""
    WORDS: tl.constexpr = words_per_group(TYPE)
    NUM_GROUPS: tl.constexpr = COLUMNS // 32
    word = tl.arange(0, GROUPS * WORDS)
    at = row[:, None] * (NUM_GROUPS * WORDS) + (first_group * WORDS + word)[None, :]
    mask = (first_group + word // WORDS < NUM_GROUPS)[None, :]
    if is_grid(TYPE):
        words = _looked_up(
            base, grids, row[:, None], first_group, word[None, :], at, mask, TYPE, ROWS, COLUMNS, IS_WHOLE
        )
    else:
        words = load_or_zero(pointer_to(base, tl.uint32, 16) + at, mask, IS_WHOLE)
    return words, at, mask


@triton.jit
def _looked_up(
    base,
    grids,
    row,
    first_group,
    word,
    at,
    mask,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    IS_WHOLE: tl.constexpr,
):
    if TYPE == IQ3_XXS:
        index = load_or_zero(pointer_to(base, tl.uint8, 16) + at, mask, IS_WHOLE).to(tl.int32)
        values = tl.load(grids + index)
        group = first_group + word // 8
        signs_at = (group // 8 * ROWS + row) * 8 + group % 8
        signs = load_or_zero(
            pointer_to(base + scales_start(TYPE, ROWS, COLUMNS), tl.uint32, 4) + signs_at, mask, IS_WHOLE
        )
        seven = (signs >> (word % 8 // 2 * 7)) & 127
    else:
        both = load_or_zero(pointer_to(base, tl.uint16, 16) + at // 2, mask, IS_WHOLE).to(tl.uint32)
        values = tl.load(grids + 256 + (both & 511).to(tl.int32) * 2 + word % 2)
        seven = both >> 9
    odd = seven ^ (seven >> 4)
    odd = odd ^ (odd >> 2)
    odd = (odd ^ (odd >> 1)) & 1
    four = ((seven | (odd << 7)) >> (word % 2 * 4)) & 15
    negative = ((four * 0x00204081) & 0x01010101) * 255  # bit i of four -> byte i
    return values - (values & negative) * 2 + 0x80808080  # no byte borrows: 128 +- value


@triton.jit
def in_order(words, high, TYPE: tl.constexpr, NUM_ROWS: tl.constexpr, GROUPS: tl.constexpr):
    """(words, high, place) shaped so that what they give, reshaped, stands in the order of the weights."""
    WORDS: tl.constexpr = words_per_group(TYPE)
    PLACES: tl.constexpr = 32 // WORDS
    if is_grid(TYPE):
        words = tl.reshape(words, [NUM_ROWS, GROUPS, WORDS, 1])
        high = words
        place = tl.arange(0, PLACES)[None, None, None, :]
    else:
        words = tl.reshape(words, [NUM_ROWS, GROUPS, 1, WORDS])
        high = tl.reshape(high, [NUM_ROWS, GROUPS, 1, WORDS])
        place = tl.arange(0, PLACES)[None, None, :, None]
    return words, high, place
