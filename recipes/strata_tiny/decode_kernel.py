"""One token's attention as a Triton kernel: a program for each row and KV head, over the cells that are filled."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_TOKENS = 64
GROUP_ROWS = 16
"""Query heads of a group, padded to what a matrix product needs."""


@triton.jit  # type: ignore[untyped-decorator]
def _decode(  # type: ignore[no-untyped-def]
    query,
    keys,
    values,
    out,
    position,
    tokens,
    group: tl.constexpr,
    padded: tl.constexpr,
    width: tl.constexpr,
    block: tl.constexpr,
    scale: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    filled = (tl.load(position) + 1).to(tl.int32)
    heads = tl.arange(0, padded)
    dims = tl.arange(0, width)
    cells = tl.arange(0, block)
    is_head = heads[:, None] < group
    q = tl.load(query + row * group * width + heads[:, None] * width + dims[None, :], mask=is_head, other=0.0)
    best = tl.full((padded,), float("-inf"), tl.float32)
    total = tl.zeros((padded,), tl.float32)
    mixed = tl.zeros((padded, width), tl.float32)
    base = row * tokens * width
    for start in range(0, filled, block):
        is_filled = start + cells < filled
        at = base + (start + cells[:, None]) * width + dims[None, :]
        k = tl.load(keys + at, mask=is_filled[:, None], other=0.0)
        v = tl.load(values + at, mask=is_filled[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(is_filled[None, :], scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        shrink = tl.exp(best - higher)
        chances = tl.exp(scores - higher[:, None])
        total = total * shrink + tl.sum(chances, 1)
        mixed = mixed * shrink[:, None] + tl.dot(chances.to(v.dtype), v)
        best = higher
    mixed = mixed / total[:, None]
    tl.store(out + row * group * width + heads[:, None] * width + dims[None, :], mixed.to(q.dtype), mask=is_head)


def decode(query: Tensor, keys: Tensor, values: Tensor, position: Tensor) -> Tensor:
    """query: [R, group, D]; keys, values: [R, T, D]; position: int64 [1]; all contiguous -> [R, group, D]."""
    rows, group, width = query.shape
    out = torch.empty_like(query)
    _decode[(rows,)](
        query, keys, values, out, position, keys.shape[1], group, GROUP_ROWS, width, BLOCK_TOKENS, width**-0.5
    )
    return out
