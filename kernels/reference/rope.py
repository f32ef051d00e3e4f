"""Rotary position embedding of queries or keys, in place."""

from functools import cache

import torch
from torch import Tensor

from kernels.reference.blocks import ROW_BLOCK, spans


def rope(
    x: Tensor,
    *,
    position: int,
    base: float,
    num_dims: int,
    is_neox: bool,
    scale: float = 1.0,
    factors: Tensor | None = None,
) -> None:
    """Rotates the first `num_dims` of each head's dims; row r stands at position + r.

    x: f32 [rows, heads, D], may be strided over rows. Pair i is (x[i], x[i + num_dims/2]) with `is_neox`, else
    (x[2i], x[2i+1]), turned by theta_i = position * scale * base^(-2i/num_dims) / factors[i].
    factors: f32 [num_dims/2]. Angles are float64 until their sine and cosine are taken."""
    frequencies = _frequencies(base, num_dims, scale)
    if factors is not None:
        frequencies = frequencies / factors.double()
    for start, stop in spans(x.shape[0], ROW_BLOCK):
        positions = torch.arange(position + start, position + start + ROW_BLOCK, dtype=torch.float64)
        angles = positions.unsqueeze(1) * frequencies
        count = stop - start
        cosine = angles.cos().float()[:count].unsqueeze(1)
        sine = angles.sin().float()[:count].unsqueeze(1)
        _rotate(x[start:stop, :, :num_dims], cosine, sine, is_neox)


@cache
def _frequencies(base: float, num_dims: int, scale: float) -> Tensor:
    """Constants of the model: scale * base^(-2i/num_dims), float64."""
    exponents = torch.arange(0, num_dims, 2, dtype=torch.float64) / num_dims
    return scale * torch.pow(torch.tensor(base, dtype=torch.float64), -exponents)


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor, is_neox: bool) -> None:
    """x: [rows, heads, num_dims]; cosine, sine: [rows, 1, num_dims/2]."""
    half = x.shape[2] // 2
    first, second = (x[..., :half], x[..., half:]) if is_neox else (x[..., 0::2], x[..., 1::2])
    turned = (first * cosine).sub_(second * sine)
    second.mul_(cosine).add_(first * sine)
    first.copy_(turned)
