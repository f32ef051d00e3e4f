"""y = x W^T, with W in file form: the only matrix product of weights there is.

It is computed as W x^T, on blocks of exactly ROW_BLOCK rows of x, which lie transposed: then a row of x is one lane of
the processor's vectors from end to end, and W is read as it lies, where the BLAS would reorder it for x W^T first
(1.3 to 3 times slower, measured with torch 2.13 and MKL on AVX-512).

Weights are dequantized a tile of rows at a time, small enough to stay in the second-level cache, and each tile meets
every block of rows before the next tile is made. How W is tiled depends on W's shape alone, so it is the same for one
row and for a thousand.
"""

import torch
from torch import Tensor

from kernels.reference.blocks import BAND_ROWS, ROW_BLOCK, spans
from kernels.reference.dequantize import dequantize, row_bytes
from kernels.reference.scratch import Scratch

TILE_WEIGHTS = 144 * 1024
"""Weights of one tile: 0.6 MiB of floats. From 96k to 192k the speed is the same for Q4_1. At 288k the tile and the
BLAS's own buffers no longer fit into 2 MiB of cache together; below 64k the calls dominate."""


def linear(
    x: Tensor,
    weight: Tensor,
    type_id: int,
    out: Tensor,
    scratch: Scratch,
    *,
    bias: Tensor | None = None,
    accumulate: bool = False,
) -> None:
    """out = x W^T + bias, or out += that with `accumulate`.

    x: f32 [rows, K]; weight: uint8, the file's bytes of W [N, K] in ggml type `type_id`; bias: f32 [N];
    out: f32 [rows, N]. x and out may be strided over rows; they must not overlap."""
    (rows, columns), num_outputs = x.shape, out.shape[1]
    stride = row_bytes(type_id, columns)
    assert weight.numel() == num_outputs * stride, (weight.numel(), num_outputs, columns, type_id)
    for start, stop in spans(rows, BAND_ROWS):
        num_blocks = -(-(stop - start) // ROW_BLOCK)
        blocks = _take("linear.blocks", num_blocks, columns, scratch)
        products = _take("linear.products", num_blocks, num_outputs, scratch)
        _pack(x[start:stop], blocks)
        _multiply(blocks, weight, stride, type_id, products, scratch)
        if bias is not None:
            products.add_(bias.unsqueeze(1))
        _unpack(products, out[start:stop], accumulate=accumulate)


def tile_rows(columns: int) -> int:
    """Rows of W dequantized together: a multiple of ROW_BLOCK that depends on W's row length only."""
    return max(ROW_BLOCK, TILE_WEIGHTS // columns // ROW_BLOCK * ROW_BLOCK)


def _take(name: str, num_blocks: int, columns: int, scratch: Scratch) -> Tensor:
    """f32 [num_blocks, columns, 16], from a buffer for one block or for a whole band: a vocabulary is wide, but the
    rows that meet it are few."""
    room = 1 if num_blocks == 1 else BAND_ROWS // ROW_BLOCK
    return scratch.take(name, (room, columns, ROW_BLOCK))[:num_blocks]


def _multiply(blocks: Tensor, weight: Tensor, stride: int, type_id: int, products: Tensor, scratch: Scratch) -> None:
    """products[i] = W blocks[i]. blocks: f32 [n, K, 16]; products: f32 [n, N, 16]; stride: bytes of a row of W."""
    columns, num_outputs = blocks.shape[1], products.shape[1]
    pairs = list(zip(blocks.unbind(), products.unbind(), strict=True))
    for first, last in spans(num_outputs, tile_rows(columns)):
        tile = scratch.take("linear.tile", (last - first, columns))
        dequantize(weight[first * stride : last * stride], type_id, tile, scratch)
        for block, product in pairs:
            torch.mm(tile, block, out=product[first:last])


def _pack(x: Tensor, blocks: Tensor) -> None:
    """blocks[i, k, r] = x[16 i + r, k], zero where x has no such row. x: f32 [rows, K]; blocks: f32 [n, K, 16]."""
    whole, rest = divmod(x.shape[0], ROW_BLOCK)
    by_row = blocks.transpose(1, 2)
    if whole:
        by_row[:whole].copy_(x[: whole * ROW_BLOCK].view(whole, ROW_BLOCK, -1))
    if rest:
        blocks[whole].zero_()
        by_row[whole, :rest].copy_(x[whole * ROW_BLOCK :])


def _unpack(products: Tensor, out: Tensor, *, accumulate: bool) -> None:
    """out[16 i + r, n] = products[i, n, r], or += that. products: f32 [n, N, 16]; out: f32 [rows, N]."""
    whole, rest = divmod(out.shape[0], ROW_BLOCK)
    by_row = products.transpose(1, 2)
    parts = []
    if whole:
        parts.append((out[: whole * ROW_BLOCK].view(whole, ROW_BLOCK, -1), by_row[:whole]))
    if rest:
        parts.append((out[whole * ROW_BLOCK :], by_row[whole, :rest]))
    for target, source in parts:
        if accumulate:
            target.add_(source)
        else:
            target.copy_(source)
