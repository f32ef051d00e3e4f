# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
# ruff: noqa: SIM109 - triton has no `in` for constants
"""Packed weights on the card: from words and planes (`packing.py`) to numbers. Device functions, inlined everywhere.

A weight is scale * code - offset, with code an unsigned number. A code becomes a float without an integer-to-float
conversion and mostly without a shift, both slow on every card: it is masked where it lies in its word and read as a
denormal number (`denormal_at`), and a power of two takes it back to where normal numbers are. All of that is exact.
"""

import triton
import triton.language as tl

F32, F16, BF16 = tl.constexpr(0), tl.constexpr(1), tl.constexpr(30)
Q4_0, Q4_1, Q8_0, MXFP4 = tl.constexpr(2), tl.constexpr(3), tl.constexpr(8), tl.constexpr(39)
Q4_K, Q5_K, Q6_K, IQ4_XS = tl.constexpr(12), tl.constexpr(13), tl.constexpr(14), tl.constexpr(23)
IQ2_XS, IQ3_XXS = tl.constexpr(17), tl.constexpr(18)


@triton.constexpr_function
def is_float(type_id):
    return type_id in (0, 1, 30)


@triton.constexpr_function
def float_kind(type_id):
    return {0: tl.float32, 1: tl.float16, 30: tl.bfloat16}[type_id]


@triton.constexpr_function
def words_per_group(type_id):
    """u32 words that hold the codes of 32 weights; a word has 32 / this many places."""
    return 8 if type_id in (8, 17, 18) else 4


@triton.constexpr_function
def is_grid(type_id):
    """Codes are looked up in a table (`grids.py`)."""
    return type_id in (17, 18)


@triton.constexpr_function
def weights_per_scale(type_id):
    return 16 if type_id in (14, 17) else 32


@triton.constexpr_function
def codebook_word(type_id, index):
    """Four values as bytes 128 + value: IQ4_XS (the format's table), or twice the FP4 values of MXFP4."""
    iq4 = (0x3F2D1801, 0x766A5D4F, 0xA6998D81, 0xF1D9C5B5)
    fp4 = (0x83828180, 0x8C888684, 0x7D7E7F80, 0x74787A7C)
    return (iq4 if type_id == 23 else fp4)[index]


@triton.constexpr_function
def units_per_block(type_id):
    """Scale units of a file block."""
    return {12: 8, 13: 8, 14: 16, 17: 16, 18: 8, 23: 8}.get(type_id, 1)


@triton.constexpr_function
def high_start(type_id, rows, columns):
    """Offset in bytes of the plane behind the codes."""
    return rows * columns * (8 if type_id == 8 else 4) // 8


@triton.constexpr_function
def scales_start(type_id, rows, columns):
    high_bits = {13: 1, 14: 2}.get(type_id, 0)
    code_bits = {8: 8, 17: 2, 18: 2}.get(type_id, 4)
    return rows * columns * (code_bits + high_bits) // 8


@triton.constexpr_function
def tail_start(type_id, rows, columns):
    return rows * columns // 256 * {14: 208, 17: 72, 18: 96}[type_id]


@triton.jit
def load_or_zero(pointer, mask, IS_WHOLE: tl.constexpr):
    """`IS_WHOLE`: the tile never overhangs, so the load needs no predicate."""
    if IS_WHOLE:
        return tl.load(pointer)
    return tl.load(pointer, mask=mask, other=0)


@triton.jit
def pointer_to(address, KIND: tl.constexpr, ALIGNMENT: tl.constexpr):
    """address: int64, one or [rows, 1], a multiple of ALIGNMENT (which the compiler cannot see) -> pointers to KIND."""
    pointer = address.to(tl.pointer_type(KIND))
    RANK: tl.constexpr = len(pointer.shape)
    if RANK == 2:
        return tl.multiple_of(pointer, [ALIGNMENT, ALIGNMENT])
    else:  # noqa: RET505 - triton traces what follows a return
        return tl.multiple_of(pointer, ALIGNMENT)


@triton.jit
def half_to_float(bits):
    """f16 bits in the low 16 of `bits`, as f32."""
    return bits.to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _from_codebook(code, TYPE: tl.constexpr):
    lower = tl.where(code < 4, codebook_word(TYPE, 0), codebook_word(TYPE, 1)).to(tl.uint32)
    upper = tl.where(code < 12, codebook_word(TYPE, 2), codebook_word(TYPE, 3)).to(tl.uint32)
    return (tl.where(code < 8, lower, upper) >> ((code & 3) * 8)) & 255


@triton.jit
def code_at(words, high, place, TYPE: tl.constexpr):
    """The code, u32, at `place` (a number or a tensor) of each word. words: u32; high: u32, or anything where the type
    has no such plane."""
    if (TYPE == Q8_0) or is_grid(TYPE):
        return (words >> (place * 8)) & 255
    code = (words >> (place * 4)) & 15
    if TYPE == Q5_K:
        code = code | (((high >> place) & 1) << 4)
    elif TYPE == Q6_K:
        code = code | (((high >> (place * 2)) & 3) << 4)
    elif (TYPE == IQ4_XS) or (TYPE == MXFP4):
        code = _from_codebook(code, TYPE)
    return code


@triton.jit
def bit_of(place, TYPE: tl.constexpr):
    """Lowest bit of the code in what `denormal_at` gives for `place`."""
    if (TYPE == Q8_0) or is_grid(TYPE):
        return place % 2 * 8
    if (TYPE == Q4_0) or (TYPE == Q4_1) or (TYPE == Q4_K):
        return tl.where(place < 5, place, place - 3) * 4
    return place * 0


@triton.jit
def denormal_at(words, high, place, TYPE: tl.constexpr):
    """code * 2^(bit_of(place) - 149), a denormal f32: the code is only masked, where it lies, and read as a float.

    One instruction a weight where the code lies in the mantissa as it is. Multiply by an operand of at least 2^64 to
    come back to normal numbers; cards multiply denormal f32 at full speed, and exactly."""
    if (TYPE == Q8_0) or is_grid(TYPE):
        bits = tl.where(place < 2, words, words >> 16) & (255 << (place % 2 * 8))
    elif (TYPE == Q4_0) or (TYPE == Q4_1) or (TYPE == Q4_K):
        bits = tl.where(place < 5, words, words >> 12) & (15 << bit_of(place, TYPE))
    else:
        bits = code_at(words, high, place, TYPE)
    return bits.to(tl.uint32).to(tl.float32, bitcast=True)


@triton.jit
def number_at(words, high, place, TYPE: tl.constexpr):
    """code * 2^-22 at `place`, a normal f32: the denormal lifted by a power of two that undoes its place."""
    lift = ((bit_of(place, TYPE) * -1 + 254) << 23).to(tl.uint32).to(tl.float32, bitcast=True)
    return denormal_at(words, high, place, TYPE) * lift


@triton.jit
def load_high(base, at, mask, TYPE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, IS_WHOLE: tl.constexpr):
    """Bits above the nibble for the words at index `at` of the codes plane, as u32. base: int64 address."""
    start = base + high_start(TYPE, ROWS, COLUMNS)
    if TYPE == Q5_K:
        return load_or_zero(pointer_to(start, tl.uint8, 1) + at, mask, IS_WHOLE).to(tl.uint32)
    return load_or_zero(pointer_to(start, tl.uint16, 2) + at, mask, IS_WHOLE).to(tl.uint32)


@triton.jit
def scale_and_offset(
    base, row, unit, mask, TYPE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, IS_WHOLE: tl.constexpr
):
    """(scale, offset), f32, of scale unit `unit` of row `row`: weight = scale * code - offset.

    A unit is 32 weights (16 in Q6_K). base: int64 address of the packed matrix; row, unit: int32, broadcastable."""
    start = base + scales_start(TYPE, ROWS, COLUMNS)
    UNITS: tl.constexpr = units_per_block(TYPE)
    block = unit // UNITS * ROWS + row
    at = block * UNITS + unit % UNITS
    if (TYPE == Q4_K) or (TYPE == Q5_K):
        return _six_bit_scales(start, block, unit % 8, mask, IS_WHOLE)
    if TYPE == Q4_1:
        both = load_or_zero(pointer_to(start, tl.uint32, 4) + at, mask, IS_WHOLE)
        return half_to_float(both), -half_to_float(both >> 16)
    if TYPE == Q6_K:
        scale = load_or_zero(pointer_to(start, tl.int8, 1) + at, mask, IS_WHOLE).to(tl.float32)
        tail = pointer_to(base + tail_start(TYPE, ROWS, COLUMNS), tl.float16, 2)
        scale *= load_or_zero(tail + block, mask, IS_WHOLE).to(tl.float32)
        return scale, scale * 32
    if TYPE == IQ4_XS:
        return _iq4_xs_scales(start, block, unit % 8, mask, IS_WHOLE)
    if is_grid(TYPE):
        tail = pointer_to(base + tail_start(TYPE, ROWS, COLUMNS), tl.float16, 2)
        factor = load_or_zero(tail + block, mask, IS_WHOLE).to(tl.float32)
        if TYPE == IQ3_XXS:
            level = load_or_zero(pointer_to(start, tl.uint32, 4) + at, mask, IS_WHOLE) >> 28
            scale = factor * (level.to(tl.float32) + 0.5) * 0.5
        else:
            pair = load_or_zero(pointer_to(start, tl.uint8, 1) + at // 2, mask, IS_WHOLE).to(tl.uint32)
            scale = factor * (((pair >> (unit % 2 * 4)) & 15).to(tl.float32) + 0.5) * 0.25
        return scale, scale * 128
    if TYPE == MXFP4:
        exponent = load_or_zero(pointer_to(start, tl.uint8, 1) + at, mask, IS_WHOLE).to(tl.uint32)
        # 2^(e - 128): exponents below 2 are denormal numbers.
        bits = tl.where(exponent < 2, 0x00200000 << tl.minimum(exponent, 1), (tl.maximum(exponent, 1) - 1) << 23)
        scale = bits.to(tl.uint32).to(tl.float32, bitcast=True)
        return scale, scale * 128
    scale = load_or_zero(pointer_to(start, tl.float16, 2) + at, mask, IS_WHOLE).to(tl.float32)
    return scale, scale * (8 if TYPE == Q4_0 else 128)


@triton.jit
def _six_bit_scales(start, block, sub, mask, IS_WHOLE: tl.constexpr):
    """Q4_K and Q5_K: 16 bytes a block, see `packing.py`."""
    header = pointer_to(start, tl.uint32, 16) + block * 4
    factors = load_or_zero(header, mask, IS_WHOLE)
    low = load_or_zero(header + 1 + sub // 4, mask, IS_WHOLE) >> (sub % 4 * 8)
    high = load_or_zero(header + 3, mask, IS_WHOLE) >> (sub * 4)
    sc = (low & 15) | ((high & 3) << 4)
    mn = ((low >> 4) & 15) | ((high & 12) << 2)
    scale = half_to_float(factors) * sc.to(tl.float32)
    return scale, half_to_float(factors >> 16) * mn.to(tl.float32)


@triton.jit
def _iq4_xs_scales(start, block, sub, mask, IS_WHOLE: tl.constexpr):
    """f16 d, u16 scales_h, u8 scales_l[4]: scale = d * (six bits - 32)."""
    header = pointer_to(start, tl.uint32, 8) + block * 2
    first = load_or_zero(header, mask, IS_WHOLE)
    low = load_or_zero(header + 1, mask, IS_WHOLE)
    level = ((low >> (sub * 4)) & 15) | (((first >> (16 + sub * 2)) & 3) << 4)
    scale = half_to_float(first) * (level.to(tl.float32) - 32.0)
    return scale, scale * 128
