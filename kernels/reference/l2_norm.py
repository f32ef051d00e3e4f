"""Vectors to unit length."""

import torch
from torch import Tensor

from kernels.reference.blocks import ROW_BLOCK, row_block, spans
from kernels.reference.scratch import Scratch


def l2_norm(x: Tensor, epsilon: float, out: Tensor, scratch: Scratch, *, scale: float = 1.0) -> None:
    """out = scale * x / sqrt(sum(x^2) + epsilon), over the last axis; out may be x.

    x, out: f32 [rows, columns], may be strided over rows."""
    squares = scratch.take("l2_norm.squares", (ROW_BLOCK, x.shape[1]))
    for start, stop in spans(x.shape[0], ROW_BLOCK):
        block = row_block(x, start, stop, scratch, "l2_norm.block")
        torch.mul(block, block, out=squares)
        root = squares.sum(dim=1, keepdim=True).add_(epsilon).sqrt_()
        torch.mul(block, root.reciprocal_().mul_(scale), out=squares)
        out[start:stop].copy_(squares[: stop - start])
