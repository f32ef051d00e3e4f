"""Gates: of a feed-forward network, of attention, of a shared expert."""

import torch
from torch import Tensor

from kernels.reference.blocks import ROW_BLOCK, row_block, spans
from kernels.reference.scratch import Scratch


def silu_mul(gate: Tensor, up: Tensor, out: Tensor, scratch: Scratch) -> None:
    """out = gate / (1 + exp(-gate)) * up; out may be gate or up.

    gate, up, out: f32 [rows, columns]. Not torch's silu or sigmoid: their bits depend on how many there are."""
    weight = scratch.take("silu_mul.weight", (ROW_BLOCK, gate.shape[1]))
    for start, stop in spans(gate.shape[0], ROW_BLOCK):
        block = row_block(gate, start, stop, scratch, "silu_mul.gate")
        torch.neg(block, out=weight).exp_()
        # From here on every element is rounded by itself: the padding is left out.
        rows = weight[: stop - start].add_(1.0).reciprocal_().mul_(gate[start:stop])
        torch.mul(rows, up[start:stop], out=out[start:stop])


def sigmoid_mul(gate: Tensor, x: Tensor, out: Tensor, scratch: Scratch) -> None:
    """out = x / (1 + exp(-gate)); out may be gate or x.

    gate: f32 [rows, columns], or [rows, 1] for one gate a row; x, out: f32 [rows, columns]. All may be strided over
    rows."""
    weight = scratch.take("sigmoid_mul.weight", (ROW_BLOCK, gate.shape[1]))
    for start, stop in spans(gate.shape[0], ROW_BLOCK):
        block = row_block(gate, start, stop, scratch, "sigmoid_mul.gate")
        torch.neg(block, out=weight).exp_()
        rows = weight[: stop - start].add_(1.0).reciprocal_()
        torch.mul(x[start:stop], rows, out=out[start:stop])
