"""A short causal convolution along the tokens, each channel by itself, and the rows that it must remember.

    state    x[-3] x[-2] x[-1]                      the last taps - 1 rows of input before this launch
    input                      x[0] x[1] ... x[n-1]
    output                     y[0] y[1] ... y[n-1]     y[t] = silu(w0 x[t-3] + w1 x[t-2] + w2 x[t-1] + w3 x[t])
    state'                 x[n-3] x[n-2] x[n-1]

Products and sums are elementwise and rounded one by one, oldest tap first, so a row's bits depend on its inputs only.
"""

import torch
from torch import Tensor

from kernels.reference.activation import sigmoid_mul
from kernels.reference.blocks import BAND_ROWS
from kernels.reference.scratch import Scratch


def causal_conv(x: Tensor, weight: Tensor, state: Tensor, out: Tensor, scratch: Scratch) -> None:
    """out = silu(conv(x)), and `state` moves on by the rows of x.

    x, out: f32 [rows <= BAND_ROWS, C]; weight: f32 [taps, C], the last tap multiplies the row itself;
    state: f32 [taps - 1, C], oldest row first."""
    rows, (taps, channels) = x.shape[0], weight.shape
    assert rows <= BAND_ROWS and state.shape[0] == taps - 1, (rows, taps, state.shape)
    history = scratch.take("causal_conv.history", (BAND_ROWS + taps - 1, channels))[: rows + taps - 1]
    history[: taps - 1].copy_(state)
    history[taps - 1 :].copy_(x)
    term = scratch.take("causal_conv.term", (BAND_ROWS, channels))[:rows]
    torch.mul(history[:rows], weight[0], out=out)
    for tap in range(1, taps):
        torch.mul(history[tap : tap + rows], weight[tap], out=term)
        out.add_(term)
    state.copy_(history[rows:])
    sigmoid_mul(out, out, out, scratch)


def remember(x: Tensor, state: Tensor) -> None:
    """`state` moves on by the rows of x, as `causal_conv` moves it. x: f32 [rows, C]; state: f32 [taps - 1, C]."""
    state.copy_(torch.cat((state, x))[x.shape[0] :])
