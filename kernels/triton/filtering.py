# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""top_k and top_p without a sort: the smallest key (`order_key`) that both keep.

What stands at or above a key T has a weight that falls as T rises: the number of tokens (top_k), or their share of the
softmax among those (top_p). The key sought is the largest T whose weight is still enough: the k-th token; the token
with which the share reaches p. It is found four bits at a time, one launch a digit: every block of the vocabulary
weighs sixteen T at once, and the next launch adds the blocks up.

    step    0 .. 12    13 .. 25    26
            top_k      top_p       the answer into keep

Shares are integers, exp(score - maximum) in units of 2^-40, so their sums have no order and no rounding. A step that
nobody asked for ends at once: the same launches serve every request, so they can be captured.
"""

import triton
import triton.language as tl

from kernels.triton.sampling import order_key
from kernels.triton.sizes import SEARCH_DIGITS, SEARCH_STEPS

_DIGITS = tl.constexpr(SEARCH_DIGITS)
_TOTAL = tl.constexpr(SEARCH_STEPS)  # where `found` keeps the weight of all, behind the keys of the steps


@triton.jit
def _resolved(found, sums, step, needed_count, top_p, is_on, num_blocks, BLOCKS: tl.constexpr):
    """(the key as far as step - 1 of its search decided it, the weight of all in the second search)."""
    lane, digit = tl.arange(0, BLOCKS), tl.arange(0, 16)
    at = ((step + 1) % 2 * num_blocks + lane[:, None]) * 16 + digit[None, :]
    weights = tl.sum(tl.load(sums + at, mask=(lane < num_blocks)[:, None] & is_on, other=0), axis=0)
    total = tl.load(found + _TOTAL, mask=is_on & (step > _DIGITS + 1), other=0)
    all_of_them = tl.sum(tl.where(digit == 0, weights, 0), axis=0)  # T = 0 leaves nothing out
    total = tl.where(step == _DIGITS + 1, all_of_them, total)
    share = tl.maximum(tl.ceil(total.to(tl.float64) * top_p).to(tl.int64), 1)  # at least the most probable token
    needed = tl.where(step > _DIGITS, share, needed_count)
    is_enough = weights >= needed
    last = (step - 1) % _DIGITS
    key = tl.load(found + step - 2, mask=is_on & (last > 0), other=0)
    key += tl.max(tl.where(is_enough, digit, 0), axis=0).to(tl.int64) << ((_DIGITS - 1 - last) * 4)
    return tl.where(is_on, key, 0), total


@triton.jit(do_not_specialize=["step", "num_blocks"])
def keep_step_kernel(
    scores,
    wishes,
    reals,
    highest,
    found,
    sums,
    keep,
    step,
    num_blocks,
    VOCAB: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """found: int64 [rows, SEARCH_STEPS + 1]; sums: int64 [rows, 2, blocks, 16]; keep: int64 [rows]; grid (blocks,
    rows).

    keep[row] = smallest key that top_k and top_p keep; 0 where both are off, or the row is greedy."""
    block, row = tl.program_id(0), tl.program_id(1)
    found += row * (_TOTAL + 1)
    sums += row.to(tl.int64) * (2 * num_blocks * 16)
    lane = tl.arange(0, BLOCKS)
    tops = tl.load(highest + row * num_blocks + lane, mask=lane < num_blocks, other=float("-inf"))
    top = tl.max(tops, axis=0)
    top_k, top_p = tl.load(wishes + 3), tl.load(reals + 6)
    is_sampled = (tl.load(wishes + 4) == 0) & (top > float("-inf")) & (top < float("inf"))
    counts = is_sampled & (top_k > 0) & (top_k < VOCAB)
    shares = is_sampled & (top_p < 1.0)
    was_on = tl.where(step <= _DIGITS, counts, shares) & (step > 0)
    is_on = tl.where(step < _DIGITS, counts, shares) & (step < 2 * _DIGITS)
    if was_on | is_on | (step == 2 * _DIGITS):
        key, total = _resolved(found, sums, step, top_k, top_p, was_on, num_blocks, BLOCKS)
        floor = tl.load(found + _DIGITS - 1, mask=counts & (step > _DIGITS), other=0)
        floor = tl.where(step == _DIGITS, key, floor)
        if block == 0:
            tl.store(found + step - 1, key, mask=was_on)
            tl.store(found + _TOTAL, total, mask=was_on)
            tl.store(keep + row, tl.where(shares, key, floor), mask=step == 2 * _DIGITS)
        if is_on:
            token = block * BLOCK + tl.arange(0, BLOCK)
            inside = token < VOCAB
            score = tl.load(scores + row.to(tl.int64) * VOCAB + token, mask=inside, other=float("-inf"))
            own = order_key(score, token)
            share = (tl.exp(score - top) * 1099511627776.0).to(tl.int64)
            weight = tl.where(step < _DIGITS, 1, tl.where(own >= floor, share, 0))
            weight = tl.where(inside, weight, 0)
            digit = tl.arange(0, 16)
            first = tl.where(step % _DIGITS == 0, 0, key)
            candidate = first + (digit.to(tl.int64) << ((_DIGITS - 1 - step % _DIGITS) * 4))
            here = tl.sum(tl.where(own[:, None] >= candidate[None, :], weight[:, None], 0), axis=0)
            tl.store(sums + (step % 2 * num_blocks + block) * 16 + digit, here)
