"""Which experts a token goes to, and with what weight."""

import torch
from torch import Tensor

from kernels.reference.blocks import ROW_BLOCK, row_block, spans
from kernels.reference.scratch import Scratch

MIN_WEIGHT_SUM = 6.103515625e-5
"""2^-14, the smallest normal half: the floor of llama.cpp for the sum of the chosen probabilities."""


def route(
    logits: Tensor,
    ids: Tensor,
    weights: Tensor,
    counts: Tensor,
    scratch: Scratch,
    *,
    weights_scale: float = 1.0,
    is_sigmoid: bool = False,
    bias: Tensor | None = None,
    normalizes: bool = True,
) -> None:
    """Softmax over all experts, or a sigmoid of each; the K largest (ties: the lower id first), their sum brought to 1
    if it `normalizes`, times weights_scale.

    logits: f32 [rows, nE]; ids: int32 [rows, K], largest first; weights: f32 [rows, K]; counts: int32 [nE]; the
    number of rows that chose each expert is added. bias: f32 [nE], added for the choice only: weights have none of
    it, and the order is that of the choice."""
    used = ids.shape[1]
    for start, stop in spans(logits.shape[0], ROW_BLOCK):
        block = row_block(logits, start, stop, scratch, "route.block")
        scores = _sigmoid(block) if is_sigmoid else _softmax(block)
        biased = scores if bias is None else scores + bias
        order = torch.sort(biased, dim=1, descending=True, stable=True).indices[:, :used]
        chosen = scores.gather(1, order)
        if normalizes:
            chosen.div_(chosen.sum(dim=1, keepdim=True).clamp_(min=MIN_WEIGHT_SUM))
        chosen.mul_(weights_scale)
        weights[start:stop].copy_(chosen[: stop - start])
        ids[start:stop].copy_(order[: stop - start])
    counts.add_(torch.bincount(ids.reshape(-1), minlength=counts.numel()))


def _softmax(block: Tensor) -> Tensor:
    scores = block.sub(block.amax(dim=1, keepdim=True)).exp_()
    return scores.div_(scores.sum(dim=1, keepdim=True))


def _sigmoid(block: Tensor) -> Tensor:
    return block.neg().exp_().add_(1.0).reciprocal_()
