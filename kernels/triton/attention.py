# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""Causal attention with grouped heads over K/V in any format of `kv_cells.py`, for a prompt chunk and for a window.

Both walk key blocks that start at position 0 and have a fixed size, with an online softmax (Milakov and Gimelshein,
arXiv:1805.02867; tiling as in arXiv:2205.14135). A key block that lies wholly behind a row changes nothing in it: the
maximum stays, exp2(-inf) = 0, the rescaling factor is exactly 1. So a row's bits depend on its own position only, not
on the rows it shares a tile with. Masks are applied to the raw scores, before the scale, so that masked and unmasked
blocks round alike.

    window   grid (kv heads, splits): a split is SPLIT_KEYS keys; partial (sum, maximum, output) go to scratch and
             `merge_splits_kernel` adds them, first split to last. A split count is fixed by the row's position.

`header` int64 [32]: [0] = position of row 0.
"""

import triton
import triton.language as tl

from kernels.triton.kv_cells import load_cells

LOG2_E = 1.4426950408889634


@triton.jit
def _attend(
    q,
    kv,
    acc,
    maximum,
    total,
    first,
    position,
    num_keys,
    scale,
    KEY_TYPE: tl.constexpr,
    VALUE_TYPE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    IS_MASKED: tl.constexpr,
):
    """One key block into the running (output, maximum, sum) of each row. q: [rows, HEAD_DIM]; position: [rows]; kv:
    keys, their scales, values, their scales, kv head."""
    keys, key_scales, values, value_scales, head = kv
    key = first + tl.arange(0, BLOCK_KEYS)
    inside = (key < num_keys)[:, None]
    k = load_cells(keys, key_scales, key, inside, head, KEY_TYPE, NUM_KV_HEADS, HEAD_DIM, BLOCK_KEYS, IS_MASKED)
    v = load_cells(values, value_scales, key, inside, head, VALUE_TYPE, NUM_KV_HEADS, HEAD_DIM, BLOCK_KEYS, IS_MASKED)
    scores = tl.dot(q, k.T)
    if IS_MASKED:
        scores = tl.where(key[None, :] <= position[:, None], scores, float("-inf"))
    highest = tl.maximum(maximum, tl.max(scores, axis=1) * scale)
    weights = tl.exp2(scores * scale - highest[:, None])
    factor = tl.exp2(maximum - highest)
    total = total * factor + tl.sum(weights, axis=1)
    acc = tl.dot(weights.to(v.dtype), v, acc * factor[:, None])
    return acc, highest, total


@triton.jit(do_not_specialize=["num_rows"])
def prompt_attention_kernel(
    q,
    keys,
    key_scales,
    values,
    value_scales,
    header,
    out,
    num_rows,
    scale,
    KEY_TYPE: tl.constexpr,
    VALUE_TYPE: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """q, out: [num_rows, NUM_HEADS, HEAD_DIM]; scale: 1/sqrt(HEAD_DIM) * log2(e). Last rows first: they are longest."""
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)
    kv_head = head // (NUM_HEADS // NUM_KV_HEADS)
    start = tl.load(header).to(tl.int32)
    row = block * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.arange(0, HEAD_DIM)
    at = row.to(tl.int64)[:, None] * (NUM_HEADS * HEAD_DIM) + head * HEAD_DIM + column[None, :]
    inside = (row < num_rows)[:, None]
    queries = tl.load(q + at, mask=inside, other=0.0)
    position = start + tl.minimum(row, num_rows - 1)
    kv = (keys, key_scales, values, value_scales, kv_head)
    acc = tl.zeros([BLOCK_ROWS, HEAD_DIM], tl.float32)
    maximum = tl.full([BLOCK_ROWS], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_ROWS], tl.float32)
    first_position = start + block * BLOCK_ROWS
    num_keys = tl.minimum(first_position + BLOCK_ROWS, start + num_rows)
    num_whole = (first_position + 1) // BLOCK_KEYS * BLOCK_KEYS  # key blocks that every row of the tile sees in full
    for first in tl.range(0, num_whole, BLOCK_KEYS, num_stages=STAGES):
        acc, maximum, total = _attend(
            queries,
            kv,
            acc,
            maximum,
            total,
            first,
            position,
            num_keys,
            scale,
            KEY_TYPE,
            VALUE_TYPE,
            NUM_KV_HEADS,
            HEAD_DIM,
            BLOCK_KEYS,
            False,
        )
    for first in tl.range(num_whole, num_keys, BLOCK_KEYS, num_stages=1):
        acc, maximum, total = _attend(
            queries,
            kv,
            acc,
            maximum,
            total,
            first,
            position,
            num_keys,
            scale,
            KEY_TYPE,
            VALUE_TYPE,
            NUM_KV_HEADS,
            HEAD_DIM,
            BLOCK_KEYS,
            True,
        )
    tl.store(out + at, (acc / total[:, None]).to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["num_rows"])
def window_attention_kernel(
    q,
    keys,
    key_scales,
    values,
    value_scales,
    header,
    part_out,
    part_state,
    num_rows,
    scale,
    KEY_TYPE: tl.constexpr,
    VALUE_TYPE: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    SPLIT_KEYS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """part_out: f32 [splits, num_rows * NUM_HEADS, HEAD_DIM]; part_state: f32 [2, splits, num_rows * NUM_HEADS].

    BLOCK_ROWS >= rows * heads a kv head, for the largest window of the process: one program for every window."""
    GROUP: tl.constexpr = NUM_HEADS // NUM_KV_HEADS
    kv_head, split = tl.program_id(0), tl.program_id(1)
    start = tl.load(header).to(tl.int32)
    num_keys = start + num_rows
    if split * SPLIT_KEYS < num_keys:
        lane = tl.arange(0, BLOCK_ROWS)
        inside = lane < num_rows * GROUP
        row = tl.minimum(lane // GROUP, num_rows - 1)
        vector = row * NUM_HEADS + kv_head * GROUP + lane % GROUP
        at = vector[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
        queries = tl.load(q + at, mask=inside[:, None], other=0.0)
        position = start + row
        kv = (keys, key_scales, values, value_scales, kv_head)
        acc = tl.zeros([BLOCK_ROWS, HEAD_DIM], tl.float32)
        maximum = tl.full([BLOCK_ROWS], -1e30, tl.float32)  # finite: a split may lie wholly behind a row
        total = tl.zeros([BLOCK_ROWS], tl.float32)
        for first in tl.range(split * SPLIT_KEYS, split * SPLIT_KEYS + SPLIT_KEYS, BLOCK_KEYS, num_stages=STAGES):
            acc, maximum, total = _attend(
                queries,
                kv,
                acc,
                maximum,
                total,
                first,
                position,
                num_keys,
                scale,
                KEY_TYPE,
                VALUE_TYPE,
                NUM_KV_HEADS,
                HEAD_DIM,
                BLOCK_KEYS,
                True,
            )
        num_vectors = num_rows * NUM_HEADS
        place = split * num_vectors + vector
        tl.store(
            part_out + place.to(tl.int64)[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :],
            acc,
            mask=inside[:, None],
        )
        tl.store(part_state + place, maximum, mask=inside)
        tl.store(part_state + tl.num_programs(1) * num_vectors + place, total, mask=inside)


@triton.jit(do_not_specialize=["num_rows", "max_splits"])
def merge_splits_kernel(
    part_out,
    part_state,
    header,
    out,
    num_rows,
    max_splits,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SPLIT_KEYS: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """Program = one head of one row. out: [num_rows, NUM_HEADS, HEAD_DIM]. SPLITS splits are read at a time."""
    vector = tl.program_id(0)
    num_vectors = num_rows * NUM_HEADS
    num_splits = (tl.load(header).to(tl.int32) + vector // NUM_HEADS) // SPLIT_KEYS + 1
    lane = tl.arange(0, SPLITS)
    column = tl.arange(0, HEAD_DIM)
    highest = -1e30
    for first in range(0, num_splits, SPLITS):
        split = first + lane
        here = tl.load(part_state + split * num_vectors + vector, mask=split < num_splits, other=-1e30)
        highest = tl.maximum(highest, tl.max(here, axis=0))
    acc = tl.zeros([HEAD_DIM], tl.float32)
    total = 0.0
    for first in range(0, num_splits, SPLITS):
        split = first + lane
        inside = split < num_splits
        place = split * num_vectors + vector
        here = tl.load(part_state + place, mask=inside, other=-1e30)
        sums = tl.load(part_state + max_splits * num_vectors + place, mask=inside, other=0.0)
        parts = tl.load(
            part_out + place.to(tl.int64)[:, None] * HEAD_DIM + column[None, :], mask=inside[:, None], other=0.0
        )
        factor = tl.where(inside, tl.exp2(here - highest), 0.0)
        total += tl.sum(sums * factor, axis=0)
        acc += tl.sum(parts * factor[:, None], axis=0)
    tl.store(out + vector * HEAD_DIM + column, (acc / total).to(out.dtype.element_ty))
