"""The sampler: filters against a naive one, and its draws against the distribution that they promise."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.reference.mix import mix64_scalar
from kernels.reference.sample import NO_TOKEN, POSITION_STEP, TOKEN_STEP, Sampling, TokenTables, noise, sample
from kernels.reference.scratch import Scratch

PLAIN = Sampling(
    seed=1,
    is_greedy=False,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    min_p=0.0,
    repetition_penalty=1.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
)
GREEDY = replace(PLAIN, is_greedy=True, temperature=0.0)
SCRATCH = Scratch()


def tables(num_tokens: int, **columns: list[float]) -> TokenTables:
    """Zero but for what is given."""

    def column(name: str, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(columns.get(name, [0] * num_tokens), dtype=dtype)

    return TokenTables(
        column("bias", torch.float32),
        column("counts", torch.int32),
        column("seen", torch.uint8),
        column("terminators", torch.uint8),
    )


def draw(
    logits: list[float], sampling: Sampling, *, position: int = 7, masked: bool = False, **columns: list[float]
) -> int:
    known = tables(len(logits), **columns)
    return sample(torch.tensor(logits), known, sampling, SCRATCH, position=position, terminators_masked=masked)


def allowed(logits: list[float], sampling: Sampling) -> set[int]:
    """Tokens that the filters leave, by the plain definition."""
    scaled = [logit / sampling.temperature for logit in logits]
    order = sorted(range(len(scaled)), key=lambda token: (-scaled[token], token))
    order = order[: sampling.top_k or len(order)]
    total = math.fsum(math.exp(scaled[token]) for token in order)
    kept, before = [], 0.0
    for token in order:
        if before < sampling.top_p or not kept:
            kept.append(token)
        before += math.exp(scaled[token]) / total
    return {token for token in kept if math.exp(scaled[token] - scaled[order[0]]) >= sampling.min_p}


def test_greedy_takes_the_lowest_of_equal_logits() -> None:
    assert draw([0.0, 3.0, 1.0, 3.0], GREEDY) == 1


def test_bias_moves_the_choice_before_anything_else() -> None:
    assert draw([0.0, 3.0], GREEDY, bias=[4.0, 0.0]) == 0


@pytest.mark.parametrize(
    ("penalty", "columns", "expected"),
    [
        ({"repetition_penalty": 2.0}, {"seen": [1, 0, 0]}, 1),  # 4.0 / 2 < 3.0: the prompt counts
        ({"repetition_penalty": 2.0}, {"counts": [1, 0, 0]}, 1),  # and so does the reply
        ({"repetition_penalty": 1.3}, {"seen": [1, 0, 0]}, 0),
        ({"presence_penalty": 1.5}, {"counts": [3, 0, 0]}, 1),
        ({"presence_penalty": 1.5}, {"seen": [1, 0, 0]}, 0),  # the reply only
        ({"frequency_penalty": 0.4}, {"counts": [2, 0, 0]}, 0),  # 4.0 - 0.8 > 3.0
        ({"frequency_penalty": 0.4}, {"counts": [3, 0, 0]}, 1),  # 4.0 - 1.2 < 3.0
        ({"frequency_penalty": 0.4}, {"seen": [1, 0, 0]}, 0),
    ],
)
def test_penalties_count_what_they_should(
    penalty: dict[str, float], columns: dict[str, list[float]], expected: int
) -> None:
    assert draw([4.0, 3.0, -1.0], replace(GREEDY, **penalty), **columns) == expected


def test_repetition_penalty_pushes_negative_logits_down() -> None:
    assert draw([-1.0, -1.5], replace(GREEDY, repetition_penalty=2.0), seen=[1, 0]) == 1


def test_terminators_cannot_be_drawn_while_masked() -> None:
    assert draw([9.0, 1.0, 0.0], GREEDY, masked=True, terminators=[1, 0, 0]) == 1
    assert draw([9.0, 1.0, 0.0], GREEDY, masked=False, terminators=[1, 0, 0]) == 0


@pytest.mark.parametrize("logits", [[math.nan, 1.0], [-math.inf, -math.inf], [math.inf, 0.0]])
def test_logits_that_allow_no_token_are_reported(logits: list[float]) -> None:
    assert draw(logits, GREEDY) == draw(logits, PLAIN) == NO_TOKEN


def test_masking_the_only_token_is_reported() -> None:
    assert draw([1.0], GREEDY, masked=True, terminators=[1]) == NO_TOKEN


def test_sampling_leaves_the_logits_as_they_are() -> None:
    logits = torch.tensor([0.5, 1.5, 0.1])
    before = logits.clone()
    sampling = replace(PLAIN, top_k=1, temperature=0.3)
    sample(logits, tables(3), sampling, SCRATCH, position=0, terminators_masked=False)
    assert torch.equal(logits, before)


@given(
    st.lists(st.integers(-8, 8).map(lambda n: n / 2), min_size=1, max_size=12),
    st.integers(0, 13),
    st.sampled_from([0.05, 0.31, 0.5, 0.77, 0.9, 1.0]),
    st.sampled_from([0.0, 0.017, 0.13, 0.61, 1.0]),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.integers(0, 2**63 - 1),
)
def test_filters_leave_what_their_definitions_leave(
    logits: list[float], top_k: int, top_p: float, min_p: float, temperature: float, seed: int
) -> None:
    sampling = replace(PLAIN, seed=seed, top_k=top_k, top_p=top_p, min_p=min_p, temperature=temperature)
    left = allowed(logits, sampling)
    drawn = {draw(logits, sampling, position=position) for position in range(12)}
    assert drawn <= left
    # Among those left, the draw is the largest logit + noise.
    expected = max(left, key=lambda token: (logits[token] / temperature + float(noise(seed, 3, 12)[token]), -token))
    assert draw(logits, sampling, position=3) == expected


def test_noise_is_the_documented_hash_of_seed_position_and_token() -> None:
    seed, position, token = 2**62 + 12345, 4321, 77
    mask = (1 << 64) - 1
    word = mix64_scalar((mix64_scalar(seed) + position * POSITION_STEP + (token + 1) * TOKEN_STEP) & mask)
    uniform = ((word >> 12) + 0.5) / 2**52
    assert float(noise(seed, position, 100)[token]) == pytest.approx(-math.log(-math.log(uniform)), rel=1e-12)
    assert torch.equal(noise(seed, position, 100), noise(seed, position, 5000)[:100])


def test_noise_differs_by_seed_and_by_position() -> None:
    rows = torch.stack([noise(seed, position, 64) for seed in range(5) for position in range(5)])
    assert rows.unique().numel() == rows.numel()


def chi_square(observed: dict[int, int], expected: dict[int, float], draws: int) -> float:
    return sum((observed.get(token, 0) - draws * p) ** 2 / (draws * p) for token, p in expected.items())


@pytest.mark.slow
@pytest.mark.parametrize("by_seed", [False, True], ids=["by position", "by seed"])
def test_draws_follow_the_filtered_distribution(by_seed: bool) -> None:
    probabilities = [0.02, 0.3, 0.1, 0.25, 0.15, 0.001, 0.179]
    sampling = replace(PLAIN, temperature=0.8, top_k=6, top_p=0.97, min_p=0.05)
    logits = [math.log(p) for p in probabilities]
    left = allowed(logits, sampling)
    assert left == {1, 2, 3, 4, 6}
    weights = {token: probabilities[token] ** (1 / 0.8) for token in left}
    expected = {token: weight / sum(weights.values()) for token, weight in weights.items()}
    draws, observed = 2000, dict.fromkeys(range(7), 0)
    for index in range(draws):
        seed, position = (index, 5) if by_seed else (99, index)
        observed[draw(logits, replace(sampling, seed=seed), position=position)] += 1
    assert sum(observed[token] for token in left) == draws
    assert chi_square(observed, expected, draws) < 18.47  # 4 degrees of freedom, 0.1 %
    assert chi_square(observed, dict.fromkeys(left, 0.2), draws) > 50  # and this test could fail
