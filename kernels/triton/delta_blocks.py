# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""The gated delta net of a prompt chunk, in blocks of BLOCK_ROWS rows from the last cut (Yang et al. 2024,
arXiv:2412.06464, section 3.3): what `delta.py` does row by row, as products of matrices.

With G the running sum of the log decays inside a block, M the head's matrix before it, and u what a row adds for its
key, all rows t of the block at once:

    A[t,s] = beta_t exp(G_t - G_s) k_t.k_s  for s < t        S[t,s] = exp(G_t - G_s) q_t.k_s  for s <= t
    T = (I + A)^-1                                           by forward substitution: powers of A would overflow
    u = T (beta v) - [T (beta exp(G) k)] M                   solve: T, and all but M;  walk: the rest, block by block
    out = exp(G) q M + S u            M' = exp(G_last) M + sum over s of k_s exp(G_last - G_s) u_s

No exponent is above 0. Rows behind the last one are zeros, and a row takes nothing of rows behind it, so its bits
depend on those before it and on where blocks begin: chunks of whole blocks leave the bits of one chunk. A launch takes
one run of blocks; where a cut begins them anew, another launch goes on from the state.
"""

import triton
import triton.language as tl

from kernels.triton.delta import sigmoid, softplus

PRECISION = tl.constexpr("tf32")  # as near as the f16 that a chunk's other products round to, and within f32's range


@triton.jit
def unit_heads_kernel(
    mixed, epsilon, scale, KEY_HEADS: tl.constexpr, CHANNELS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Queries and keys to unit length, in place; queries times `scale` too. mixed: f32 [rows, CHANNELS]; grid (rows,
    2 * KEY_HEADS)."""
    head, line = tl.program_id(1), tl.arange(0, BLOCK)
    inside = line < WIDTH
    at = mixed + tl.program_id(0).to(tl.int64) * CHANNELS + head * WIDTH + line
    values = tl.load(at, mask=inside, other=0.0)
    factor = tl.where(head < KEY_HEADS, scale, 1.0)
    tl.store(at, values * (factor / tl.sqrt(tl.sum(values * values, axis=0) + epsilon)), mask=inside)


@triton.jit
def _tile(base, row, live, column, STRIDE: tl.constexpr, WIDTH: tl.constexpr):
    """f32 [rows, columns] of a matrix whose rows are STRIDE numbers apart; zeros outside."""
    inside = live[:, None] & (column < WIDTH)[None, :]
    return tl.load(base + row[:, None] * STRIDE + column[None, :], mask=inside, other=0.0)


@triton.jit(do_not_specialize=["num_rows"])
def delta_solve_kernel(
    mixed,
    beta,
    alpha,
    rate,
    bias,
    blocks,
    num_rows,
    KEY_HEADS: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    IS_TILED: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
):
    """Of each block and head: T (beta v) in place of v, G in place of alpha, and blocks = T (beta exp(G) k) | S.

    mixed: f32 [num_rows, channels], queries and keys of unit length; beta, alpha: f32 [num_rows, HEADS] as projected;
    blocks: f32 [num_rows, HEADS, WIDTH + BLOCK_ROWS]. grid (blocks, HEADS)."""
    first, head = tl.program_id(0).to(tl.int64) * BLOCK_ROWS, tl.program_id(1)
    CHANNELS: tl.constexpr = (2 * KEY_HEADS + HEADS) * WIDTH
    NOTED: tl.constexpr = HEADS * (WIDTH + BLOCK_ROWS)
    key_head = head % KEY_HEADS if IS_TILED else head // (HEADS // KEY_HEADS)
    one, line = tl.arange(0, BLOCK_ROWS), tl.arange(0, BLOCK)
    row = first + one
    live = row < num_rows
    both = live[:, None] & (line < WIDTH)[None, :]
    trust = tl.where(live, sigmoid(tl.load(beta + row * HEADS + head, mask=live, other=0.0)), 0.0)
    pace = softplus(tl.load(alpha + row * HEADS + head, mask=live, other=0.0) + tl.load(bias + head))
    total = tl.cumsum(tl.where(live, tl.load(rate + head) * pace, 0.0), axis=0)
    behind = one[:, None] >= one[None, :]
    weight = tl.where(behind, tl.exp(tl.where(behind, total[:, None] - total[None, :], 0.0)), 0.0)
    key = _tile(mixed + (KEY_HEADS + key_head) * WIDTH, row, live, line, CHANNELS, WIDTH)
    query = _tile(mixed + key_head * WIDTH, row, live, line, CHANNELS, WIDTH)
    note = blocks + head * (WIDTH + BLOCK_ROWS)
    seen = weight * tl.dot(query, tl.trans(key), input_precision=PRECISION)
    tl.store(note + WIDTH + row[:, None] * NOTED + one[None, :], seen, mask=live[:, None])
    known = tl.dot(key, tl.trans(key), input_precision=PRECISION) * weight * trust[:, None]
    known = tl.where(one[:, None] > one[None, :], known, 0.0)
    inverse = tl.where(one[:, None] == one[None, :], 1.0, 0.0)
    for index in range(1, tl.minimum(num_rows - first, BLOCK_ROWS)):
        is_row = one[:, None] == index
        before = tl.sum(tl.where(is_row, known, 0.0), axis=0)
        taken = tl.sum(before[:, None] * inverse, axis=0)
        inverse = tl.where(is_row, inverse - taken[None, :], inverse)
    old = tl.dot(inverse, (trust * tl.exp(total))[:, None] * key, input_precision=PRECISION)
    tl.store(note + row[:, None] * NOTED + line[None, :], old, mask=both)
    values = mixed + (2 * KEY_HEADS + head) * WIDTH
    value = _tile(values, row, live, line, CHANNELS, WIDTH)
    fresh = tl.dot(inverse, trust[:, None] * value, input_precision=PRECISION)
    tl.store(values + row[:, None] * CHANNELS + line[None, :], fresh, mask=both)
    tl.store(alpha + row * HEADS + head, total, mask=live)


@triton.jit(do_not_specialize=["num_rows"])
def delta_walk_kernel(
    mixed,
    log_decays,
    blocks,
    state,
    out,
    num_rows,
    KEY_HEADS: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    IS_TILED: tl.constexpr,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
):
    """out of all rows, and the state moves on by them. grid (HEADS, column blocks): some columns of a matrix stay
    in registers from the first block to the last.

    mixed, log_decays (what alpha became), blocks: as `solve` left them; state: f32 [HEADS, WIDTH, WIDTH]; out: f32
    [num_rows, HEADS, WIDTH]."""
    head, column = tl.program_id(0), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    CHANNELS: tl.constexpr = (2 * KEY_HEADS + HEADS) * WIDTH
    NOTED: tl.constexpr = HEADS * (WIDTH + BLOCK_ROWS)
    key_head = head % KEY_HEADS if IS_TILED else head // (HEADS // KEY_HEADS)
    one, line = tl.arange(0, BLOCK_ROWS), tl.arange(0, BLOCK)
    whole = (line < WIDTH)[:, None] & (column < WIDTH)[None, :]
    place = state + head * (WIDTH * WIDTH) + line[:, None] * WIDTH + column[None, :]
    matrix = tl.load(place, mask=whole, other=0.0)
    note = blocks + head * (WIDTH + BLOCK_ROWS)
    for first in tl.range(0, num_rows, BLOCK_ROWS, num_stages=1):
        row = first + one.to(tl.int64)
        live = row < num_rows
        total = tl.load(log_decays + row * HEADS + head, mask=live, other=0.0)
        last = tl.sum(tl.where(one == tl.minimum(num_rows - first, BLOCK_ROWS) - 1, total, 0.0), axis=0)
        old = _tile(note, row, live, line, NOTED, WIDTH)
        fresh = _tile(mixed + (2 * KEY_HEADS + head) * WIDTH, row, live, column, CHANNELS, WIDTH)
        added = fresh - tl.dot(old, matrix, input_precision=PRECISION)
        query = _tile(mixed + key_head * WIDTH, row, live, line, CHANNELS, WIDTH)
        answer = tl.exp(total)[:, None] * tl.dot(query, matrix, input_precision=PRECISION)
        seen = _tile(note + WIDTH, row, live, one, NOTED, BLOCK_ROWS)
        answer += tl.dot(seen, added, input_precision=PRECISION)
        both = live[:, None] & (column < WIDTH)[None, :]
        tl.store(out + (row[:, None] * HEADS + head) * WIDTH + column[None, :], answer, mask=both)
        key = _tile(mixed + (KEY_HEADS + key_head) * WIDTH, row, live, line, CHANNELS, WIDTH)
        left = tl.exp(last - total)[:, None] * added
        matrix = tl.exp(last) * matrix + tl.dot(tl.trans(key), left, input_precision=PRECISION)
    tl.store(place, matrix, mask=whole)
