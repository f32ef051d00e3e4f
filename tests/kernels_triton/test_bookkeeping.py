"""What the card notes by itself is what the reference programs note: selections, reads of experts, accepted tokens."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.reference.sample import TokenTables
from kernels.triton import launch_bookkeeping, launch_dense, launch_rows, sizes
from kernels.triton.sizes import MAX_EXPERTS
from strata.core.programs import MAX_WINDOW_ROWS
from strata.core.serving.request import SamplingParams, pack_sampling
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
    where = {"arena_address": arena_address, "arena_bytes": arena_bytes}
    reads = torch.tensor([10, 20], device=DEVICE)
    launch_bookkeeping.count_reads(ids, addresses, reads, None, **where)
    assert reads.tolist() == [12, 22]
    usage = torch.tensor([7, 0, 1, 0, 5, 9, 77, 77], dtype=torch.int32, device=DEVICE)
    launch_bookkeeping.count_reads(ids, addresses, reads, usage[:6], **where)
    assert (reads.tolist(), usage.tolist()) == ([14, 24], [8, 1, 2, 1, 5, 9, 77, 77])


@pytest.mark.parametrize(("num_experts", "ids"), [(6, (5, 0, 5, 1, 0, 5)), (60, (*range(40, 60), 3, 3)), (512, (511,))])
def test_every_choice_of_an_expert_is_counted(num_experts, ids):
    counts = torch.full((num_experts + 2,), 77, dtype=torch.int32, device=DEVICE)
    launch_bookkeeping.count_chosen(torch.tensor(ids, dtype=torch.int32, device=DEVICE), counts[:num_experts])
    assert counts.tolist() == [*(ids.count(expert) for expert in range(num_experts)), 77, 77]


POSITION, PROMPT_TOKENS, END = 41, 40, 3
"""Row i gives token i + 1 of the reply."""


@dataclass(frozen=True)
class Window:
    """What was sampled for each row, and drafted for each but the first; how many rows stand."""

    result: tuple[int, ...]
    drafted: tuple[int, ...]
    standing: int
    min_tokens: int = 0


WINDOWS = (
    Window((2,), (), 1),
    Window((2, 4, 5), (2, 4), 3),
    Window((2, 4, 5, 1, 0, 2, 5, 4), (2, 4, 5, 1, 0, 2, 5), 8),
    Window((2, 4, 5), (2, 5), 2),
    Window((2, 4, 5), (4, 4), 1),
    Window((2, 2, 2), (2, 2), 3),  # a token several times
    Window((2, END, 5), (2, END), 2),  # the reply ends
    Window((END, END, END, 5), (END, END, END), 3, min_tokens=4),  # it may not end before its third token is out
    Window((-1,), (), 1),
    Window((2, -1, 5), (2, 4), 2),
)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_rows_of_a_window_stand_up_to_the_first_that_was_not_drafted_or_ends_the_reply(window):
    rows = len(window.result)
    counts, terminators = (torch.zeros(6, dtype=kind, device=DEVICE) for kind in (torch.int32, torch.uint8))
    terminators[END] = 1
    tables = TokenTables(normal(6), counts, terminators, terminators)
    params = torch.frombuffer(
        bytearray(pack_sampling(SamplingParams(min_tokens=window.min_tokens), prompt_tokens=PROMPT_TOKENS)),
        dtype=torch.int64,
    ).to(DEVICE)
    result, header = torch.tensor(window.result, device=DEVICE), header_at(POSITION)
    tokens = torch.tensor([77, *window.drafted], dtype=torch.int32, device=DEVICE)
    sampled, num_sampled = poisoned(rows, dtype=torch.int32), poisoned(1, dtype=torch.int64)
    launch_bookkeeping.accept(result, num_sampled, tables, params, tokens, sampled, header)
    said = window.result[: window.standing]
    assert num_sampled.tolist() == [window.standing]
    assert sampled.tolist() == [*said, *[77] * (rows - window.standing)]
    assert tokens.tolist() == [max(said[-1], 0), *window.drafted]
    assert header[:2].tolist() == [POSITION + window.standing, 0]
    assert counts.tolist() == [said.count(token) for token in range(6)]
    assert result.tolist() == list(window.result)


def test_without_a_drafter_nobody_is_told_the_ids_again():
    tokens, counts = poisoned(1, dtype=torch.int32), torch.zeros(6, dtype=torch.int32, device=DEVICE)
    tables = TokenTables(normal(6), counts, *(counts.to(torch.uint8) for _ in range(2)))
    params = torch.zeros(32, dtype=torch.int64, device=DEVICE)
    result, num_sampled = torch.tensor([4], device=DEVICE), poisoned(1, dtype=torch.int64)
    launch_bookkeeping.accept(result, num_sampled, tables, params, tokens, None, header_at(7))
    assert (tokens.tolist(), num_sampled.tolist(), counts.tolist()) == ([4], [1], [0, 0, 0, 0, 1, 0])


def test_the_kernels_know_as_many_rows_as_a_window_may_have():
    assert sizes.MAX_WINDOW_ROWS == MAX_WINDOW_ROWS


@pytest.mark.parametrize("behind", [0, 3, -2])
def test_a_draft_stands_as_far_behind_as_it_says(behind):
    header = header_at(5)
    launch_bookkeeping.place_behind(header_at(POSITION), header, behind=behind)
    assert header[:2].tolist() == [POSITION - behind, 0]


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
