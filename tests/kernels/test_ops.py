"""What each op computes, against its formula in float64 or by hand."""

import math

import pytest
import torch
from gguf import GGMLQuantizationType
from hypothesis import given
from hypothesis import strategies as st

from kernels.reference.activation import silu_mul
from kernels.reference.append_kv import append_kv
from kernels.reference.attention import attention
from kernels.reference.combine import combine
from kernels.reference.embed import embed
from kernels.reference.fill import fill
from kernels.reference.linear import linear
from kernels.reference.rms_norm import rms_norm
from kernels.reference.rope import rope
from kernels.reference.router import MIN_WEIGHT_SUM, route
from kernels.reference.scratch import Scratch

F32 = int(GGMLQuantizationType.F32)


def as_bytes(values: torch.Tensor) -> torch.Tensor:
    return values.contiguous().view(torch.uint8).view(-1)


def test_linear_multiplies_adds_the_bias_and_accumulates() -> None:
    torch.manual_seed(1)
    x, weight, bias = torch.randn(21, 48), torch.randn(30, 48), torch.randn(30)
    expected = x.double() @ weight.double().t() + bias.double()
    out = torch.ones(21, 30)
    linear(x, as_bytes(weight), F32, out, Scratch(), bias=bias, accumulate=True)
    torch.testing.assert_close(out.double(), expected + 1.0, atol=1e-5, rtol=0)


def test_linear_reads_the_bytes_again_at_each_launch() -> None:
    x, weight, scratch, out = torch.ones(1, 32), torch.ones(16, 32), Scratch(), torch.empty(1, 16)
    data = as_bytes(weight)
    linear(x, data, F32, out, scratch)
    assert (out == 32.0).all()
    data.view(torch.float32)[0] = 5.0
    linear(x, data, F32, out, scratch)
    assert out[0].tolist() == [36.0] + [32.0] * 15


def test_embed_gives_the_tokens_rows() -> None:
    table, out = torch.randn(10, 32), torch.empty(3, 32)
    embed(torch.tensor([7, 0, 7], dtype=torch.int32), as_bytes(table), F32, out, Scratch())
    assert torch.equal(out, table[[7, 0, 7]])


@pytest.mark.parametrize("token", [-1, 10])
def test_embed_refuses_a_token_outside_the_table(token: int) -> None:
    with pytest.raises(AssertionError):
        embed(torch.tensor([token], dtype=torch.int32), as_bytes(torch.ones(10, 4)), F32, torch.empty(1, 4), Scratch())


def test_rms_norm_divides_by_the_root_mean_square() -> None:
    torch.manual_seed(2)
    x, weight, out = torch.randn(19, 40), torch.randn(40), torch.empty(19, 40)
    rms_norm(x, weight, 1e-5, out, Scratch())
    wide = x.double()
    expected = weight.double() * wide / torch.sqrt((wide**2).mean(1, keepdim=True) + 1e-5)
    torch.testing.assert_close(out.double(), expected, atol=1e-6, rtol=0)
    rms_norm(x, weight, 1e-5, x, Scratch())
    assert torch.equal(x, out)


@given(st.booleans(), st.sampled_from([8, 6]), st.integers(0, 3000), st.booleans())
def test_rope_turns_each_pair_by_its_angle(is_neox: bool, num_dims: int, position: int, has_factors: bool) -> None:
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(position))
    before, half = x.double(), num_dims // 2
    factors = torch.arange(1, half + 1, dtype=torch.float32) if has_factors else None
    rope(x, position=position, base=500.0, num_dims=num_dims, is_neox=is_neox, scale=0.5, factors=factors)
    expected = before.clone()
    for row in range(2):
        for pair in range(half):
            angle = (position + row) * 0.5 * 500.0 ** (-2 * pair / num_dims)
            angle /= float(factors[pair]) if factors is not None else 1.0
            a, b = (pair, pair + half) if is_neox else (2 * pair, 2 * pair + 1)
            cosine, sine = math.cos(angle), math.sin(angle)
            expected[row, :, a] = before[row, :, a] * cosine - before[row, :, b] * sine
            expected[row, :, b] = before[row, :, a] * sine + before[row, :, b] * cosine
    torch.testing.assert_close(x.double(), expected, atol=2e-6, rtol=0)
    assert torch.equal(x[..., num_dims:].double(), before[..., num_dims:])


@pytest.mark.parametrize(("position", "rows"), [(0, 1), (0, 150), (127, 2), (130, 40)])
def test_attention_is_causal_softmax_over_the_group_s_key_head(position: int, rows: int) -> None:
    torch.manual_seed(3)
    num_heads, num_kv_heads, head_dim, context = 6, 2, 16, 200
    query, out = torch.randn(rows, num_heads, head_dim), torch.empty(rows, num_heads, head_dim)
    keys, values = (torch.zeros(context, num_kv_heads, head_dim, dtype=torch.float16) for _ in range(2))
    new = torch.randn(2, position + rows, num_kv_heads, head_dim)
    append_kv(new[0], new[1], keys, values, position=0)
    attention(query, keys, values, out, Scratch(), position=position, scale=0.25)
    for row in range(rows):
        for head in range(num_heads):
            k, v = (each[: position + row + 1, head // 3].double() for each in (keys, values))
            weights = torch.softmax(k @ query[row, head].double() * 0.25, dim=0)
            torch.testing.assert_close(out[row, head].double(), weights @ v, atol=3e-6, rtol=0)


def test_append_kv_refuses_rows_beyond_the_context() -> None:
    cache = torch.zeros(4, 1, 2)
    with pytest.raises(AssertionError):
        append_kv(torch.ones(2, 1, 2), torch.ones(2, 1, 2), cache, cache.clone(), position=3)


def test_silu_mul_is_gated_by_the_sigmoid_even_far_out() -> None:
    gate = torch.tensor([[-200.0, -90.0, -3.0, 0.0, 3.0, 90.0, 200.0, 1.0]])
    up, out = torch.full((1, 8), 2.0), torch.empty(1, 8)
    silu_mul(gate, up, out, Scratch())
    expected = 2.0 * gate.double() * torch.special.expit(gate.double())
    torch.testing.assert_close(out.double(), expected, atol=1e-6, rtol=1e-6)


def routed(logits: list[list[float]], used: int, scale: float = 1.0) -> tuple[list[list[int]], torch.Tensor, list[int]]:
    rows, num_experts = len(logits), len(logits[0])
    ids, weights = torch.empty(rows, used, dtype=torch.int32), torch.empty(rows, used)
    counts = torch.zeros(num_experts, dtype=torch.int32)
    route(torch.tensor(logits), ids, weights, counts, Scratch(), weights_scale=scale)
    return ids.tolist(), weights, counts.tolist()


def test_route_prefers_the_lower_id_among_equals() -> None:
    ids, weights, counts = routed([[1.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]], used=2)
    assert ids == [[1, 2], [0, 1]]
    assert weights.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert counts == [1, 2, 1, 0]


def test_route_renormalizes_the_chosen_and_scales_them() -> None:
    logits = [0.3, -1.0, 2.0, 0.9, 0.1]
    ids, weights, _ = routed([logits], used=3, scale=2.5)
    assert ids == [[2, 3, 0]]
    chosen = torch.softmax(torch.tensor([2.0, 0.9, 0.3], dtype=torch.float64), 0) * 2.5
    torch.testing.assert_close(weights[0].double(), chosen, atol=1e-6, rtol=0)


def test_route_never_divides_by_less_than_the_floor() -> None:
    assert MIN_WEIGHT_SUM == 2.0**-14
    num_experts = 40_000  # each gets 2.5e-5, two of them less than the floor
    _, weights, _ = routed([[0.0] * num_experts], used=2)
    torch.testing.assert_close(weights[0], torch.full((2,), 1 / num_experts / MIN_WEIGHT_SUM), atol=0, rtol=1e-4)


def test_combine_adds_weighted_rows_in_router_order() -> None:
    expert_rows = torch.tensor([[[1e8], [1.0], [-1e8]]])
    hidden = torch.tensor([[0.5]])
    combine(expert_rows, torch.ones(1, 3), hidden, Scratch())
    assert hidden.item() == 0.5  # (1e8 + 1) - 1e8 is 0 in float32; another order gives 1
    combine(expert_rows[:, [0, 2, 1]], torch.ones(1, 3), hidden, Scratch())
    assert hidden.item() == 1.5


def test_fill_sets_every_byte_of_the_target_only() -> None:
    data = torch.zeros(10, dtype=torch.uint8)
    fill(data[2:7], 255)
    assert data.tolist() == [0, 0, *[255] * 5, 0, 0, 0]
