"""The experts' results back into the residual stream."""

import torch
from torch import Tensor

from kernels.reference.blocks import BAND_ROWS, spans
from kernels.reference.scratch import Scratch


def combine(expert_rows: Tensor, weights: Tensor, hidden: Tensor, scratch: Scratch) -> None:
    """hidden[r] += sum over j, in router order, of weights[r, j] * expert_rows[r, j].

    expert_rows: f32 [rows, K, E]; weights: f32 [rows, K]; hidden: f32 [rows, E]."""
    rows, used, columns = expert_rows.shape
    for start, stop in spans(rows, BAND_ROWS):
        total = scratch.take("combine.total", (BAND_ROWS, columns))[: stop - start]
        term = scratch.take("combine.term", (BAND_ROWS, columns))[: stop - start]
        total.zero_()
        for index in range(used):
            torch.mul(expert_rows[start:stop, index], weights[start:stop, index : index + 1], out=term)
            total.add_(term)
        hidden[start:stop].add_(total)
