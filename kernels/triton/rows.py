# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""Matmul for the few rows of a window: y = W x, bound by how fast the bytes of W arrive.

A program owns BLOCK_ROWS rows of one matrix and walks the whole of K; partial sums stay in registers, elementwise, and
are added up once at the end. No tensor cores: with one to eight rows the products are few, and reading a word once,
as it lies, beats shuffling it into a fragment. The matrix is wherever its address says: a slot in VRAM or the blob's
place in pinned host memory; the code is the same.

Bits. A row is computed by one loop of one compiled program, whatever the number of rows: the first pair that chose an
expert computes every pair that did, one after the other (the words come out of L1 the second time). So a row's bits
cannot depend on its neighbours, and T rows equal T windows of one.

    gate_up_rows    act[pair]  = silu(W_gate x[row]) * (W_up x[row])        pair = row * num_used + k
    down_rows       out[pair]  = W_down act[pair]
    linear_rows     out[row]   = W x[row], or += where IS_ADDED; row r of out begins at r * STRIDE
"""

import triton
import triton.language as tl

from kernels.triton.codes import (
    bit_of,
    denormal_at,
    float_kind,
    is_float,
    is_grid,
    load_high,
    load_or_zero,
    pointer_to,
    scale_and_offset,
    weights_per_scale,
    words_per_group,
)
from kernels.triton.grids import in_order, load_codes

LIFT = tl.constexpr(100)
LOWER = tl.constexpr(2.0**49)  # 2^(149 - LIFT)


@triton.jit
def _dot_float(base, x, row, TYPE: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_ROWS: tl.constexpr, GROUPS: tl.constexpr):
    weights = pointer_to(base, float_kind(TYPE), 16)
    column = tl.arange(0, GROUPS * 32)
    IS_WHOLE: tl.constexpr = COLUMNS % (GROUPS * 32) == 0
    acc = tl.zeros([BLOCK_ROWS, GROUPS * 32], tl.float32)
    for start in range(0, COLUMNS, GROUPS * 32):
        at = start + column
        w = load_or_zero(weights + row[:, None] * COLUMNS + at[None, :], (at < COLUMNS)[None, :], IS_WHOLE)
        acc += w.to(tl.float32) * load_or_zero(x + at, at < COLUMNS, IS_WHOLE).to(tl.float32)[None, :]
    return tl.sum(acc, axis=1)


@triton.jit
def _load_step(
    base,
    grids,
    row,
    first,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """Everything that one step needs of a matrix: words, high bits, scales and offsets of GROUPS groups of each row."""
    IS_WHOLE: tl.constexpr = COLUMNS // 32 % GROUPS == 0
    UNITS: tl.constexpr = GROUPS * 32 // weights_per_scale(TYPE)
    codes, at, mask = load_codes(base, grids, row, first, TYPE, ROWS, COLUMNS, GROUPS, IS_WHOLE)
    high = codes
    if (TYPE == 13) or (TYPE == 14):
        high = load_high(base, at, mask, TYPE, ROWS, COLUMNS, IS_WHOLE)
    unit = first * 32 // weights_per_scale(TYPE) + tl.arange(0, UNITS)
    inside = (unit < COLUMNS // weights_per_scale(TYPE))[None, :]
    scale, offset = scale_and_offset(base, row[:, None], unit[None, :], inside, TYPE, ROWS, COLUMNS, IS_WHOLE)
    return codes, high, scale, offset


@triton.jit
def _load_values(x, first, TYPE: tl.constexpr, COLUMNS: tl.constexpr, GROUPS: tl.constexpr):
    """(x times 2^LIFT over the place of its code, sums of x over each scale unit): see `denormal_at`."""
    SCALE: tl.constexpr = weights_per_scale(TYPE)
    unit = tl.arange(0, GROUPS * 32 // SCALE)[:, None]
    at = unit * SCALE + tl.arange(0, SCALE)[None, :]
    inside = first * 32 + at < COLUMNS
    values = load_or_zero(x + first * 32 + at, inside, COLUMNS // 32 % GROUPS == 0).to(tl.float32)
    place = at % 4 if is_grid(TYPE) else at % 32 // words_per_group(TYPE)
    bit = bit_of(place, TYPE)
    lift = ((bit * -1 + (127 + LIFT)) << 23).to(tl.uint32).to(tl.float32, bitcast=True)
    return values * lift, tl.sum(values, axis=1)


@triton.jit
def _multiply(
    codes, high, scale, offset, lifted, sums, TYPE: tl.constexpr, BLOCK_ROWS: tl.constexpr, GROUPS: tl.constexpr
):
    """f32 [BLOCK_ROWS, units]: one step's products. A thread holds whole groups, so the 32 products are summed in its
    registers and the scale is applied once a unit."""
    SCALE: tl.constexpr = weights_per_scale(TYPE)
    codes, high, place = in_order(codes, high, TYPE, BLOCK_ROWS, GROUPS)
    numbers = tl.reshape(denormal_at(codes, high, place, TYPE), [BLOCK_ROWS, GROUPS * 32 // SCALE, SCALE])
    total = tl.sum(numbers * lifted[None, :, :], axis=2)
    return scale * (total * LOWER) - offset * sums[None, :]


@triton.jit
def _dot(
    base,
    grids,
    x,
    row,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """f32 [BLOCK_ROWS]: rows `row` of the matrix at `base` times the vector at `x`."""
    if is_float(TYPE):
        total = _dot_float(base, x, row, TYPE, COLUMNS, BLOCK_ROWS, GROUPS)
    else:
        acc = tl.zeros([BLOCK_ROWS, GROUPS * 32 // weights_per_scale(TYPE)], tl.float32)
        for first in range(0, COLUMNS // 32, GROUPS):
            codes, high, scale, offset = _load_step(base, grids, row, first, TYPE, ROWS, COLUMNS, GROUPS)
            lifted, sums = _load_values(x, first, TYPE, COLUMNS, GROUPS)
            acc += _multiply(codes, high, scale, offset, lifted, sums, TYPE, BLOCK_ROWS, GROUPS)
        total = tl.sum(acc, axis=1)
    return total


@triton.jit
def _dot_pair(
    one,
    two,
    grids,
    x,
    row,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """`_dot` with two matrices of one type: the loads of both are under way before the first product."""
    first_acc = tl.zeros([BLOCK_ROWS, GROUPS * 32 // weights_per_scale(TYPE)], tl.float32)
    second_acc = tl.zeros([BLOCK_ROWS, GROUPS * 32 // weights_per_scale(TYPE)], tl.float32)
    for first in range(0, COLUMNS // 32, GROUPS):
        codes_1, high_1, scale_1, offset_1 = _load_step(one, grids, row, first, TYPE, ROWS, COLUMNS, GROUPS)
        codes_2, high_2, scale_2, offset_2 = _load_step(two, grids, row, first, TYPE, ROWS, COLUMNS, GROUPS)
        lifted, sums = _load_values(x, first, TYPE, COLUMNS, GROUPS)
        first_acc += _multiply(codes_1, high_1, scale_1, offset_1, lifted, sums, TYPE, BLOCK_ROWS, GROUPS)
        second_acc += _multiply(codes_2, high_2, scale_2, offset_2, lifted, sums, TYPE, BLOCK_ROWS, GROUPS)
    return tl.sum(first_acc, axis=1), tl.sum(second_acc, axis=1)


@triton.jit
def _chosen(ids, num_pairs, expert, pair, MAX_PAIRS: tl.constexpr):
    """(lane, lanes that chose `expert`, how many pairs this program computes: none if an earlier pair leads)."""
    lane = tl.arange(0, MAX_PAIRS)
    same = tl.load(ids + lane, mask=lane < num_pairs, other=-1) == expert
    is_led = tl.sum((same & (lane < pair)).to(tl.int32), axis=0) > 0
    return lane, same, tl.where(is_led, 0, tl.sum(same.to(tl.int32), axis=0))


@triton.jit(do_not_specialize=["num_pairs"])
def gate_up_rows_kernel(
    x,
    ids,
    addresses,
    grids,
    out,
    num_pairs,
    NUM_USED: tl.constexpr,
    GATE_START: tl.constexpr,
    UP_START: tl.constexpr,
    GATE_TYPE: tl.constexpr,
    UP_TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    MAX_PAIRS: tl.constexpr,
):
    """x: f32 [rows, COLUMNS]; ids: int32 [num_pairs]; addresses: int64 [experts]; out: f32 [num_pairs, ROWS]."""
    pair = tl.program_id(1)
    expert = tl.load(ids + pair)
    blob = tl.load(addresses + expert)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    safe = tl.minimum(row, ROWS - 1)
    lane, same, count = _chosen(ids, num_pairs, expert, pair, MAX_PAIRS)
    now = pair
    for _ in range(count):
        vector = x + now // NUM_USED * COLUMNS
        gate_base, up_base = blob + GATE_START, blob + UP_START
        if (GATE_TYPE == UP_TYPE) and not is_float(GATE_TYPE):
            gate, up = _dot_pair(gate_base, up_base, grids, vector, safe, GATE_TYPE, ROWS, COLUMNS, BLOCK_ROWS, GROUPS)
        else:
            gate = _dot(gate_base, grids, vector, safe, GATE_TYPE, ROWS, COLUMNS, BLOCK_ROWS, GROUPS)
            up = _dot(up_base, grids, vector, safe, UP_TYPE, ROWS, COLUMNS, BLOCK_ROWS, GROUPS)
        tl.store(out + now * ROWS + row, gate / (1.0 + tl.exp(-gate)) * up, mask=row < ROWS)
        now = tl.min(tl.where(same & (lane > now), lane, MAX_PAIRS), axis=0)


@triton.jit(do_not_specialize=["num_pairs"])
def down_rows_kernel(
    x,
    ids,
    addresses,
    grids,
    out,
    num_pairs,
    START: tl.constexpr,
    TYPE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    MAX_PAIRS: tl.constexpr,
):
    """x: f32 [num_pairs, COLUMNS]; out: f32 [num_pairs, ROWS]."""
    pair = tl.program_id(1)
    expert = tl.load(ids + pair)
    base = tl.load(addresses + expert) + START
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    safe = tl.minimum(row, ROWS - 1)
    lane, same, count = _chosen(ids, num_pairs, expert, pair, MAX_PAIRS)
    now = pair
    for _ in range(count):
        y = _dot(base, grids, x + now * COLUMNS, safe, TYPE, ROWS, COLUMNS, BLOCK_ROWS, GROUPS)
        tl.store(out + now * ROWS + row, y, mask=row < ROWS)
        now = tl.min(tl.where(same & (lane > now), lane, MAX_PAIRS), axis=0)


@triton.jit(do_not_specialize=["num_rows"])
def linear_rows_kernel(
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
    GROUPS: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    safe = tl.minimum(row, ROWS - 1)
    base = tl.load(addresses)
    for vector in range(num_rows):
        y = _dot(base, grids, x + vector * COLUMNS, safe, TYPE, ROWS, COLUMNS, BLOCK_ROWS, GROUPS)
        at = out + vector * STRIDE + row
        if IS_ADDED:
            y += tl.load(at, mask=row < ROWS, other=0.0)
        tl.store(at, y, mask=row < ROWS)
