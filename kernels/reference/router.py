"""Which experts a token goes to, and with what weight."""

import torch
from torch import Tensor

from kernels.reference.blocks import ROW_BLOCK, row_block, spans
from kernels.reference.scratch import Scratch

MIN_WEIGHT_SUM = 6.103515625e-5
"""2^-14, the smallest normal half: the floor of llama.cpp for the sum of the chosen probabilities."""


def route(
    logits: Tensor, ids: Tensor, weights: Tensor, counts: Tensor, scratch: Scratch, *, weights_scale: float = 1.0
) -> None:
    """Softmax over all experts, the K largest (ties: the lower id first), renormalized to sum 1, times weights_scale.

    logits: f32 [rows, nE]; ids: int32 [rows, K], largest first; weights: f32 [rows, K]; counts: int32 [nE]; the
    number of rows that chose each expert is added."""
    used = ids.shape[1]
    for start, stop in spans(logits.shape[0], ROW_BLOCK):
        block = row_block(logits, start, stop, scratch, "route.block")
        probabilities = block.sub(block.amax(dim=1, keepdim=True)).exp_()
        probabilities.div_(probabilities.sum(dim=1, keepdim=True))
        ordered, order = torch.sort(probabilities, dim=1, descending=True, stable=True)
        chosen = ordered[:, :used].contiguous()
        chosen.div_(chosen.sum(dim=1, keepdim=True).clamp_(min=MIN_WEIGHT_SUM)).mul_(weights_scale)
        weights[start:stop].copy_(chosen[: stop - start])
        ids[start:stop].copy_(order[: stop - start, :used])
    counts.add_(torch.bincount(ids.reshape(-1), minlength=counts.numel()))
