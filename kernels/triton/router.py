# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""Which experts a row uses, and the sum of what they gave. One program = one row, so no bit depends on another."""

import triton
import triton.language as tl


@triton.jit
def route_kernel(
    logits,
    ids,
    weights,
    weights_scale,
    NUM_EXPERTS: tl.constexpr,
    NUM_USED: tl.constexpr,
    EXPERTS: tl.constexpr,
    SMALLEST_SUM: tl.constexpr,
):
    """Softmax over all experts, the NUM_USED largest (of equals the lower id first), renormalized, times weights_scale.

    logits: f32 [rows, NUM_EXPERTS]; ids: int32, weights: f32 [rows, NUM_USED], largest first. EXPERTS: a power of two.
    SMALLEST_SUM: 2^-14, below which the sum of the chosen is not divided by."""
    row = tl.program_id(0)
    expert = tl.arange(0, EXPERTS)
    inside = expert < NUM_EXPERTS
    values = tl.load(logits + row * NUM_EXPERTS + expert, mask=inside, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    left = tl.where(inside, powers / tl.sum(powers, axis=0), -1.0)
    total = 0.0
    for place in tl.static_range(NUM_USED):
        highest = tl.max(left, axis=0)
        chosen = tl.min(tl.where(left == highest, expert, EXPERTS), axis=0)
        tl.store(ids + row * NUM_USED + place, chosen)
        tl.store(weights + row * NUM_USED + place, highest)
        left = tl.where(expert == chosen, -1.0, left)
        total += highest
    tl.debug_barrier()
    factor = weights_scale / tl.maximum(total, SMALLEST_SUM)
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
