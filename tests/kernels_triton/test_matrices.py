"""Products, experts and embedding against the reference on random inputs, into poisoned outputs.

Bounds are on the relative error of the norm; f16 inputs round weights to 11 bits and bf16 to 8, windows compute in f32.
"""

import pytest
import torch

from kernels.reference import experts as reference_experts
from kernels.triton import launch_dense, launch_experts, launch_grouping
from kernels.triton.formats import BF16, F16, F32, PACKED_TYPES
from kernels.triton.sizes import DOWN_GROUPED, LINEAR_F32
from tests.kernels_triton.builders import (
    DEVICE,
    GRIDS,
    SCRATCH,
    Experts,
    Matrix,
    normal,
    poisoned,
    random_ids,
    relative_error,
)

TYPES = (*PACKED_TYPES, F16, BF16, F32)
Q4_0, Q8_0, Q4_K, Q6_K, IQ4_XS, MXFP4, IQ2_XS, IQ3_XXS = 2, 8, 12, 14, 23, 39, 17, 18
SOAK = pytest.mark.soak
# (types of gate, up and down; hidden, ffn)
MIXES = (
    ((Q4_K, Q4_K, Q8_0), (256, 32)),
    ((Q4_0, Q8_0, F16), (64, 32)),
    pytest.param((Q4_K, Q4_K, Q6_K), (256, 256), marks=SOAK),
    pytest.param((Q8_0, Q8_0, Q8_0), (256, 256), marks=SOAK),
    pytest.param((IQ4_XS, IQ4_XS, MXFP4), (256, 256), marks=SOAK),
    pytest.param((IQ2_XS, IQ2_XS, IQ3_XXS), (256, 256), marks=SOAK),
)


@pytest.mark.parametrize("type_id", TYPES)
@pytest.mark.parametrize("columns", [256, pytest.param(1024, marks=SOAK)])
def test_window_product_equals_the_weights_times_x(type_id, columns):
    matrix, x = Matrix.random(type_id, rows=20, columns=columns), normal(2, columns)
    out = poisoned(2, 20)
    launch_dense.linear_window(x, matrix.addresses, GRIDS, type_id, out)
    assert relative_error(out, x.double().cpu() @ matrix.weights.T) < 1e-5


@pytest.mark.parametrize("type_id", [Q4_0, Q8_0, MXFP4, F16])
def test_rows_that_end_inside_a_step_are_summed_to_their_end(type_id):
    matrix, x = Matrix.random(type_id, rows=12, columns=352), normal(1, 352)
    out = poisoned(1, 12)
    launch_dense.linear_window(x, matrix.addresses, GRIDS, type_id, out)
    assert relative_error(out, x.double().cpu() @ matrix.weights.T) < 1e-5


@pytest.mark.parametrize("type_id", TYPES)
@pytest.mark.parametrize(
    ("kind", "bound"),
    # The interpreter computes bf16 wrongly.
    [(torch.float16, 1e-3), pytest.param(torch.bfloat16, 6e-3, marks=pytest.mark.gpu)],
)
def test_prompt_product_equals_the_weights_times_x(type_id, kind, bound):
    matrix, x = Matrix.random(type_id, rows=20, columns=256), normal(37, 256, dtype=kind)
    out = poisoned(37, 20)
    launch_dense.linear_prompt(x, matrix.addresses, GRIDS, type_id, out)
    assert relative_error(out, x.double().cpu() @ matrix.weights.T) < bound


def test_prompt_product_in_f32_is_exact_to_f32():
    matrix, x = Matrix.random(F32, rows=20, columns=96), normal(37, 96)
    out = poisoned(37, 20)
    launch_dense.linear_prompt(x, matrix.addresses, GRIDS, F32, out, size=LINEAR_F32)
    assert relative_error(out, x.double().cpu() @ matrix.weights.T) < 1e-6


def _expected_experts(experts, x, ids):
    out = torch.zeros(*ids.shape, experts.shape.hidden_size)
    reference_experts.experts(x.float().cpu(), ids.cpu(), enumerate(experts.reference), out, SCRATCH)
    return out


@pytest.mark.slow
@pytest.mark.parametrize(("types", "sizes"), MIXES)
def test_window_experts_equal_the_reference(types, sizes):
    hidden, ffn = sizes
    experts = Experts.random(types, hidden=hidden, ffn=ffn, count=4, used=2)
    x, ids = normal(1, hidden), random_ids(1, 4, 2)
    act, out = poisoned(2, ffn), poisoned(1, 2, hidden)
    launch_experts.experts_window(x, ids, experts.addresses, GRIDS, experts.shape, act, out)
    assert relative_error(out, _expected_experts(experts, x, ids)) < 2e-5


@pytest.mark.slow
@pytest.mark.parametrize(("types", "sizes"), MIXES)
def test_prompt_experts_equal_the_reference_and_leave_other_experts_alone(types, sizes):
    hidden, ffn = sizes
    experts = Experts.random(types, hidden=hidden, ffn=ffn, count=5, used=2)
    x, ids = normal(70, hidden, dtype=torch.float16), random_ids(70, 5, 2)
    ints = {"dtype": torch.int32}
    grouping = launch_grouping.Grouping(
        poisoned(2, 5, **ints), poisoned(6, **ints), poisoned(5, **ints), poisoned(140, **ints)
    )
    launch_grouping.group(ids, grouping, num_experts=5)
    assert torch.equal(grouping.sorted_pairs.cpu(), torch.sort(ids.view(-1).cpu(), stable=True).indices.int())
    assert torch.equal(grouping.totals.cpu(), torch.bincount(ids.view(-1).cpu(), minlength=5).int())
    act, out = poisoned(140, ffn, dtype=torch.float16), poisoned(70, 2, hidden)
    expected = _expected_experts(experts, x, ids)
    few = {"num_programs": 3}
    for selected in ([1, 0, 1, 0, 0], [0, 1, 0, 1, 1]):
        assert torch.isnan(out).any()
        tiles = launch_grouping.Tiles(poisoned(7, 4, **ints), poisoned(1, **ints))
        mask = torch.tensor(selected, dtype=torch.uint8, device=DEVICE)
        launch_grouping.make_tiles(grouping.starts, mask, tiles, num_experts=5, block_rows=DOWN_GROUPED.block_rows)
        launch_experts.experts_prompt(
            x, grouping.sorted_pairs, tiles, experts.addresses, GRIDS, experts.shape, act, out, **few
        )
        is_written = ~torch.isnan(out).any(dim=2)
        if selected[0]:
            assert torch.equal(is_written.cpu(), torch.isin(ids.cpu(), torch.tensor([0, 2])))
    assert relative_error(out, expected) < 3e-3


@pytest.mark.parametrize("type_id", [Q4_0, Q4_K, Q6_K, IQ2_XS, IQ3_XXS])
def test_unpacked_matrix_is_the_weights(type_id):
    matrix = Matrix.random(type_id, rows=40, columns=512)
    out = poisoned(1, 40, 512)
    launch_experts.unpack(
        matrix.addresses,
        GRIDS,
        torch.zeros(1, dtype=torch.int32, device=DEVICE),
        out,
        type_id,
        start=0,
        num_rows=40,
        columns=512,
    )
    assert relative_error(out[0], matrix.weights) < 1e-6


@pytest.mark.parametrize("type_id", [Q4_0, Q4_K, Q6_K, IQ2_XS, IQ3_XXS, F16])
def test_embedding_is_the_row_of_the_token(type_id):
    matrix = Matrix.random(type_id, rows=30, columns=512)
    tokens = torch.tensor([29, 0, 7], dtype=torch.int32, device=DEVICE)
    out = poisoned(3, 512)
    launch_dense.embed(tokens, matrix.addresses, GRIDS, type_id, out, vocab_size=30)
    assert relative_error(out, matrix.weights[[29, 0, 7]]) < 1e-6
