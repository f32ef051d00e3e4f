"""What the card notes by itself is what the reference programs note: selections, reads of experts, accepted tokens."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.triton import launch_bookkeeping, launch_dense, launch_rows
from kernels.triton.sizes import MAX_EXPERTS
from tests.kernels_triton.builders import DEVICE, GRIDS, Matrix, header_at, normal, poisoned, relative_error


@settings(max_examples=8)
@given(st.sampled_from([8, 60, MAX_EXPERTS]), st.data())
def test_exactly_the_named_experts_are_selected(num_experts, data):
    experts = data.draw(st.sets(st.integers(0, num_experts - 1)))
    selected = poisoned(num_experts + 3, dtype=torch.uint8)
    launch_bookkeeping.select(sorted(experts), selected[:num_experts])
    assert {i for i, flag in enumerate(selected[:num_experts].tolist()) if flag} == experts
    assert selected.max() <= 77 and selected[num_experts:].tolist() == [77] * 3


def test_the_sign_bit_of_a_word_selects_like_any_other():
    selected = poisoned(64, dtype=torch.uint8)
    launch_bookkeeping.select((31, 32, 63), selected)
    assert torch.nonzero(selected).flatten().tolist() == [31, 32, 63]


def test_each_expert_counts_once_and_by_where_it_lies():
    arena_address, arena_bytes = 1 << 40, 1 << 33
    inside, last, behind, before = arena_address, arena_address + arena_bytes - 1, arena_address + arena_bytes, 1 << 39
    addresses = torch.tensor([inside, behind, last, before, inside, 0], device=DEVICE)
    ids = torch.tensor([0, 1, 0, 2, 3, 1], dtype=torch.int32, device=DEVICE)
    reads = torch.tensor([10, 20], device=DEVICE)
    launch_bookkeeping.count_reads(ids, addresses, reads, arena_address=arena_address, arena_bytes=arena_bytes)
    assert reads.tolist() == [12, 22]


@pytest.mark.parametrize(("token", "taken", "counts"), [(3, 3, [0, 0, 0, 1]), (-1, 0, [0, 0, 0, 0])])
def test_an_accepted_token_is_counted_and_the_position_moves_on(token, taken, counts):
    result, counted = torch.tensor([token], device=DEVICE), torch.zeros(4, dtype=torch.int32, device=DEVICE)
    tokens, header = poisoned(2, dtype=torch.int32), header_at(41)
    num_sampled = poisoned(1, dtype=torch.int64)
    launch_bookkeeping.accept(result, num_sampled, counted, tokens, header)
    assert (counted.tolist(), tokens.tolist(), header[:2].tolist()) == (counts, [taken, 77], [42, 0])
    assert num_sampled.tolist() == [1]


def test_silu_and_bias_equal_the_formula():
    gate, up, bias = normal(3, 1100), normal(3, 1100), normal(20)
    out = poisoned(3, 1100)
    launch_rows.silu_mul(gate, up, out)
    assert relative_error(out, torch.nn.functional.silu(gate.double()) * up.double()) < 1e-6
    gate, hidden = normal(3, 1), normal(3, 1100)
    expected = hidden.double() + torch.sigmoid(gate.double()) * up.double()
    launch_rows.add_gated(hidden, up, gate)
    assert relative_error(hidden, expected) < 1e-6
    query_gate, heads = normal(3, 2, 2, 40), normal(3, 2, 40)
    gated = heads.double() * torch.sigmoid(query_gate[:, :, 1].double())
    launch_rows.gate_heads(query_gate, heads)
    assert relative_error(heads, gated) < 1e-6
    wide = normal(3, 30)
    before = wide.clone()
    launch_rows.add_bias(wide[:, 5:25], bias)
    before[:, 5:25] += bias
    assert torch.equal(wide, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_product_is_added_where_it_was_asked_for_and_nowhere_else(dtype):
    matrix, x = Matrix.random(8, rows=12, columns=64), normal(3, 64, dtype=dtype)
    wide = normal(3, 30)
    before = wide.clone()
    launch = launch_dense.linear_window if dtype == torch.float32 else launch_dense.linear_prompt
    launch(x, matrix.addresses, GRIDS, 8, wide[:, 4:16], is_added=True)
    expected = before.double().cpu()
    expected[:, 4:16] += x.double().cpu() @ matrix.weights.T
    assert relative_error(wide, expected) < 1e-3
    assert torch.equal(wide[:, :4], before[:, :4]) and torch.equal(wide[:, 16:], before[:, 16:])
