# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""A token from a row of logits: the largest of score + noise among what the filters keep (`reference/sample.py`).

    scores   bias, penalties, mask of terminators, temperature; what is NaN or +inf shows as a maximum of +inf
    keep     what top_k and top_p keep is what stands at or above one key in the order (score down, token id up): the
             key is found digit by digit, in `filtering.py`
    blocks   the largest of score + noise, a block of the vocabulary at a time
    pick     ... and of those. Of equal values the lower token id wins everywhere, so the blocks do not show.

Noise comes from integers and f64 logarithms, as in the reference. A row with a spoilt score, or without a finite one,
gives NO_TOKEN = -1. `wishes`: int64 words seed, prompt tokens, min tokens, top_k, is_greedy; `reals`: the same bytes as
f64, of which 5.. are temperature, top_p, min_p, repetition, presence, frequency.
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
def sample_scores_kernel(
    logits,
    wishes,
    reals,
    bias,
    counts,
    seen,
    terminators,
    header,
    tokens,
    scores,
    highest,
    VOCAB: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """tokens: int32 [rows], what was drafted for all rows but the first: where a row stands, every draft before it was
    taken, so its penalties count them. scores: f32 [rows, VOCAB]; highest: f32 [rows, blocks], +inf where the block
    holds NaN or +inf. grid (blocks, rows)."""
    block, row = tl.program_id(0), tl.program_id(1)
    token = block * BLOCK + tl.arange(0, BLOCK)
    inside = token < VOCAB
    score = tl.load(logits + row.to(tl.int64) * VOCAB + token, mask=inside, other=0.0)
    score += tl.load(bias + token, mask=inside, other=0.0)
    count = tl.load(counts + token, mask=inside, other=0)
    for before in range(row):
        count += (token == tl.load(tokens + before + 1)).to(tl.int32)
    repetition = tl.load(reals + 8).to(tl.float32)
    is_old = (count > 0) | (tl.load(seen + token, mask=inside, other=0) > 0)
    repeated = tl.where(score > 0, score / repetition, score * repetition)
    score = tl.where(is_old, repeated, score)
    score -= tl.where(count > 0, tl.load(reals + 9).to(tl.float32), 0.0)
    score -= tl.load(reals + 10).to(tl.float32) * count.to(tl.float32)
    is_early = tl.load(header) + row + 1 - tl.load(wishes + 1) < tl.load(wishes + 2)
    is_masked = tl.where(is_early, tl.load(terminators + token, mask=inside, other=0).to(tl.int32), 0)
    score = tl.where(inside & (is_masked == 0), score, float("-inf"))
    is_bad = (score != score) | (score == float("inf"))
    if tl.load(wishes + 4) == 0:
        score = score / tl.load(reals + 5).to(tl.float32)
    tl.store(scores + row.to(tl.int64) * VOCAB + token, score, mask=inside)
    any_bad = tl.sum(is_bad.to(tl.int32), axis=0) > 0
    top = tl.max(tl.where(score == score, score, float("-inf")), axis=0)
    tl.store(highest + row * tl.num_programs(0) + block, tl.where(any_bad, float("inf"), top))


@triton.jit
def order_key(score, token):
    """int64, larger for a higher score, and for the lower id of equals: 32 bits of the score above 20 of the id."""
    bits = (score + 0.0).to(tl.int32, bitcast=True)  # -0.0 becomes 0.0, its equal
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64) + 2147483648
    return (ordered << 20) + (1048575 - token)


@triton.jit(do_not_specialize=["num_blocks"])
def sample_blocks_kernel(
    scores,
    wishes,
    reals,
    header,
    highest,
    keep,
    best,
    where,
    num_blocks,
    VOCAB: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """keep: int64 [rows], smallest key that stays; best: f64, where: int32 [rows, blocks]; grid (blocks, rows)."""
    block, row = tl.program_id(0), tl.program_id(1)
    token = block * BLOCK + tl.arange(0, BLOCK)
    inside = token < VOCAB
    score = tl.load(scores + row.to(tl.int64) * VOCAB + token, mask=inside, other=float("-inf"))
    lane = tl.arange(0, BLOCKS)
    tops = tl.load(highest + row * num_blocks + lane, mask=lane < num_blocks, other=float("-inf"))
    top = tl.max(tops, axis=0)
    value = score.to(tl.float64)
    if tl.load(wishes + 4) == 0:
        position = tl.load(header) + row
        start = mix64(tl.load(wishes).to(tl.uint64)) + position.to(tl.uint64) * _POSITION_STEP
        word = mix64(start + (token + 1).to(tl.uint64) * _TOKEN_STEP)
        uniform = ((word >> 12).to(tl.float64) + 0.5) * (1.0 / 4503599627370496.0)
        is_likely = tl.exp(score - top).to(tl.float64) >= tl.load(reals + 7)
        is_kept = (order_key(score, token) >= tl.load(keep + row)) & is_likely
        value = tl.where(is_kept, value - tl.log(-tl.log(uniform)), float("-inf"))
    value = tl.where(value == value, value, float("-inf"))
    largest = tl.max(value, axis=0)
    first = tl.min(tl.where(value == largest, token, VOCAB), axis=0)
    at = row * num_blocks + block
    tl.store(best + at, tl.where(top == float("inf"), float("inf"), largest))
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
