"""The gated delta net over whole rows of tokens at once, for training (Yang et al. 2024, arXiv:2412.06464, 3.3).

A row is cut into chunks of 64 tokens. Inside a chunk everything is matrix products; between chunks one affine step

    M' = P M + R        P = e^G_n I - Kd^T W        R = Kd^T U        Kd = k e^(G_n - G)

is all that is left of the recurrence. Decays only ever appear as exp of differences that are not above 0. Equal to
`kernels.reference.delta_net`, which is the definition, up to rounding.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK_TOKENS = 64
_BASE = 8
"""Blocks on the diagonal of this size are inverted row by row, larger ones from their halves."""


def delta_rule(query: Tensor, key: Tensor, value: Tensor, beta: Tensor, log_decay: Tensor) -> Tensor:
    """query, key, value: f32 [B, T, H, S], query and key normalized; beta, log_decay: f32 [B, T, H] -> [B, T, H, S]."""
    num_tokens = query.shape[1]
    missing = -num_tokens % CHUNK_TOKENS
    q, k, v = (_in_chunks(F.pad(each, (0, 0, 0, 0, 0, missing))) for each in (query, key, value))
    b, g = (_in_chunks(F.pad(each, (0, 0, 0, missing)).unsqueeze(-1)).squeeze(-1) for each in (beta, log_decay))
    lower = torch.ones(CHUNK_TOKENS, CHUNK_TOKENS, dtype=torch.bool, device=q.device).tril()
    total = (g.unsqueeze(-2) * lower).sum(-1)  # [B, H, N, n], a running sum
    apart = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(~lower, float("-inf")).exp()
    inverse: Tensor = _UnitLowerInverse.apply((b.unsqueeze(-1) * (k @ k.mT) * apart).tril(-1))
    own = inverse @ (b.unsqueeze(-1) * v)  # what the chunk adds were the state before it 0
    seen = inverse @ ((b * total.exp()).unsqueeze(-1) * k)  # what it takes away of that state
    fading = k * (total[..., -1:] - total).exp().unsqueeze(-1)
    identity = torch.eye(k.shape[-1], dtype=k.dtype, device=k.device)
    step = total[..., -1:].exp().unsqueeze(-1) * identity - fading.mT @ seen
    states = _scan(step, fading.mT @ own)
    added = own - seen @ states
    out = (q * total.exp().unsqueeze(-1)) @ states + ((q @ k.mT) * apart) @ added
    return out.permute(0, 2, 3, 1, 4).flatten(1, 2)[:, :num_tokens]


def _in_chunks(x: Tensor) -> Tensor:
    """[B, T, H, S] -> [B, H, T / n, n, S]"""
    return x.unflatten(1, (-1, CHUNK_TOKENS)).permute(0, 3, 1, 2, 4)


def _scan(step: Tensor, added: Tensor) -> Tensor:
    """The state before every chunk, by doubling: after pass i a chunk's affine step takes in the 2^i chunks up to it.
    step, added: [B, H, N, S, S]."""
    back, count = 1, step.shape[2]
    while back < count:
        further = step[:, :, back:] @ added[:, :, :-back] + added[:, :, back:]
        added = torch.cat([added[:, :, :back], further], 2)
        step = torch.cat([step[:, :, :back], step[:, :, back:] @ step[:, :, :-back]], 2)
        back *= 2
    return torch.cat([torch.zeros_like(added[:, :, :1]), added[:, :, :-1]], 2)


class _UnitLowerInverse(torch.autograd.Function):
    """(I + N)^-1 of strictly lower triangular N [..., 64, 64]."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, strict: Tensor) -> Tensor:
        inverse = unit_lower_inverse(strict)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return -(inverse.mT @ grads[0] @ inverse.mT).tril(-1)


def unit_lower_inverse(strict: Tensor) -> Tensor:
    """(I + N)^-1 by halves: [[A, 0], [B, D]]^-1 = [[A^-1, 0], [-D^-1 B A^-1, D^-1]]. A power series in N would be
    shorter and would lose all digits where neighbouring keys are alike."""
    size = strict.shape[-1]
    inverse = _invert_rows(_diagonal_blocks(strict, _BASE))
    width = _BASE
    while width < size:
        below = _diagonal_blocks(strict, 2 * width)[..., width:, :width]
        upper, lower = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        corner = -(lower @ below @ upper)
        top = torch.cat([upper, torch.zeros_like(upper)], -1)
        inverse = torch.cat([top, torch.cat([corner, lower], -1)], -2)
        width *= 2
    return inverse.squeeze(-3)


def _diagonal_blocks(matrix: Tensor, width: int) -> Tensor:
    """[..., n, n] -> [..., n / width, width, width]"""
    count = matrix.shape[-1] // width
    blocks = matrix.unflatten(-1, (count, width)).unflatten(-3, (count, width))
    return blocks.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


def _invert_rows(strict: Tensor) -> Tensor:
    identity = torch.eye(strict.shape[-1], dtype=strict.dtype, device=strict.device)
    rows: list[Tensor] = []
    for index in range(strict.shape[-1]):
        row = identity[index].expand(strict.shape[:-1])
        for before, other in enumerate(rows):
            row = row - strict[..., index, before, None] * other
        rows.append(row)
    return torch.stack(rows, -2)
