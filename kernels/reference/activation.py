"""The gated activation of a feed-forward network."""

from torch import Tensor

from kernels.reference.blocks import ROW_BLOCK, row_block, spans
from kernels.reference.scratch import Scratch


def silu_mul(gate: Tensor, up: Tensor, out: Tensor, scratch: Scratch) -> None:
    """out = gate / (1 + exp(-gate)) * up; out may be gate or up.

    gate, up, out: f32 [rows, columns]. Not torch's silu or sigmoid: their bits depend on how many there are."""
    weight = scratch.take("silu_mul.weight", (ROW_BLOCK, gate.shape[1]))
    for start, stop in spans(gate.shape[0], ROW_BLOCK):
        block = row_block(gate, start, stop, scratch, "silu_mul.gate")
        weight.copy_(block).neg_().exp_().add_(1.0)
        activated = weight.reciprocal_().mul_(block)[: stop - start]
        out[start:stop].copy_(activated.mul_(up[start:stop]))
