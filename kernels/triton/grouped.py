# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""Matmul of a prompt chunk with its experts: rows sorted by expert, weights unpacked on the way to the tensor cores.

    tiles       from `grouping.py`: tile t is at most BLOCK_ROWS consecutive sorted pairs of one expert
    gate_up     act[position] = silu(W_gate x[row]) * (W_up x[row])      row = sorted_pairs[position] // num_used
    down        out[sorted_pairs[position]] = W_down act[position]
    linear      out[row] = W x[row], or += where IS_ADDED: the same with one matrix and rows as they come

A fixed number of programs walks the tiles, so a launch needs no count from the device. The columns of one tile are
neighbours in that walk: they share the rows of x in L2. Every product is one `tl.dot` chain over K in natural order
with f32 accumulation: a row's bits depend on nothing but the row. x is f16 or bf16; weights are rounded to that type.
"""

import triton
import triton.language as tl

from kernels.triton.codes import (
    float_kind,
    is_float,
    load_high,
    load_or_zero,
    number_at,
    pointer_to,
    scale_and_offset,
    weights_per_scale,
)
from kernels.triton.grids import in_order, load_codes


@triton.jit
def _packed_tile(
    base,
    grids,
    row,
    first,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    KIND: tl.constexpr,
):
    GROUPS: tl.constexpr = BLOCK_K // 32
    SCALE: tl.constexpr = weights_per_scale(TYPE)
    IS_WHOLE: tl.constexpr = COLUMNS % BLOCK_K == 0
    words, at, mask = load_codes(base, grids, row, first // 32, TYPE, ROWS, COLUMNS, GROUPS, IS_WHOLE)
    high = words
    if (TYPE == 13) or (TYPE == 14):
        high = load_high(base, at, mask, TYPE, ROWS, COLUMNS, IS_WHOLE)
    unit = first // SCALE + tl.arange(0, BLOCK_K // SCALE)
    inside = (unit < COLUMNS // SCALE)[None, :]
    scale, offset = scale_and_offset(base, row[:, None], unit[None, :], inside, TYPE, ROWS, COLUMNS, IS_WHOLE)
    words, high, place = in_order(words, high, TYPE, BLOCK_COLUMNS, GROUPS)
    number = tl.reshape(number_at(words, high, place, TYPE), [BLOCK_COLUMNS, BLOCK_K // SCALE, SCALE])
    tile = number * (scale * 4194304.0)[:, :, None] - offset[:, :, None]  # 2^22: see `number_at`
    return tl.reshape(tile.to(KIND), [BLOCK_COLUMNS, BLOCK_K])


@triton.jit
def _float_tile(base, row, first, TYPE: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_K: tl.constexpr, KIND: tl.constexpr):
    weights = pointer_to(base, float_kind(TYPE), 16)
    column = first + tl.arange(0, BLOCK_K)
    tile = load_or_zero(
        weights + row[:, None] * COLUMNS + column[None, :], (column < COLUMNS)[None, :], COLUMNS % BLOCK_K == 0
    )
    if tile.dtype == KIND:
        return tile
    return tile.to(tl.float32).to(KIND)


@triton.jit
def weight_tile(
    base,
    grids,
    row,
    first,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    KIND: tl.constexpr,
):
    """W[row, first .. first + BLOCK_K - 1] rounded to KIND: [BLOCK_COLUMNS, BLOCK_K], zero beyond COLUMNS.

    base: int64 address of the matrix, one or [BLOCK_COLUMNS, 1]."""
    if is_float(TYPE):
        tile = _float_tile(base, row, first, TYPE, COLUMNS, BLOCK_K, KIND)
    else:
        tile = _packed_tile(base, grids, row, first, TYPE, ROWS, COLUMNS, BLOCK_COLUMNS, BLOCK_K, KIND)
    return tile


@triton.jit
def _x_tile(x, source, first, COLUMNS: tl.constexpr, BLOCK_K: tl.constexpr):
    column = first + tl.arange(0, BLOCK_K)
    at = source.to(tl.int64)[:, None] * COLUMNS + column[None, :]
    return load_or_zero(x + at, (column < COLUMNS)[None, :], COLUMNS % BLOCK_K == 0)


@triton.jit
def gate_up_grouped_kernel(
    x,
    addresses,
    grids,
    sorted_pairs,
    tiles,
    num_tiles,
    out,
    NUM_USED: tl.constexpr,
    GATE_START: tl.constexpr,
    UP_START: tl.constexpr,
    GATE_TYPE: tl.constexpr,
    UP_TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):
    """x: [rows, COLUMNS]; tiles: int32 [*, 4] (expert, first position, end position, 0); out: [pairs, ROWS]."""
    SPLITS: tl.constexpr = (ROWS + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
    KIND: tl.constexpr = x.dtype.element_ty
    for job in range(tl.program_id(0), tl.load(num_tiles) * SPLITS, tl.num_programs(0)):
        tile = tiles + job // SPLITS * 4
        blob = tl.load(addresses + tl.load(tile))
        position = tl.load(tile + 1) + tl.arange(0, BLOCK_ROWS)
        end = tl.load(tile + 2)
        source = tl.load(sorted_pairs + tl.minimum(position, end - 1)) // NUM_USED
        row = job % SPLITS * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
        if GATE_TYPE == UP_TYPE:
            # One product over 2 * BLOCK_COLUMNS columns: gate's first, then up's.
            lane = tl.arange(0, 2 * BLOCK_COLUMNS)
            base = (blob + tl.where(lane < BLOCK_COLUMNS, GATE_START, UP_START))[:, None]
            safe = tl.minimum(job % SPLITS * BLOCK_COLUMNS + lane % BLOCK_COLUMNS, ROWS - 1)
            both = tl.zeros([BLOCK_ROWS, 2 * BLOCK_COLUMNS], tl.float32)
            for first in tl.range(0, COLUMNS, BLOCK_K, num_stages=STAGES):
                values = _x_tile(x, source, first, COLUMNS, BLOCK_K)
                w = weight_tile(base, grids, safe, first, GATE_TYPE, ROWS, COLUMNS, 2 * BLOCK_COLUMNS, BLOCK_K, KIND)
                both = tl.dot(values, w.T, both)
            gate, up = tl.split(tl.permute(tl.reshape(both, [BLOCK_ROWS, 2, BLOCK_COLUMNS]), [0, 2, 1]))
        else:
            safe = tl.minimum(row, ROWS - 1)
            gate = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
            up = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
            for first in tl.range(0, COLUMNS, BLOCK_K, num_stages=STAGES):
                values = _x_tile(x, source, first, COLUMNS, BLOCK_K)
                w = weight_tile(
                    blob + GATE_START, grids, safe, first, GATE_TYPE, ROWS, COLUMNS, BLOCK_COLUMNS, BLOCK_K, KIND
                )
                gate = tl.dot(values, w.T, gate)
                w = weight_tile(
                    blob + UP_START, grids, safe, first, UP_TYPE, ROWS, COLUMNS, BLOCK_COLUMNS, BLOCK_K, KIND
                )
                up = tl.dot(values, w.T, up)
        act = gate / (1.0 + tl.exp(-gate)) * up
        at = position.to(tl.int64)[:, None] * ROWS + row[None, :]
        tl.store(out + at, act.to(out.dtype.element_ty), mask=(position < end)[:, None] & (row < ROWS)[None, :])


@triton.jit
def down_grouped_kernel(
    x,
    addresses,
    grids,
    sorted_pairs,
    tiles,
    num_tiles,
    out,
    START: tl.constexpr,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):
    """x: [pairs, COLUMNS] in sorted order; out: [pairs, ROWS] in router order."""
    SPLITS: tl.constexpr = (ROWS + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
    KIND: tl.constexpr = x.dtype.element_ty
    for job in range(tl.program_id(0), tl.load(num_tiles) * SPLITS, tl.num_programs(0)):
        tile = tiles + job // SPLITS * 4
        base = tl.load(addresses + tl.load(tile)) + START
        position = tl.load(tile + 1) + tl.arange(0, BLOCK_ROWS)
        end = tl.load(tile + 2)
        safe_position = tl.minimum(position, end - 1)
        target = tl.load(sorted_pairs + safe_position)
        row = job % SPLITS * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
        safe = tl.minimum(row, ROWS - 1)
        acc = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
        for first in tl.range(0, COLUMNS, BLOCK_K, num_stages=STAGES):
            values = _x_tile(x, safe_position, first, COLUMNS, BLOCK_K)
            w = weight_tile(base, grids, safe, first, TYPE, ROWS, COLUMNS, BLOCK_COLUMNS, BLOCK_K, KIND)
            acc = tl.dot(values, w.T, acc)
        at = target.to(tl.int64)[:, None] * ROWS + row[None, :]
        tl.store(out + at, acc.to(out.dtype.element_ty), mask=(position < end)[:, None] & (row < ROWS)[None, :])


@triton.jit(do_not_specialize=["num_rows"])
def linear_grouped_kernel(
    x,
    addresses,
    grids,
    out,
    num_rows,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    IS_ADDED: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):
    """x: [num_rows, COLUMNS]; out: [num_rows, ROWS], a row every STRIDE numbers; one program a tile."""
    KIND: tl.constexpr = x.dtype.element_ty
    base = tl.load(addresses)
    source = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    row = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    safe = tl.minimum(row, ROWS - 1)
    at = out + source.to(tl.int64)[:, None] * STRIDE + row[None, :]
    inside = (source < num_rows)[:, None] & (row < ROWS)[None, :]
    if IS_ADDED:  # the chain starts from it: added at the end, it would need as many registers again
        acc = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    else:
        acc = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
    for first in tl.range(0, COLUMNS, BLOCK_K, num_stages=STAGES):
        values = _x_tile(x, tl.minimum(source, num_rows - 1), first, COLUMNS, BLOCK_K)
        w = weight_tile(base, grids, safe, first, TYPE, ROWS, COLUMNS, BLOCK_COLUMNS, BLOCK_K, KIND)
        acc = tl.dot(values, w.T, acc, input_precision="ieee")
    tl.store(at, acc.to(out.dtype.element_ty), mask=inside)


@triton.jit
def unpack_kernel(
    addresses,
    grids,
    experts,
    out,
    START: tl.constexpr,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """out[i] = the matrix at byte START of blob `experts[i]`, as numbers: [number of experts, ROWS, COLUMNS].

    grid (row blocks, column blocks, experts)."""
    base = tl.load(addresses + tl.load(experts + tl.program_id(2))) + START
    row = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    first = tl.program_id(1) * BLOCK_K
    safe = tl.minimum(row, ROWS - 1)
    tile = weight_tile(base, grids, safe, first, TYPE, ROWS, COLUMNS, BLOCK_COLUMNS, BLOCK_K, out.dtype.element_ty)
    column = first + tl.arange(0, BLOCK_K)
    at = tl.program_id(2).to(tl.int64) * (ROWS * COLUMNS) + row[:, None] * COLUMNS + column[None, :]
    tl.store(out + at, tile, mask=(row < ROWS)[:, None] & (column < COLUMNS)[None, :])
