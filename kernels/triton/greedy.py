# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""The most likely token of one row of logits, lowest id first, and how likely it is: what a drafter drafts.

    blocks   the largest of each block of the vocabulary, where its first one is, and the sum of exp(logit - largest)
    pick     ... and of those

NaN anywhere, or nothing above -inf, gives token 0 with probability 0: a draft is only a guess.
"""

import triton
import triton.language as tl


@triton.jit
def greedy_blocks_kernel(logits, highest, sums, where, VOCAB: tl.constexpr, BLOCK: tl.constexpr):
    """highest: f32 [blocks], NaN where the block holds one; sums: f32, where: int32 [blocks]. grid (blocks,)."""
    block = tl.program_id(0)
    token = block * BLOCK + tl.arange(0, BLOCK)
    logit = tl.load(logits + token, mask=token < VOCAB, other=float("-inf"))
    top = tl.max(tl.where(logit == logit, logit, float("-inf")), axis=0)
    is_spoilt = tl.sum((logit != logit).to(tl.int32), axis=0) > 0
    tl.store(highest + block, tl.where(is_spoilt, float("nan"), top))
    tl.store(sums + block, tl.sum(tl.where(logit == top, 1.0, tl.exp(logit - top)), axis=0))
    tl.store(where + block, tl.min(tl.where(logit == top, token, VOCAB), axis=0))


@triton.jit(do_not_specialize=["num_blocks"])
def greedy_pick_kernel(highest, sums, where, token, probability, num_blocks, VOCAB: tl.constexpr, BLOCKS: tl.constexpr):
    """token: int32 [1]; probability: f64 [1]. BLOCKS >= num_blocks. One program."""
    lane = tl.arange(0, BLOCKS)
    value = tl.load(highest + lane, mask=lane < num_blocks, other=float("-inf"))
    first = tl.load(where + lane, mask=lane < num_blocks, other=VOCAB)
    top = tl.max(tl.where(value == value, value, float("-inf")), axis=0)
    best = tl.min(tl.where(value == top, first, VOCAB), axis=0)
    is_spoilt = tl.sum((value != value).to(tl.int32), axis=0) > 0
    is_nothing = is_spoilt | (top == float("-inf"))
    tl.store(token, tl.where(is_nothing, 0, best))
    part = tl.load(sums + lane, mask=lane < num_blocks, other=0.0)
    total = tl.sum(
        tl.where(value == top, part, tl.where(value > float("-inf"), part * tl.exp(value - top), 0.0)), axis=0
    )
    tl.store(probability, tl.where(is_nothing, 0.0, 1.0 / total).to(tl.float64))
