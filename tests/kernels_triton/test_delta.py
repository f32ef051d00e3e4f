"""A recurrent layer's kernels against the reference, in both head maps, and what a journal leaves and gives."""

import pytest
import torch
from torch import Tensor

from kernels.reference.activation import silu_mul
from kernels.reference.causal_conv import causal_conv
from kernels.reference.delta_net import delta_net, gates
from kernels.reference.l2_norm import l2_norm
from kernels.reference.rms_norm import rms_norm
from kernels.triton import launch_delta
from kernels.triton.launch_delta import DeltaShape
from kernels.triton.sizes import DELTA_BLOCK_ROWS
from strata.core.serving.cuts import BLOCK_TOKENS
from tests.kernels_triton.builders import DEVICE, SCRATCH, normal, poisoned, relative_error
from tests.kernels_triton.delta_layer import EPSILON, DeltaLayer

SHAPES = [DeltaShape(2, 4, 16, 4, True), DeltaShape(2, 6, 24, 3, False), DeltaShape(1, 1, 64, 2, True)]


def expected_of(layer: DeltaLayer) -> tuple[Tensor, Tensor]:
    """Rows and state by the reference."""
    shape, rows, state = layer.shape, layer.qkv.shape[0], layer.state.cpu().clone()
    matrices, history = shape.parts(state)
    mixed, out = torch.empty(rows, shape.channels), torch.empty(rows, shape.heads, shape.width)
    taps = layer.taps.cpu().t().contiguous()
    causal_conv(layer.qkv.cpu(), taps, history.view(shape.taps - 1, -1), mixed, SCRATCH)
    keys = shape.key_heads * shape.width
    query, key = (mixed[:, start : start + keys].reshape(-1, shape.width) for start in (0, keys))
    l2_norm(query, EPSILON, query, SCRATCH, scale=shape.width**-0.5)
    l2_norm(key, EPSILON, key, SCRATCH)
    beta, alpha = (gate.cpu().clone() for gate in layer.gates)
    gates(beta, alpha, *(each.cpu() for each in layer.constants), SCRATCH)
    delta_net(
        query.view(rows, shape.key_heads, -1),
        key.view(rows, shape.key_heads, -1),
        mixed[:, 2 * keys :].reshape(rows, shape.heads, -1),
        beta,
        alpha,
        matrices.view(shape.heads, shape.width, shape.width),
        out,
        SCRATCH,
        is_tiled=shape.is_tiled,
    )
    return out, state


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_and_state_equal_the_reference(shape):
    torch.manual_seed(7)
    layer = DeltaLayer.random(shape, 9)
    state = layer.state.clone()
    out, (expected, expected_state) = layer.run(0, 9, state), expected_of(layer)
    assert relative_error(out, expected) < 3e-6
    assert relative_error(state, expected_state) < 3e-6


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "standing"), [(SHAPES[0], 1), (SHAPES[0], 2), (SHAPES[1], 3), (SHAPES[0], 5)])
def test_a_journal_committed_leaves_the_bits_of_the_rows_that_stand(shape, standing):
    torch.manual_seed(8)
    layer = DeltaLayer.random(shape, 7)
    drafted, plain = layer.state.clone(), layer.state.clone()
    seen = layer.draft(0, 5, drafted, standing=standing)
    assert torch.equal(seen[:standing], layer.run(0, standing, plain))
    assert torch.equal(drafted, plain)
    assert torch.equal(layer.run(standing, 7, drafted), layer.run(standing, 7, plain))


CHUNK_BOUND = 3e-6 if DEVICE == "cpu" else 4e-3
"""The interpreter multiplies in f32, a card in tf32, with 10 bits behind the point: 5e-4 to 1.7e-3 of a layer of 128
columns over 1,024 rows, simulated (2026-11-29)."""


@pytest.mark.slow
@pytest.mark.parametrize("shape", [SHAPES[0], pytest.param(SHAPES[1], marks=pytest.mark.soak)], ids=str)
def test_a_chunk_in_blocks_equals_the_reference(shape):
    """Two blocks, the second not whole; keys that resemble each other, so that rows correct what others added."""
    torch.manual_seed(10)
    layer = DeltaLayer.random(shape, 70)
    layer.qkv += 2.0
    state = layer.state.clone()
    out, (expected, expected_state) = layer.read(0, 70, state), expected_of(layer)
    assert relative_error(out, expected) < CHUNK_BOUND
    assert relative_error(state, expected_state) < CHUNK_BOUND


def test_a_block_is_what_the_core_counts_tokens_by():
    assert DELTA_BLOCK_ROWS == BLOCK_TOKENS


CUT, LAST = 20, 100


@pytest.fixture(scope="module")
def read_at_once() -> tuple[DeltaLayer, Tensor, Tensor, Tensor]:
    """A layer, its rows and state behind `LAST` rows read in one chunk with a cut inside, and its state at the cut."""
    torch.manual_seed(11)
    layer = DeltaLayer.random(DeltaShape(1, 2, 16, 4, True), LAST)
    at_cut, state = layer.state.clone(), layer.state.clone()
    layer.read(0, CUT, at_cut)
    return layer, layer.read(0, LAST, state, runs=(0, CUT)), state, at_cut


@pytest.mark.slow
def test_blocks_from_the_last_cut_have_the_same_bits_wherever_a_chunk_ends_and_a_read_begins(read_at_once):
    """From the beginning in chunks of whole blocks, and from a checkpoint at the cut."""
    layer, expected, expected_state, at_cut = read_at_once
    for state, chunks in (
        (layer.state.clone(), ((0, CUT + 64, (0, CUT)), (CUT + 64, LAST, (0,)))),
        (at_cut.clone(), ((CUT, LAST, (0,)),)),
    ):
        rows = torch.cat([layer.read(start, end, state, runs=runs) for start, end, runs in chunks])
        assert torch.equal(rows, expected[LAST - len(rows) :])
        assert torch.equal(state, expected_state)
    assert not torch.equal(layer.read(0, LAST, layer.state.clone()), expected)  # blocks from the chunk's start


@pytest.mark.soak
def test_what_is_left_of_a_block_behind_a_reply_is_near(read_at_once):
    layer, expected, expected_state, first_state = read_at_once
    at_cut = first_state.clone()
    layer.run(CUT, CUT + 30, at_cut)  # a reply, row by row, ends inside a block
    rows = layer.read(CUT + 30, LAST, at_cut, runs=(0, 34))
    assert relative_error(rows, expected[CUT + 30 :]) < CHUNK_BOUND
    assert relative_error(at_cut, expected_state) < CHUNK_BOUND


@pytest.mark.slow
def test_a_window_with_a_journal_leaves_the_state():
    layer = DeltaLayer.random(SHAPES[0], 3)
    state = layer.state.clone()
    layer.run(0, 3, state, poisoned(3, SHAPES[0].journal_floats))
    assert torch.equal(state, layer.state)


@pytest.mark.slow
def test_a_wrong_head_map_is_another_answer():
    torch.manual_seed(9)
    layer = DeltaLayer.random(SHAPES[0], 4)
    expected, _ = expected_of(layer)
    layer.shape = DeltaShape(2, 4, 16, 4, False)
    assert relative_error(layer.run(0, 4, layer.state.clone()), expected) > 0.1


@pytest.mark.slow
def test_a_softplus_far_out_is_the_identity():
    layer = DeltaLayer.random(SHAPES[0], 3)
    layer.gates[1][:] = torch.tensor([60.0, -60.0, 19.0, 21.0])
    layer.constants[0][:] = -0.01
    state = layer.state.clone()
    out, (expected, expected_state) = layer.run(0, 3, state), expected_of(layer)
    assert relative_error(out, expected) < 3e-6
    assert relative_error(state, expected_state) < 3e-6


def test_a_gated_norm_equals_the_reference():
    x, gate, weight, out = normal(3, 4, 24), normal(3, 4, 24, scale=4.0), normal(24), poisoned(3, 4, 24)
    launch_delta.gated_norm(x, gate, weight, out, epsilon=EPSILON)
    normed, expected = x.cpu().view(-1, 24).clone(), torch.empty(12, 24)
    rms_norm(normed, weight.cpu(), EPSILON, normed, SCRATCH)
    silu_mul(gate.cpu().view(-1, 24), normed, expected, SCRATCH)
    assert relative_error(out.view(-1, 24), expected) < 1e-6
