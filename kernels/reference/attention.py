"""Causal attention over a layer's K/V, grouped query heads.

A query row's bits depend on its position and on the keys up to it, on nothing else. Keys come in blocks of KEY_BLOCK
counted from position 0, whatever part of the context this launch adds; queries come in blocks of ROW_BLOCK rows, so
that every product, sum and exponential has one fixed shape:

      keys   |   0..127   |  128..255  |  256..383  |        running maximum m, sum l, weighted values o:
      row p  |  visible   |  visible   | p | hidden |          m' = max(m, scores)   a = exp(m - m')
                                                               p = exp(scores - m')
                                                               l' = l a + sum p       o' = o a + p V

A hidden key adds p = 0 exactly, and a block that is hidden from a row leaves m, l and o as they were, so it does not
matter to a row how far its neighbours see.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.reference.blocks import KEY_BLOCK, ROW_BLOCK, spans
from kernels.reference.kv_cells import BlockCells, Cells
from kernels.reference.scratch import Scratch


@dataclass(frozen=True, slots=True)
class _Block:
    """Working set of one block of query rows. G = H / Hkv query heads share a key head."""

    query: Tensor  # [G, Hkv, 16, D]
    scores: Tensor  # [G, Hkv, 16, KEY_BLOCK]
    keys: Tensor  # [Hkv, KEY_BLOCK, D]
    values: Tensor  # [Hkv, KEY_BLOCK, D]
    product: Tensor  # [G, Hkv, 16, D]
    maximum: Tensor  # [G, Hkv, 16, 1]
    total: Tensor  # [G, Hkv, 16, 1]
    output: Tensor  # [G, Hkv, 16, D]
    distance: Tensor  # int64 [16, KEY_BLOCK], key index - row index
    hidden: Tensor  # bool [16, KEY_BLOCK]

    @staticmethod
    def make(scratch: Scratch, num_heads: int, num_kv_heads: int, head_dim: int) -> "_Block":
        lead = (num_heads // num_kv_heads, num_kv_heads, ROW_BLOCK)
        return _Block(
            query=scratch.take("attention.query", (*lead, head_dim)),
            scores=scratch.take("attention.scores", (*lead, KEY_BLOCK)),
            keys=scratch.take("attention.keys", (num_kv_heads, KEY_BLOCK, head_dim)),
            values=scratch.take("attention.values", (num_kv_heads, KEY_BLOCK, head_dim)),
            product=scratch.take("attention.product", (*lead, head_dim)),
            maximum=scratch.take("attention.maximum", (*lead, 1)),
            total=scratch.take("attention.total", (*lead, 1)),
            output=scratch.take("attention.output", (*lead, head_dim)),
            distance=torch.arange(KEY_BLOCK) - torch.arange(ROW_BLOCK).unsqueeze(1),
            hidden=scratch.take("attention.hidden", (ROW_BLOCK, KEY_BLOCK), torch.bool),
        )


def attention(
    query: Tensor, keys: Cells, values: Cells, out: Tensor, scratch: Scratch, *, position: int, scale: float
) -> None:
    """out[r, h] = softmax over s <= position + r of (scale * query[r, h] . keys[s, h / G]), times values[s, h / G].

    query, out: f32 [rows, H, D], may be strided over rows; keys, values: [context, Hkv, D], of which positions
    0 .. position + rows - 1 are read."""
    rows = query.shape[0]
    block = scratch.take_set(_Block.make, query.shape[1], keys.shape[1], query.shape[2])
    for start, stop in spans(rows, ROW_BLOCK):
        _load_query(block, query[start:stop], scale)
        for first_key, end_key in spans(position + stop, KEY_BLOCK):
            _load_keys(block, keys, values, first_key, end_key)
            is_masked = first_key + KEY_BLOCK > position + start + 1
            _attend(block, first_row=position + start, first_key=first_key, is_masked=is_masked)
        _store(block, out[start:stop])


def _load_query(block: _Block, query: Tensor, scale: float) -> None:
    """query: [rows <= 16, H, D]; head h = kv_head * G + g."""
    group, num_kv_heads = block.query.shape[:2]
    count = query.shape[0]
    heads = query.view(count, num_kv_heads, group, -1).permute(2, 1, 0, 3)
    block.query[:, :, :count].copy_(heads)
    block.query[:, :, count:].zero_()
    block.query.mul_(scale)
    block.maximum.fill_(-torch.inf)
    block.total.zero_()
    block.output.zero_()


def _load_keys(block: _Block, keys: Cells, values: Cells, start: int, stop: int) -> None:
    """At most KEY_BLOCK positions. Those that nobody wrote yet are zero, never what lies there."""
    count = stop - start
    for target, cells in ((block.keys, keys), (block.values, values)):
        if isinstance(cells, BlockCells):
            cells.read(start, stop, target[:, :count].transpose(0, 1))
        else:
            target[:, :count].copy_(cells[start:stop].transpose(0, 1))
        target[:, count:].zero_()


def _attend(block: _Block, *, first_row: int, first_key: int, is_masked: bool) -> None:
    """Fold one block of keys into maximum, total and output."""
    for group in range(block.query.shape[0]):
        torch.bmm(block.query[group], block.keys.transpose(1, 2), out=block.scores[group])
    if is_masked:
        torch.gt(block.distance, first_row - first_key, out=block.hidden)
        block.scores.masked_fill_(block.hidden, -torch.inf)
    maximum = torch.maximum(block.maximum, block.scores.amax(dim=3, keepdim=True))
    decay = block.maximum.sub_(maximum).exp_()
    block.scores.sub_(maximum).exp_()
    block.total.mul_(decay).add_(block.scores.sum(dim=3, keepdim=True))
    for group in range(block.query.shape[0]):
        torch.bmm(block.scores[group], block.values, out=block.product[group])
    block.output.mul_(decay).add_(block.product)
    block.maximum.copy_(maximum)


def _store(block: _Block, out: Tensor) -> None:
    group, num_kv_heads = block.query.shape[:2]
    block.output.div_(block.total)
    heads = block.output[:, :, : out.shape[0]].permute(2, 1, 0, 3)
    out.view(-1, num_kv_heads, group, out.shape[2]).copy_(heads)
