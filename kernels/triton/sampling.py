# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""A token from a row of logits, at temperature or greedy: the largest of score + noise (`reference/sample.py`).

Two steps, blocks of the vocabulary and then their results; of equal values the lower token id wins in both, so the
blocks do not show. Noise comes from integers and f64 logarithms, as in the reference. A score that is NaN or +inf, or
a row without a finite score, gives NO_TOKEN = -1. top_k, top_p and min_p are not here.
"""

import triton
import triton.language as tl

_POSITION_STEP = tl.constexpr(0xD1342543DE82EF95)
_TOKEN_STEP = tl.constexpr(0x9E3779B97F4A7C15)


@triton.jit
def mix64(word):
    """The finalizer of splitmix64 on uint64."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB
    return word ^ (word >> 31)


@triton.jit
def sample_blocks_kernel(
    logits, params, reals, bias, counts, seen, terminators, header, best, where, VOCAB: tl.constexpr, BLOCK: tl.constexpr
):
    """best: f64, where: int32 [rows, blocks]; grid (blocks, rows). params: int64 words seed, prompt tokens, min tokens,
    top_k, is_greedy; reals: the same 256 bytes as f64, of which 5.. are temperature, top_p, min_p, repetition,
    presence, frequency (`strata.core.serving.request.pack_sampling`)."""
    block, row = tl.program_id(0), tl.program_id(1)
    token = block * BLOCK + tl.arange(0, BLOCK)
    inside = token < VOCAB
    score = tl.load(logits + row.to(tl.int64) * VOCAB + token, mask=inside, other=0.0)
    score += tl.load(bias + token, mask=inside, other=0.0)
    count = tl.load(counts + token, mask=inside, other=0)
    repetition = tl.load(reals + 8).to(tl.float32)
    is_old = (count > 0) | (tl.load(seen + token, mask=inside, other=0) > 0)
    repeated = tl.where(score > 0, score / repetition, score * repetition)
    score = tl.where(is_old & (repetition != 1.0), repeated, score)
    score -= tl.where(count > 0, tl.load(reals + 9).to(tl.float32), 0.0)
    score -= tl.load(reals + 10).to(tl.float32) * count.to(tl.float32)
    position = tl.load(header) + row
    is_early = position + 1 - tl.load(params + 1) < tl.load(params + 2)
    is_masked = is_early & (tl.load(terminators + token, mask=inside, other=0) > 0)
    is_bad = inside & ~is_masked & ((score != score) | (score == float("inf")))
    score = tl.where(is_masked | ~inside, float("-inf"), score)
    value = score.to(tl.float64)
    if tl.load(params + 4) == 0:
        value = (score / tl.load(reals + 5).to(tl.float32)).to(tl.float64)
        start = mix64(tl.load(params).to(tl.uint64)) + position.to(tl.uint64) * _POSITION_STEP
        word = mix64(start + (token + 1).to(tl.uint64) * _TOKEN_STEP)
        uniform = ((word >> 12).to(tl.float64) + 0.5) * (1.0 / 4503599627370496.0)
        value += -tl.log(-tl.log(uniform))
    any_bad = tl.sum(is_bad.to(tl.int32), axis=0) > 0
    value = tl.where(value == value, value, float("-inf"))
    highest = tl.max(value, axis=0)
    first = tl.min(tl.where(value == highest, token, VOCAB), axis=0)
    at = row * tl.num_programs(0) + block
    tl.store(best + at, tl.where(any_bad, float("inf"), highest))
    tl.store(where + at, first)


@triton.jit(do_not_specialize=["num_blocks"])
def sample_pick_kernel(best, where, result, num_blocks, VOCAB: tl.constexpr, BLOCKS: tl.constexpr):
    """result: int64 [rows]. BLOCKS >= num_blocks."""
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCKS)
    inside = lane < num_blocks
    value = tl.load(best + row * num_blocks + lane, mask=inside, other=float("-inf"))
    token = tl.load(where + row * num_blocks + lane, mask=inside, other=VOCAB)
    highest = tl.max(value, axis=0)
    first = tl.min(tl.where(value == highest, token, VOCAB), axis=0)
    is_finite = (highest > float("-inf")) & (highest < float("inf"))
    tl.store(result + row, tl.where(is_finite, first, -1).to(tl.int64))
