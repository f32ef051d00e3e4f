# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""K and V of a position on the card: f16, or blocks of 32 with a scale (`reference/kv_cells.py` has the layout).

Device functions. `cells` points at the layer's K or V: f16 [context, kv heads, D], or uint8 [context, cell bytes], of
which `scales` is the same address as f16. A cell is one run of bytes in every format, so whoever moves positions about
needs to know its length only.
"""

import triton
import triton.language as tl

F16, Q4_0, Q8_0 = tl.constexpr(1), tl.constexpr(2), tl.constexpr(8)


@triton.constexpr_function
def code_bytes(type_id, count):
    return count if type_id == 8 else count // 2


@triton.constexpr_function
def cell_bytes(type_id, num_kv_heads, head_dim):
    return num_kv_heads * head_dim // 32 * (34 if type_id == 8 else 18)


@triton.jit
def _load(pointer, inside, IS_MASKED: tl.constexpr):
    return tl.load(pointer, mask=inside, other=0) if IS_MASKED else tl.load(pointer)


@triton.jit
def load_cells(
    cells,
    scales,
    key,
    inside,
    head,
    TYPE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    IS_MASKED: tl.constexpr,
):
    """f16 [BLOCK_KEYS, HEAD_DIM]: head `head` of the positions `key`; zero where not `inside` ([BLOCK_KEYS, 1])."""
    key = key.to(tl.int64)[:, None]
    if TYPE == F16:
        at = key * (NUM_KV_HEADS * HEAD_DIM) + head * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
        tile = _load(cells + at, inside, IS_MASKED)
    else:
        BYTES: tl.constexpr = cell_bytes(TYPE, NUM_KV_HEADS, HEAD_DIM)
        CODES: tl.constexpr = code_bytes(TYPE, HEAD_DIM)
        codes = _load(cells + key * BYTES + head * CODES + tl.arange(0, CODES)[None, :], inside, IS_MASKED)
        first = NUM_KV_HEADS * CODES // 2 + head * (HEAD_DIM // 32)
        scale = _load(scales + key * (BYTES // 2) + first + tl.arange(0, HEAD_DIM // 32)[None, :], inside, IS_MASKED)
        if TYPE == Q8_0:
            numbers = codes.to(tl.int8, bitcast=True).to(tl.float32)
        else:
            numbers = tl.join((codes & 15).to(tl.float32), (codes >> 4).to(tl.float32)) - 8.0
        scaled = tl.reshape(numbers, [BLOCK_KEYS, HEAD_DIM // 32, 32]) * scale.to(tl.float32)[:, :, None]
        tile = tl.reshape(scaled, [BLOCK_KEYS, HEAD_DIM]).to(tl.float16)
    return tile


@triton.jit
def _encode(blocks, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    """(scale of each block, codes): blocks f32 [BLOCK / 32, 32] -> f32 [BLOCK / 32], u8 [BLOCK]."""
    high, low = tl.max(blocks, axis=1), tl.min(blocks, axis=1)
    if TYPE == Q8_0:
        scale = tl.div_rn(tl.maximum(high, -low), tl.full([BLOCK // 32], 127.0, tl.float32))
    else:
        scale = tl.where(high >= -low, high, low) * -0.125
    inverse = tl.where(scale == 0.0, 0.0, tl.div_rn(tl.full([BLOCK // 32], 1.0, tl.float32), scale))
    scaled = tl.reshape(blocks * inverse[:, None], [BLOCK])
    if TYPE == Q8_0:
        rounded = tl.floor(tl.abs(scaled) + 0.5)
        codes = tl.where(scaled < 0.0, -rounded, rounded).to(tl.int8).to(tl.uint8, bitcast=True)
    else:
        codes = tl.minimum(tl.maximum(tl.floor(scaled + 8.5), 0.0), 15.0).to(tl.uint8)
    return scale, codes


@triton.jit
def store_cell(
    cells,
    scales,
    position,
    head,
    numbers,
    TYPE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Head `head` of one position. numbers: f32 [BLOCK], of which HEAD_DIM count (a multiple of 32 if quantized)."""
    column = tl.arange(0, BLOCK)
    position = position.to(tl.int64)
    if TYPE == F16:
        at = (position * NUM_KV_HEADS + head) * HEAD_DIM + column
        tl.store(cells + at, numbers.to(cells.dtype.element_ty), mask=column < HEAD_DIM)
    else:
        tl.static_assert(HEAD_DIM % 32 == 0)
        BYTES: tl.constexpr = cell_bytes(TYPE, NUM_KV_HEADS, HEAD_DIM)
        CODES: tl.constexpr = code_bytes(TYPE, HEAD_DIM)
        blocks = tl.reshape(tl.where(column < HEAD_DIM, numbers, 0.0), [BLOCK // 32, 32])
        scale, codes = _encode(blocks, TYPE, BLOCK)
        target = cells + position * BYTES + head * CODES
        if TYPE == Q8_0:
            tl.store(target + column, codes, mask=column < CODES)
        else:
            even, odd = tl.split(tl.reshape(codes, [BLOCK // 2, 2]))
            byte = tl.arange(0, BLOCK // 2)
            tl.store(target + byte, even | (odd << 4), mask=byte < CODES)
        unit = tl.arange(0, BLOCK // 32)
        first = position * (BYTES // 2) + NUM_KV_HEADS * CODES // 2 + head * (HEAD_DIM // 32)
        tl.store(scales + first + unit, scale.to(tl.float16), mask=unit < HEAD_DIM // 32)
