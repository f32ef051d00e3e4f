"""Sampling against the reference: the same tokens, not similar ones."""

import pytest
import torch

from kernels.reference import sample as reference_sample
from kernels.reference.sample import TokenTables
from kernels.triton import launch_sampling
from kernels.triton.launch_sampling import DraftScratch, SampleScratch
from kernels.triton.sizes import SAMPLE_BLOCK
from strata.core.serving.request import SamplingParams, pack_sampling
from tests.kernels_triton.builders import DEVICE, SCRATCH, header_at, normal, poisoned

PROMPT_TOKENS = 3


def scratch_for(rows: int, vocab: int) -> SampleScratch:
    blocks = -(-vocab // SAMPLE_BLOCK)
    return SampleScratch(
        poisoned(rows, vocab),
        poisoned(rows, blocks),
        poisoned(rows, blocks, dtype=torch.float64),
        poisoned(rows, blocks, dtype=torch.int32),
        poisoned(rows, 2, blocks, 16, dtype=torch.int64),
        poisoned(rows, launch_sampling.FOUND, dtype=torch.int64),
        poisoned(rows, dtype=torch.int64),
    )


def random_tables(vocab: int) -> TokenTables:
    counts = (torch.rand(vocab) < 0.1).int().to(DEVICE) * 2
    seen, terminators = ((torch.rand(vocab) < 0.1).to(torch.uint8).to(DEVICE) for _ in range(2))
    return TokenTables(normal(vocab, scale=0.1), counts, seen, terminators)


def sampled(
    logits, params: SamplingParams, tables: TokenTables, position: int, drafted: tuple[int, ...] = ()
) -> list[int]:
    """`drafted`: the tokens of all rows but the first; those of no vocabulary leave every count as it is."""
    tokens = torch.tensor([77, *(drafted or [-1] * (len(logits) - 1))], dtype=torch.int32, device=DEVICE)
    words = torch.frombuffer(bytearray(pack_sampling(params, prompt_tokens=PROMPT_TOKENS)), dtype=torch.int64)
    result = poisoned(len(logits), dtype=torch.int64)
    scratch = scratch_for(*logits.shape)
    launch_sampling.sample(logits, words.to(DEVICE), tables, tokens, header_at(position), scratch, result)
    return result.tolist()


def expected_token(logits, params: SamplingParams, tables: TokenTables, position: int) -> int:
    return reference_sample.sample(
        logits.cpu(),
        TokenTables(*(one.cpu() for one in (tables.bias, tables.counts, tables.seen, tables.terminators))),
        reference_sample.Sampling(
            params.seed,
            params.temperature == 0.0,
            params.temperature,
            params.top_k,
            params.top_p,
            params.min_p,
            params.repetition_penalty,
            params.presence_penalty,
            params.frequency_penalty,
        ),
        SCRATCH,
        position=position,
        terminators_masked=position + 1 - PROMPT_TOKENS < params.min_tokens,
    )


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.0),
        SamplingParams(temperature=0.7, seed=5),
        SamplingParams(temperature=1.3, seed=2**62 + 1, repetition_penalty=1.3, presence_penalty=0.5, min_tokens=9),
        SamplingParams(temperature=0.0, frequency_penalty=0.9, repetition_penalty=0.8, top_k=1),
        pytest.param(SamplingParams(temperature=1.0, seed=6, top_k=7), marks=pytest.mark.soak),
        SamplingParams(temperature=2.0, seed=7, top_p=0.8),
        SamplingParams(temperature=2.0, seed=8, top_k=40, top_p=0.5, min_p=0.02),
        SamplingParams(temperature=5.0, seed=9, min_p=0.3),
        SamplingParams(temperature=5.0, seed=9, top_p=1e-9),
    ],
)
def test_sampled_tokens_are_those_of_the_reference(params):
    torch.manual_seed(11)
    vocab, rows, position = 1_500, 2, 6
    tables = random_tables(vocab)
    logits = normal(rows, vocab, scale=3.0)
    logits[0] = logits[0].round()  # ties
    expected = [expected_token(logits[row], params, tables, position + row) for row in range(rows)]
    assert sampled(logits, params, tables, position) == expected


def test_a_row_counts_the_drafts_before_it_as_the_windows_that_took_them_would():
    """Three rows of one window, and three windows of one row of which each counted its token: penalties are heavy."""
    torch.manual_seed(12)
    vocab, position = 1_100, 6
    params = SamplingParams(0.3, seed=8, repetition_penalty=1.5, presence_penalty=2.0, frequency_penalty=1.5)
    tables = random_tables(vocab)
    logits = normal(1, vocab, scale=2.0).repeat(3, 1)
    one_by_one = []
    for row in range(3):
        one_by_one += sampled(logits[row : row + 1], params, tables, position + row)
        tables.counts[one_by_one[-1]] += 1
    for token in one_by_one:
        tables.counts[token] -= 1
    assert sampled(logits, params, tables, position, tuple(one_by_one[:2])) == one_by_one
    assert sampled(logits, params, tables, position) != one_by_one


@pytest.mark.parametrize(
    ("change", "best"),
    [({}, 1_070), ({3: 9.0, 1_099: 9.0, 500: 9.0}, 3), ({40: torch.inf}, 40), ({1_030: torch.nan}, 0)],
)
def test_a_draft_is_the_first_of_the_largest_logits(change, best):
    logits = normal(1_100).clamp(max=4.0)
    logits[1_070] = 5.0
    for token, value in change.items():
        logits[token] = value
    assert drafted_of(logits) == best


def test_nothing_above_minus_infinity_drafts_token_0():
    assert drafted_of(torch.full((1_100,), -torch.inf, device=DEVICE)) == 0


def drafted_of(logits) -> int:
    """The token; its probability is as it should be."""
    blocks = -(-len(logits) // SAMPLE_BLOCK)
    token, probability = poisoned(2, dtype=torch.int32), poisoned(2, dtype=torch.float64)
    scratch = DraftScratch(poisoned(blocks), poisoned(blocks), poisoned(blocks, dtype=torch.int32))
    launch_sampling.most_likely(logits, scratch, token[:1], probability[:1])
    assert token[1] == 77 and probability[1].isnan()
    assert float(probability[0]) == pytest.approx(_softmax_of_largest(logits), rel=1e-5)
    return int(token[0])


def _softmax_of_largest(logits) -> float:
    row = logits.double()
    if row.isnan().any() or row.max() == -torch.inf:
        return 0.0
    if row.max() == torch.inf:
        return 1.0 / int((row == torch.inf).sum())
    return float(row.softmax(0).max())


@pytest.mark.parametrize("top_k", [1, 300])
def test_of_equal_scores_top_k_keeps_the_lower_ids(top_k):
    """Every logit is the same: only tokens below top_k may come."""
    tables = TokenTables(*(torch.zeros(1_100, dtype=kind, device=DEVICE) for kind in _TABLE_TYPES))
    logits, params = torch.full((1, 1_100), -1.5, device=DEVICE), SamplingParams(temperature=1.0, seed=3, top_k=top_k)
    found = sampled(logits, params, tables, 50)
    assert found == [expected_token(logits[0], params, tables, 50)]
    assert found[0] < top_k


_TABLE_TYPES = (torch.float32, torch.int32, torch.uint8, torch.uint8)


@pytest.mark.parametrize(
    "params", [SamplingParams(temperature=0.0), SamplingParams(temperature=1.0, top_k=5, top_p=0.5)]
)
def test_a_row_without_a_token_says_so(params):
    logits = normal(3, 1_100)
    logits[0, 1_050], logits[1] = torch.nan, -torch.inf
    found = sampled(logits, params, random_tables(1_100), 5)
    assert found[:2] == [-1, -1] and found[2] >= 0
