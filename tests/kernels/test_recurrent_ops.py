"""The ops of a gated delta net: their formulas in float64, and that any cut of the tokens leaves the same bits."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kernels.reference.activation import sigmoid_mul
from kernels.reference.causal_conv import causal_conv
from kernels.reference.delta_net import SOFTPLUS_LINEAR_FROM, delta_net, gates
from kernels.reference.l2_norm import l2_norm
from kernels.reference.router import route
from kernels.reference.scratch import Scratch

pytestmark = pytest.mark.slow

HEADS = [(1, 1, 8), (2, 4, 16), (3, 6, 32), (2, 6, 5)]
"""Key heads, value heads, width."""
cuts = st.lists(st.integers(1, 20), min_size=1, max_size=6)
seeds = st.integers(0, 2**32 - 1)


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def inputs(rows: int, heads: tuple[int, int, int], seed: int) -> list[Tensor]:
    """Query, key, value, beta, decay as the op gets them."""
    keys, values, width = heads
    query, key = (torch.nn.functional.normalize(randn(rows, keys, width, seed=seed + n), dim=2) for n in (0, 1))
    beta, decay = (torch.sigmoid(randn(rows, values, seed=seed + n)) for n in (2, 3))
    return [query, key, randn(rows, values, width, seed=seed + 4), beta, decay]


def expected_rows(case: list[Tensor], state: Tensor, *, is_tiled: bool) -> tuple[Tensor, Tensor]:
    """The recurrence in float64, head by head."""
    query, key, value, beta, decay = (each.double() for each in case)
    (rows, num_values, _), num_keys = value.shape, key.shape[1]
    matrices, out = state.double(), torch.zeros_like(value)
    for row in range(rows):
        for head in range(num_values):
            source = head % num_keys if is_tiled else head // (num_values // num_keys)
            k, q, m = key[row, source], query[row, source], matrices[head] * decay[row, head]
            m = m + torch.outer(k, beta[row, head] * (value[row, head] - k @ m))
            matrices[head], out[row, head] = m, q @ m
    return out, matrices


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("is_tiled", [True, False])
def test_the_delta_net_corrects_decays_and_answers(heads: tuple[int, int, int], is_tiled: bool) -> None:
    case, state = inputs(23, heads, seed=1), randn(heads[1], heads[2], heads[2], seed=9)
    out, wanted = torch.empty_like(case[2]), expected_rows(case, state, is_tiled=is_tiled)
    delta_net(*case, state, out, Scratch(), is_tiled=is_tiled)
    torch.testing.assert_close(out.double(), wanted[0], atol=3e-5, rtol=0)
    torch.testing.assert_close(state.double(), wanted[1], atol=3e-5, rtol=0)


@given(cuts, st.sampled_from(HEADS), st.booleans(), seeds)
@settings(max_examples=30)
def test_a_delta_net_in_any_cuts_has_the_bits_of_one_launch(
    lengths: list[int], heads: tuple[int, int, int], is_tiled: bool, seed: int
) -> None:
    rows, scratch = sum(lengths), Scratch()
    case, first = inputs(rows, heads, seed), randn(heads[1], heads[2], heads[2], seed=seed + 9)
    whole, pieces = torch.empty_like(case[2]), torch.empty_like(case[2])
    states = first.clone(), first.clone()
    delta_net(*case, states[0], whole, scratch, is_tiled=is_tiled)
    start = 0
    for length in lengths:
        span = slice(start, start + length)
        strided = [torch.cat((each[span], each[span]), 1)[:, : each.shape[1]] for each in case]
        delta_net(*strided, states[1], pieces[span], scratch, is_tiled=is_tiled)
        start += length
    assert torch.equal(whole, pieces)
    assert torch.equal(*states)


@given(cuts, st.integers(2, 5), st.sampled_from([1, 16, 33, 96]), seeds)
@settings(max_examples=30)
def test_a_convolution_in_any_cuts_has_the_bits_of_one_launch(
    lengths: list[int], taps: int, channels: int, seed: int
) -> None:
    rows, scratch = sum(lengths), Scratch()
    x, weight, first = randn(rows, channels, seed=seed), randn(taps, channels, seed=seed + 1), None
    first = randn(taps - 1, channels, seed=seed + 2)
    states, whole, pieces = (first.clone(), first.clone()), torch.empty_like(x), torch.empty_like(x)
    causal_conv(x, weight, states[0], whole, scratch)
    start = 0
    for length in lengths:
        causal_conv(x[start : start + length], weight, states[1], pieces[start : start + length], scratch)
        start += length
    assert torch.equal(whole, pieces)
    assert torch.equal(*states)
    assert torch.equal(states[0], torch.cat((first, x))[-(taps - 1) :])


def test_the_last_tap_of_a_convolution_meets_the_row_itself() -> None:
    x, state, out = torch.tensor([[1.0], [10.0]]), torch.tensor([[100.0], [1000.0]]), torch.empty(2, 1)
    causal_conv(x, torch.tensor([[0.001], [0.01], [0.5]]), state, out, Scratch())
    sums = torch.tensor([[0.1 + 10.0 + 0.5], [1.0 + 0.01 + 5.0]], dtype=torch.float64)
    torch.testing.assert_close(out.double(), sums * torch.special.expit(sums), atol=1e-5, rtol=0)
    assert state.tolist() == [[1.0], [10.0]]


@given(st.integers(1, 60), st.integers(0, 59), st.sampled_from([1, 2, 3, 5, 32]), seeds)
@settings(max_examples=40)
def test_gates_of_a_row_are_the_same_in_any_company(rows: int, row: int, heads: int, seed: int) -> None:
    row, scratch = min(row, rows - 1), Scratch()
    beta, alpha = randn(rows, heads, seed=seed) * 9, randn(rows, heads, seed=seed + 1) * 30
    rate, bias = -randn(heads, seed=seed + 2).abs(), randn(heads, seed=seed + 3)
    alone = beta[row : row + 1].clone(), alpha[row : row + 1].clone()
    wide = torch.cat((beta, alpha), 1)
    gates(*alone, rate, bias, scratch)
    wanted = (
        torch.special.expit(beta.double()),
        torch.exp(rate.double() * torch.nn.functional.softplus((alpha + bias).double())),
    )
    gates(wide[:, :heads], wide[:, heads:], rate, bias, scratch)
    for index, part in enumerate((wide[:, :heads], wide[:, heads:])):
        assert torch.equal(part[row], alone[index][0])
        torch.testing.assert_close(part.double(), wanted[index], atol=3e-6, rtol=0)


def test_softplus_is_the_identity_where_its_exponential_would_overflow() -> None:
    alpha = torch.tensor([[SOFTPLUS_LINEAR_FROM - 1e-3, SOFTPLUS_LINEAR_FROM + 1e-3, 200.0, -200.0]])
    beta, before = torch.zeros_like(alpha), alpha.clone()
    gates(beta, alpha, torch.full((4,), -0.01), torch.zeros(4), Scratch())
    expected = torch.exp(-0.01 * torch.nn.functional.softplus(before.double()))
    torch.testing.assert_close(alpha.double(), expected, atol=1e-6, rtol=0)
    assert beta.tolist() == [[0.5] * 4]


@given(st.integers(1, 60), st.integers(0, 59), st.sampled_from([5, 16, 64, 128]), seeds)
@settings(max_examples=30)
def test_a_unit_vector_is_the_same_in_any_company(rows: int, row: int, columns: int, seed: int) -> None:
    row, x = min(row, rows - 1), randn(rows, columns, seed=seed)
    together, alone = torch.empty_like(x), torch.empty(1, columns)
    l2_norm(x, 1e-6, together, Scratch(), scale=0.25)
    l2_norm(x[row : row + 1].clone(), 1e-6, alone, Scratch(), scale=0.25)
    assert torch.equal(together[row], alone[0])
    wanted = 0.25 * x.double() / torch.sqrt((x.double() ** 2).sum(1, keepdim=True) + 1e-6)
    torch.testing.assert_close(together.double(), wanted, atol=1e-6, rtol=0)


@given(st.integers(1, 60), st.integers(0, 59), st.sampled_from([(1, 64), (32, 32), (5, 5)]), seeds)
@settings(max_examples=30)
def test_a_gated_row_is_the_same_in_any_company(rows: int, row: int, widths: tuple[int, int], seed: int) -> None:
    row, scratch = min(row, rows - 1), Scratch()
    gate, x = randn(rows, widths[0], seed=seed) * 20, randn(rows, widths[1], seed=seed + 1)
    together, alone = torch.empty_like(x), torch.empty(1, widths[1])
    sigmoid_mul(gate, x, together, scratch)
    sigmoid_mul(gate[row : row + 1].clone(), x[row : row + 1], alone, scratch)
    assert torch.equal(together[row], alone[0])
    wanted = x.double() * torch.special.expit(gate.double())
    torch.testing.assert_close(together.double(), wanted, atol=1e-6, rtol=1e-6)


def routed(logits: Tensor, used: int, **options: object) -> tuple[Tensor, Tensor]:
    ids, weights = torch.empty(logits.shape[0], used, dtype=torch.int32), torch.empty(logits.shape[0], used)
    counts = torch.zeros(logits.shape[1], dtype=torch.int32)
    route(logits, ids, weights, counts, Scratch(), is_sigmoid=True, **options)  # type: ignore[arg-type]
    return ids, weights


def test_a_bias_chooses_and_does_not_weigh() -> None:
    logits, bias = torch.tensor([[2.0, 1.0, 0.0, -1.0]]), torch.tensor([0.0, 0.0, 0.0, 5.0])
    ids, weights = routed(logits, 2, bias=bias, normalizes=False)
    assert ids.tolist() == [[3, 0]]
    torch.testing.assert_close(weights, torch.special.expit(torch.tensor([[-1.0, 2.0]])), atol=1e-6, rtol=0)
    _, shares = routed(logits, 2, bias=bias, weights_scale=3.0)
    torch.testing.assert_close(shares, 3.0 * weights / weights.sum(), atol=1e-6, rtol=0)
    assert routed(logits, 2)[0].tolist() == [[0, 1]]


@given(st.integers(1, 60), st.integers(0, 59), st.sampled_from([3, 8, 128]), seeds)
@settings(max_examples=30)
def test_sigmoid_routing_of_a_row_is_the_same_in_any_company(rows: int, row: int, experts: int, seed: int) -> None:
    row, logits, bias = min(row, rows - 1), randn(rows, experts, seed=seed) * 3, randn(experts, seed=seed + 1)
    together, alone = routed(logits, 2, bias=bias), routed(logits[row : row + 1].clone(), 2, bias=bias)
    for many, one in zip(together, alone, strict=True):
        assert torch.equal(many[row], one[0])
    assert not math.isnan(float(together[1].sum()))
