"""The gated delta net, token by token (Yang et al. 2024, arXiv:2412.06464).

Each value head has a matrix M [S, S] that maps keys to values. A token decays it, corrects what it answers for the
token's key, and reads the answer for its query:

    M = exp(g) M        e = v - k^T M        M = M + k (beta e)^T        o = q^T M

A token is one step of fixed shape over buffers of its own, so its bits depend on the state before it and on its own
inputs: never on where a launch began or how many rows it had. What it adds for its key is all that `replay` needs to
do to M what the token did, to the last bit.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.reference.blocks import ROW_BLOCK, spans
from kernels.reference.scratch import Scratch

SOFTPLUS_LINEAR_FROM = 20.0
"""log(1 + exp(x)) is x from here on in float32, and exp(x) overflows far behind."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Buffers of one token: f32, one matrix or row a value head."""

    query: Tensor  # [Hv, 1, S]
    key: Tensor  # [Hv, 1, S]
    error: Tensor  # [Hv, 1, S]
    update: Tensor  # [Hv, S, S]
    output: Tensor  # [Hv, 1, S]

    @staticmethod
    def make(scratch: Scratch, num_heads: int, width: int) -> "_Step":
        row = (num_heads, 1, width)
        return _Step(
            query=scratch.take("delta_net.query", row),
            key=scratch.take("delta_net.key", row),
            error=scratch.take("delta_net.error", row),
            update=scratch.take("delta_net.update", (num_heads, width, width)),
            output=scratch.take("delta_net.output", row),
        )


def delta_net(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    decay: Tensor,
    state: Tensor,
    out: Tensor,
    scratch: Scratch,
    *,
    is_tiled: bool,
    added: Tensor | None = None,
) -> None:
    """out[t, h] is the answer of head h for token t, and `state` moves on by all tokens.

    query, key: f32 [rows, Hk, S], normalized and scaled; value, out: f32 [rows, Hv, S]; beta: f32 [rows, Hv];
    decay: f32 [rows, Hv], exp(g); state: f32 [Hv, S, S], rows are key dims. Value head h reads key head h % Hk with
    `is_tiled`, else h // (Hv / Hk). added: f32 [rows, Hv, S], beta e of each token, where somebody asks for it. All but
    the state may be strided over rows."""
    num_heads, width = value.shape[1:]
    step = scratch.take_set(_Step.make, num_heads, width)
    for row in range(query.shape[0]):
        _spread(query[row], step.query, is_tiled=is_tiled)
        _spread(key[row], step.key, is_tiled=is_tiled)
        state.mul_(decay[row].view(-1, 1, 1))
        torch.bmm(step.key, state, out=step.error)
        error = step.error.view(num_heads, width)
        torch.sub(value[row], error, out=error).mul_(beta[row].unsqueeze(1))
        if added is not None:
            added[row].copy_(error)
        _add_outer(step, state)
        torch.bmm(step.query, state, out=step.output)
        out[row].copy_(step.output.view(num_heads, width))


def replay(key: Tensor, added: Tensor, decay: Tensor, state: Tensor, scratch: Scratch, *, is_tiled: bool) -> None:
    """`state` moves on by all tokens, as `delta_net` moved it when it gave `added`; shapes as there."""
    step = scratch.take_set(_Step.make, added.shape[1], added.shape[2])
    for row in range(key.shape[0]):
        _spread(key[row], step.key, is_tiled=is_tiled)
        step.error.squeeze(1).copy_(added[row])
        state.mul_(decay[row].view(-1, 1, 1))
        _add_outer(step, state)


def _spread(source: Tensor, target: Tensor, *, is_tiled: bool) -> None:
    """Each value head's vector from its key head. source: [Hk, S]; target: [Hv, 1, S]."""
    (num_keys, width), num_heads = source.shape, target.shape[0]
    group = num_heads // num_keys
    lead, at = ((group, num_keys), 0) if is_tiled else ((num_keys, group), 1)
    target.view(*lead, width).copy_(source.unsqueeze(at))


def _add_outer(step: _Step, state: Tensor) -> None:
    torch.mul(step.key.transpose(1, 2), step.error, out=step.update)
    state.add_(step.update)


def gates(beta: Tensor, alpha: Tensor, rate: Tensor, bias: Tensor, scratch: Scratch) -> None:
    """In place: beta = sigmoid(beta), alpha = exp(rate * softplus(alpha + bias)), the decay of a token.

    beta, alpha: f32 [rows, Hv], may be strided over rows; rate: f32 [Hv], not above 0; bias: f32 [Hv]."""
    block = scratch.take("gates.block", (ROW_BLOCK, beta.shape[1]))
    soft = scratch.take("gates.soft", (ROW_BLOCK, beta.shape[1]))
    block.zero_()
    for start, stop in spans(beta.shape[0], ROW_BLOCK):
        count = stop - start
        block[:count].copy_(beta[start:stop])
        block.neg_().exp_().add_(1.0).reciprocal_()
        beta[start:stop].copy_(block[:count])
        torch.add(alpha[start:stop], bias, out=block[:count])
        torch.clamp(block, max=SOFTPLUS_LINEAR_FROM, out=soft).exp_().log1p_()
        torch.where(block > SOFTPLUS_LINEAR_FROM, block, soft, out=block)
        block.mul_(rate).exp_()
        alpha[start:stop].copy_(block[:count])
