# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""RMS norm of rows, and what happens to a layer's fresh query, key and value heads before attention reads them.

One program = one row (one head of a row): a sum is a tree of fixed shape over that row alone.
"""

import triton
import triton.language as tl

from kernels.triton.kv_cells import store_cell


@triton.jit
def rms_norm_kernel(
    x,
    weight,
    out,
    epsilon,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    X_STRIDE: tl.constexpr,
    OUT_STRIDE: tl.constexpr,
):
    """out = weight * x / sqrt(mean(x^2) + epsilon), rounded to out's type. x: f32, grid (rows,). BLOCK >= COLUMNS."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < COLUMNS
    values = tl.load(x + row * X_STRIDE + column, mask=inside, other=0.0)
    root = tl.sqrt(tl.sum(values * values, axis=0) / COLUMNS + epsilon)
    scaled = values / root * tl.load(weight + column, mask=inside, other=0.0)
    tl.store(out + row * OUT_STRIDE + column, scaled.to(out.dtype.element_ty), mask=inside)


@triton.jit
def angles_kernel(header, frequencies, angles, HALF: tl.constexpr, BLOCK: tl.constexpr):
    """angles: f32 [rows, 2, HALF]: cosine and sine of position * frequency, once a pass for all layers.

    header: int64, [0] = position of row 0; frequencies: f64 [HALF]. The angle is f64 until its cosine is taken: at
    position 100,000 an f32 angle is wrong in its third digit."""
    row = tl.program_id(0)
    pair = tl.arange(0, BLOCK)
    inside = pair < HALF
    turn = (tl.load(header) + row).to(tl.float64) * tl.load(frequencies + pair, mask=inside, other=0.0)
    tl.store(angles + row * (2 * HALF) + pair, tl.cos(turn).to(tl.float32), mask=inside)
    tl.store(angles + row * (2 * HALF) + HALF + pair, tl.sin(turn).to(tl.float32), mask=inside)


@triton.jit
def heads_kernel(
    qkv,
    angles,
    q_weight,
    k_weight,
    header,
    q_out,
    keys,
    key_scales,
    values,
    value_scales,
    epsilon,
    KEY_TYPE: tl.constexpr,
    VALUE_TYPE: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    ROTATED: tl.constexpr,
    IS_NEOX: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    """Norm (optional), rope and the cache write of one head; grid (rows, NUM_HEADS + 2 * NUM_KV_HEADS).

    qkv: f32 [rows, heads, HEAD_DIM], query heads, then keys, then values; q_out: [rows, NUM_HEADS, HEAD_DIM]; keys,
    values: the layer's cache (`kv_cells.py`). Pair i of a rotation is (i, i + ROTATED/2) in NEOX
    order, else (2i, 2i + 1). The partner of a number is read a second time: registers cannot be permuted for less."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ALL: tl.constexpr = NUM_HEADS + 2 * NUM_KV_HEADS
    HALF: tl.constexpr = ROTATED // 2
    column = tl.arange(0, BLOCK)
    inside = column < HEAD_DIM
    source = qkv + row * (ALL * HEAD_DIM) + head * HEAD_DIM
    here = tl.load(source + column, mask=inside, other=0.0)
    position = tl.load(header) + row
    if head >= NUM_HEADS + NUM_KV_HEADS:
        kv_head = head - NUM_HEADS - NUM_KV_HEADS
        store_cell(values, value_scales, position, kv_head, here, VALUE_TYPE, NUM_KV_HEADS, HEAD_DIM, BLOCK)
    else:
        is_query = head < NUM_HEADS
        if IS_NEOX:
            partner = tl.where(column < HALF, column + HALF, column - HALF)
            pair = column % HALF
            is_first = column < HALF
        else:
            partner = column ^ 1
            pair = column // 2
            is_first = column % 2 == 0
        is_rotated = column < ROTATED
        partner = tl.where(is_rotated, partner, column)
        there = tl.load(source + partner, mask=inside, other=0.0)
        if HAS_NORM:
            root = tl.sqrt(tl.sum(here * here, axis=0) / HEAD_DIM + epsilon)
            at = tl.where(is_query, 0, 1)
            scale_here = tl.load(q_weight + column, mask=inside & (at == 0), other=0.0)
            scale_here += tl.load(k_weight + column, mask=inside & (at == 1), other=0.0)
            scale_there = tl.load(q_weight + partner, mask=inside & (at == 0), other=0.0)
            scale_there += tl.load(k_weight + partner, mask=inside & (at == 1), other=0.0)
            here = here / root * scale_here
            there = there / root * scale_there
        cosine = tl.load(angles + row * ROTATED + pair, mask=is_rotated, other=1.0)
        sine = tl.load(angles + row * ROTATED + HALF + pair, mask=is_rotated, other=0.0)
        turned = here * cosine + tl.where(is_first, -there, there) * sine
        if is_query:
            tl.store(
                q_out + (row * NUM_HEADS + head) * HEAD_DIM + column, turned.to(q_out.dtype.element_ty), mask=inside
            )
        else:
            kv_head = head - NUM_HEADS
            store_cell(keys, key_scales, position, kv_head, turned, KEY_TYPE, NUM_KV_HEADS, HEAD_DIM, BLOCK)
