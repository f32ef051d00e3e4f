# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""A token for a row of logits, as a function of tensors: rules of `launch_experts.py`."""

from dataclasses import dataclass

import triton
from torch import Tensor

from kernels.reference.sample import TokenTables
from kernels.triton import filtering, greedy, sampling
from kernels.triton.sizes import MAX_VOCAB, SAMPLE_BLOCK, SEARCH_STEPS

FOUND = SEARCH_STEPS + 1


@dataclass(frozen=True, slots=True)
class SampleScratch:
    """scores: f32 [rows, V]; highest: f32, best: f64, where: int32 [rows, blocks], for V / SAMPLE_BLOCK blocks, rounded
    up; sums: int64 [rows, 2, blocks, 16]; found: int64 [rows, FOUND]; keep: int64 [rows]."""

    scores: Tensor
    highest: Tensor
    best: Tensor
    where: Tensor
    sums: Tensor
    found: Tensor
    keep: Tensor


def sample(
    logits: Tensor,
    params: Tensor,
    tables: TokenTables,
    tokens: Tensor,
    header: Tensor,
    scratch: SampleScratch,
    result: Tensor,
) -> None:
    """result[row] = the token after position header[0] + row, -1 for none (`reference/sample.py`), as if the rows
    before it had given tokens[1], tokens[2], ...: `launch_bookkeeping.accept` says which rows that is true of.

    logits: f32 [rows, V], left as it is; tokens: int32 [rows]; params: int64 [32] as
    `strata.core.serving.request.pack_sampling` writes it; result: int64 [rows]. What a request asks for is read from
    params on the card: a captured graph serves them all."""
    num_rows, vocab = logits.shape
    assert vocab <= MAX_VOCAB, (vocab, MAX_VOCAB)
    blocks = triton.cdiv(vocab, SAMPLE_BLOCK)
    reals = params.view(scratch.best.dtype)
    many = triton.next_power_of_2(blocks)
    grid = (blocks, num_rows)
    known = (tables.bias, tables.counts, tables.seen, tables.terminators)
    sampling.sample_scores_kernel[grid](
        logits, params, reals, *known, header, tokens, scratch.scores, scratch.highest, VOCAB=vocab, BLOCK=SAMPLE_BLOCK
    )
    for step in range(SEARCH_STEPS):
        filtering.keep_step_kernel[grid](
            scratch.scores,
            params,
            reals,
            scratch.highest,
            scratch.found,
            scratch.sums,
            scratch.keep,
            step,
            blocks,
            VOCAB=vocab,
            BLOCK=SAMPLE_BLOCK,
            BLOCKS=many,
            num_warps=8,
        )
    sampling.sample_blocks_kernel[grid](
        scratch.scores,
        params,
        reals,
        header,
        scratch.highest,
        scratch.keep,
        scratch.best,
        scratch.where,
        blocks,
        VOCAB=vocab,
        BLOCK=SAMPLE_BLOCK,
        BLOCKS=many,
    )
    sampling.sample_pick_kernel[(num_rows,)](scratch.best, scratch.where, result, blocks, VOCAB=vocab, BLOCKS=many)


@dataclass(frozen=True, slots=True)
class DraftScratch:
    """highest, sums: f32, where: int32 [blocks], for V / SAMPLE_BLOCK blocks, rounded up."""

    highest: Tensor
    sums: Tensor
    where: Tensor


def most_likely(logits: Tensor, scratch: DraftScratch, token: Tensor, probability: Tensor) -> None:
    """token[0] = the first of the largest logits, probability[0] = its softmax; both 0 where one is NaN, or none is
    above -inf.

    logits: f32 [V]; token: int32 [1]; probability: f64 [1]."""
    vocab, blocks = logits.numel(), scratch.highest.numel()
    found = (scratch.highest, scratch.sums, scratch.where)
    greedy.greedy_blocks_kernel[(blocks,)](logits, *found, VOCAB=vocab, BLOCK=SAMPLE_BLOCK)
    many = triton.next_power_of_2(blocks)
    greedy.greedy_pick_kernel[(1,)](*found, token, probability, blocks, VOCAB=vocab, BLOCKS=many, num_warps=1)
