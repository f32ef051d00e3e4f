# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""Which experts a row uses, and the sum of what they gave. One program = one row, so no bit depends on another."""

import triton
import triton.language as tl


@triton.jit
def route_kernel(
    logits,
    bias,
    ids,
    weights,
    weights_scale,
    NUM_EXPERTS: tl.constexpr,
    NUM_USED: tl.constexpr,
    EXPERTS: tl.constexpr,
    SMALLEST_SUM: tl.constexpr,
    IS_SIGMOID: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    NORMALIZES: tl.constexpr,
):
    """Softmax over all experts or a sigmoid of each, the NUM_USED largest (of equals the lower id first), their sum
    brought to 1 where it NORMALIZES, times weights_scale. The bias, f32 [NUM_EXPERTS], counts for the choice only.

    logits: f32 [rows, NUM_EXPERTS]; ids: int32, weights: f32 [rows, NUM_USED], largest first. EXPERTS: a power of two.
    SMALLEST_SUM: 2^-14, below which the sum of the chosen is not divided by."""
    row = tl.program_id(0)
    expert = tl.arange(0, EXPERTS)
    inside = expert < NUM_EXPERTS
    values = tl.load(logits + row * NUM_EXPERTS + expert, mask=inside, other=float("-inf"))
    if IS_SIGMOID:
        scores = 1.0 / (1.0 + tl.exp(-values))
    else:
        powers = tl.exp(values - tl.max(values, axis=0))
        scores = powers / tl.sum(powers, axis=0)
    left = scores
    if HAS_BIAS:
        left += tl.load(bias + expert, mask=inside, other=0.0)
    left = tl.where(inside, left, float("-inf"))
    total = 0.0
    for place in tl.static_range(NUM_USED):
        highest = tl.max(left, axis=0)
        chosen = tl.min(tl.where(left == highest, expert, EXPERTS), axis=0)
        tl.store(ids + row * NUM_USED + place, chosen)
        weight = tl.sum(tl.where(expert == chosen, scores, 0.0), axis=0) if HAS_BIAS else highest
        tl.store(weights + row * NUM_USED + place, weight)
        left = tl.where(expert == chosen, float("-inf"), left)
        total += weight
    tl.debug_barrier()
    factor = weights_scale / tl.maximum(total, SMALLEST_SUM) if NORMALIZES else weights_scale
    for place in tl.static_range(NUM_USED):
        at = weights + row * NUM_USED + place
        tl.store(at, tl.load(at) * factor)


@triton.jit
def combine_kernel(expert_rows, weights, hidden, NUM_USED: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """hidden[r] += sum of weights[r, j] * expert_rows[r, j], j in router order. grid (rows, column blocks)."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < COLUMNS
    total = tl.zeros([BLOCK], tl.float32)
    for index in tl.static_range(NUM_USED):
        part = tl.load(expert_rows + (row * NUM_USED + index) * COLUMNS + column, mask=inside, other=0.0)
        total += part.to(tl.float32) * tl.load(weights + row * NUM_USED + index)
    at = hidden + row * COLUMNS + column
    tl.store(at, tl.load(at, mask=inside, other=0.0) + total, mask=inside)
