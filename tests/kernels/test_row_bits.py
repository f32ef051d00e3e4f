"""The bits of a row do not depend on how many rows there are, where it stands among them, or what they hold.

On this the tiers E1 to E3 rest: a prompt read in any chunks, and windows of any rows, leave the same K, V and logits.
"""

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kernels.reference.activation import silu_mul
from kernels.reference.attention import attention
from kernels.reference.combine import combine
from kernels.reference.expert_weights import ExpertWeights
from kernels.reference.experts import experts
from kernels.reference.linear import linear
from kernels.reference.rms_norm import rms_norm
from kernels.reference.rope import rope
from kernels.reference.router import route
from kernels.reference.scratch import Scratch
from tests.kernels.quant_blocks import random_blocks

pytestmark = pytest.mark.slow

rows_and_split = st.integers(1, 90).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(0, rows - 1)))
seeds = st.integers(0, 2**32 - 1)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=generator(seed))


def weight_bytes(type_name: str, rows: int, columns: int, seed: int) -> tuple[Tensor, int]:
    type_id = int(GGMLQuantizationType[type_name])
    elements = {"F32": 1, "F16": 1}.get(type_name, 32)
    return torch.from_numpy(random_blocks(type_name, rows * columns // elements, seed)).view(-1), type_id


@given(
    rows_and_split,
    st.sampled_from(["F32", "F16", "Q4_1", "Q8_0"]),
    st.sampled_from([32, 64, 96, 576, 1536]),
    st.sampled_from([1, 3, 16, 40, 100, 192]),
    seeds,
)
def test_a_product_row_is_the_same_in_any_company(
    case: tuple[int, int], type_name: str, columns: int, num_outputs: int, seed: int
) -> None:
    (rows, row), scratch = case, Scratch()
    weight, type_id = weight_bytes(type_name, num_outputs, columns, seed)
    x, bias = randn(rows, columns, seed=seed), randn(num_outputs, seed=seed + 1)
    together, alone, strided = torch.empty(rows, num_outputs), torch.empty(1, num_outputs), torch.empty(rows, 200)
    linear(x, weight, type_id, together, scratch, bias=bias)
    linear(x[row : row + 1].clone(), weight, type_id, alone, scratch, bias=bias)
    linear(torch.cat((x, x), 1)[:, columns:], weight, type_id, strided[:, 3 : 3 + num_outputs], scratch, bias=bias)
    assert torch.equal(together[row], alone[0])
    assert torch.equal(strided[:, 3 : 3 + num_outputs], together)


def test_a_product_row_is_the_same_across_bands_and_tiles() -> None:
    scratch, columns, num_outputs = Scratch(), 2048, 300  # tiles of 144 rows
    weight, type_id = weight_bytes("Q8_0", num_outputs, columns, seed=1)
    x = randn(530, columns, seed=2)
    together, pieces = torch.empty(530, num_outputs), torch.empty(530, num_outputs)
    linear(x, weight, type_id, together, scratch)
    for start, stop in ((0, 7), (7, 300), (300, 301), (301, 530)):
        linear(x[start:stop], weight, type_id, pieces[start:stop], scratch)
    assert torch.equal(together, pieces)


@given(rows_and_split, st.sampled_from([8, 64, 100, 576]), seeds)
def test_a_normalized_activated_and_routed_row_is_the_same_in_any_company(
    case: tuple[int, int], columns: int, seed: int
) -> None:
    (rows, row), scratch = case, Scratch()
    x, up, weight = randn(rows, columns, seed=seed) * 4, randn(rows, columns, seed=seed + 1), randn(columns, seed=seed)

    def run(start: int, stop: int) -> list[Tensor]:
        count = stop - start
        normed, activated = torch.empty(count, columns), torch.empty(count, columns)
        ids, weights = torch.empty(count, 3, dtype=torch.int32), torch.empty(count, 3)
        counts = torch.zeros(columns, dtype=torch.int32)
        rms_norm(x[start:stop], weight, 1e-6, normed, scratch)
        silu_mul(x[start:stop].clone(), up[start:stop], activated, scratch)
        route(x[start:stop], ids, weights, counts, scratch)
        assert counts.sum() == 3 * count
        return [normed, activated, ids, weights]

    for together, alone in zip(run(0, rows), run(row, row + 1), strict=True):
        assert torch.equal(together[row], alone[0])


@given(
    st.integers(1, 300),
    st.integers(0, 299),
    st.integers(1, 40),
    st.sampled_from([(1, 1, 16), (4, 2, 8), (9, 3, 64)]),
    st.sampled_from([torch.float16, torch.float32]),
    seeds,
)
@settings(max_examples=40)
def test_an_attention_row_depends_on_the_positions_up_to_its_own_only(
    context: int, last: int, chunk: int, heads: tuple[int, int, int], kv_type: torch.dtype, seed: int
) -> None:
    (num_heads, num_kv_heads, head_dim), scratch, row = heads, Scratch(), min(last, context - 1)
    query = randn(context, num_heads, head_dim, seed=seed)
    keys, values = (randn(context, num_kv_heads, head_dim, seed=seed + n).to(kv_type) for n in (1, 2))
    start = max(0, row - chunk)  # the row as the last but none of a chunk, over a cache with garbage behind it
    dirty_keys, dirty_values = keys.clone(), values.clone()
    dirty_keys[row + 1 :], dirty_values[row + 1 :] = torch.nan, torch.inf
    whole, part = torch.empty_like(query), torch.empty(row + 1 - start, num_heads, head_dim)
    attention(query, keys, values, whole, scratch, position=0, scale=0.3)
    attention(query[start : row + 1], dirty_keys, dirty_values, part, scratch, position=start, scale=0.3)
    assert torch.equal(whole[start : row + 1], part)


def test_what_an_earlier_launch_left_in_the_scratch_does_not_matter() -> None:
    query, keys, values = (randn(70, 4, 8, seed=seed) for seed in (1, 2, 3))
    clean, dirty, broken = (torch.empty_like(query) for _ in range(3))
    attention(query, keys, values, clean, Scratch(), position=0, scale=0.3)
    scratch, rubbish = Scratch(), torch.full((128, 4, 8), torch.nan)
    attention(rubbish[:20], rubbish, rubbish, broken[:20], scratch, position=100, scale=0.3)
    attention(query, keys, values, dirty, scratch, position=0, scale=0.3)
    assert torch.equal(clean, dirty)


@given(st.integers(1, 60), st.integers(0, 59), st.booleans(), seeds)
def test_a_rotated_row_depends_on_its_position_only(rows: int, row: int, is_neox: bool, seed: int) -> None:
    row = min(row, rows - 1)
    x = randn(rows, 3, 24, seed=seed)
    alone = x[row : row + 1].clone()
    rope(x, position=5, base=1e4, num_dims=20, is_neox=is_neox)
    rope(alone, position=5 + row, base=1e4, num_dims=20, is_neox=is_neox)
    assert torch.equal(x[row], alone[0])


@given(rows_and_split, st.integers(1, 8), seeds)
@settings(max_examples=30)
def test_expert_rows_do_not_depend_on_grouping_or_company(case: tuple[int, int], group: int, seed: int) -> None:
    (rows, row), scratch, rng = case, Scratch(), np.random.default_rng(seed)
    num_experts, used, hidden, ffn = 8, 2, 64, 96
    matrices = [
        ExpertWeights(*weight_bytes("Q4_1", ffn, hidden, e), *weight_bytes("Q8_0", ffn, hidden, e + 50),
                      *weight_bytes("F16", hidden, ffn, e + 99), ffn)
        for e in range(num_experts)
    ]  # fmt: skip
    normed = randn(rows, hidden, seed=seed)
    ids = torch.from_numpy(np.stack([rng.permutation(num_experts)[:used] for _ in range(rows)]).astype(np.int32))
    weights, base = randn(rows, used, seed=seed + 1), randn(rows, hidden, seed=seed + 2)

    def run(start: int, stop: int, step: int) -> Tensor:
        expert_rows, hidden_rows = torch.full((stop - start, used, hidden), torch.nan), base[start:stop].clone()
        for first in range(0, num_experts, step):
            chosen = [(e, matrices[e]) for e in range(first, min(first + step, num_experts))]
            experts(normed[start:stop], ids[start:stop], chosen, expert_rows, scratch)
        combine(expert_rows, weights[start:stop], hidden_rows, scratch)
        return hidden_rows

    together = run(0, rows, group)
    assert torch.isfinite(together).all()
    assert torch.equal(together, run(0, rows, num_experts))
    assert torch.equal(together[row], run(row, row + 1, num_experts)[0])
