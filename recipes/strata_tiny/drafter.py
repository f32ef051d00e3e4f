"""The NextN block as a drafter, for training: over every pair of a row at once, and down its own chain.

The pair of position t is (hidden row t behind the output norm, token t + 1); it drafts token t + 2. A chain goes on
from it with the drafter's own normed row in place of the trunk's:

    depth 1, pair t     h_t      , x_{t+1}   sees pairs 0 .. t of depth 1
    depth 2, pair t     h'_t     , x_{t+2}   sees pairs 0 .. t of depth 1, and itself
    depth 3, pair t     h''_t    , x_{t+3}   sees pairs 0 .. t of depth 1, depth 2 of t, and itself

which is what a drafter sees that drafts three tokens behind an accepted one, since its pairs up to there come of the
trunk's own rows. The tokens taken in are the text's: a draft behind a wrong draft is never accepted anyway.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from recipes.strata_tiny.model import Weights, linear, mixture, project_attention, rms
from recipes.strata_tiny.shape import TinyShape


@dataclass(frozen=True, slots=True)
class DraftCells:
    """K and V [B, heads, T, D] of depth 1, then those of each further depth."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


def draft_input(embedded: Tensor, hidden: Tensor, w: Weights, shape: TinyShape, dtype: torch.dtype) -> Tensor:
    """One row a pair. embedded, hidden: [B, T, E] -> f32 [B, T, E]."""
    pair = (
        rms(embedded, w["nextn.enorm.weight"], shape.epsilon),
        rms(hidden, w["nextn.hnorm.weight"], shape.epsilon),
    )
    return linear(torch.cat(pair, -1), w["nextn.eh_proj.weight"], dtype).float()


def first_drafts(
    embedded: Tensor, hidden: Tensor, w: Weights, cosine: Tensor, sine: Tensor, shape: TinyShape, dtype: torch.dtype
) -> tuple[Tensor, Tensor, DraftCells]:
    """Depth 1 -> normed rows f32 [B, T, E], balance, cells."""
    x = draft_input(embedded, hidden, w, shape, dtype)
    p = project_attention(x, w, cosine, sine, shape, dtype)
    mixed = F.scaled_dot_product_attention(p.query, p.key, p.value, is_causal=True)
    x, balance = _finish(x, mixed, p.gate, w, shape, dtype)
    return x, balance, DraftCells((p.key,), (p.value,))


def next_drafts(
    embedded: Tensor,
    hidden: Tensor,
    cells: DraftCells,
    w: Weights,
    cosine: Tensor,
    sine: Tensor,
    shape: TinyShape,
    dtype: torch.dtype,
) -> tuple[Tensor, DraftCells]:
    """One depth further; cosine and sine are those of the positions its rows stand at. Scores are held whole, so give
    it few rows B."""
    x = draft_input(embedded, hidden, w, shape, dtype)
    p = project_attention(x, w, cosine, sine, shape, dtype)
    keys, values = (*cells.keys, p.key), (*cells.values, p.value)
    num_tokens = x.shape[1]
    lower = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=x.device).tril()
    scores = [(p.query @ keys[0].mT).float().masked_fill(~lower, float("-inf"))]
    scores += [(p.query.float() * key.float()).sum(-1, keepdim=True) for key in keys[1:]]
    shares = (torch.cat(scores, -1) * shape.head_dim**-0.5).softmax(-1).to(dtype)
    mixed = shares[..., :num_tokens] @ values[0]
    for depth, value in enumerate(values[1:]):
        mixed = mixed + shares[..., num_tokens + depth, None] * value
    x, _ = _finish(x, mixed, p.gate, w, shape, dtype)
    return x, DraftCells(keys, values)


def _finish(
    x: Tensor, mixed: Tensor, gate: Tensor, w: Weights, shape: TinyShape, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    x = x + linear(mixed.transpose(1, 2).flatten(-2) * gate, w["attn_output.weight"], dtype)
    added, balance = mixture(x, w, shape, dtype)
    return rms(x + added, w["nextn.shared_head_norm.weight"], shape.epsilon), balance
