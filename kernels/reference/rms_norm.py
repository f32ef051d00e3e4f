"""Root mean square normalization."""

import torch
from torch import Tensor

from kernels.reference.blocks import ROW_BLOCK, row_block, spans
from kernels.reference.scratch import Scratch


def rms_norm(x: Tensor, weight: Tensor, epsilon: float, out: Tensor, scratch: Scratch) -> None:
    """out = weight * x / sqrt(mean(x^2) + epsilon), over the last axis; out may be x.

    x, out: f32 [rows, columns], may be strided over rows; weight: f32 [columns]."""
    squares = scratch.take("rms_norm.squares", (ROW_BLOCK, x.shape[1]))
    for start, stop in spans(x.shape[0], ROW_BLOCK):
        block = row_block(x, start, stop, scratch, "rms_norm.block")
        torch.mul(block, block, out=squares)
        root = squares.mean(dim=1, keepdim=True).add_(epsilon).sqrt_()
        torch.mul(block, root.reciprocal_(), out=squares)
        out[start:stop].copy_(squares.mul_(weight)[: stop - start])
