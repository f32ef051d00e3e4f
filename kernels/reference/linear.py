"""y = x W^T, with W in file form: the only matrix product of weights there is.

Weights are dequantized a tile of rows at a time, small enough to stay in the second-level cache, and each tile meets
every block of rows before the next tile is made. How W is tiled depends on W's shape alone, so it is the same for one
row and for a thousand.
"""

import torch
from torch import Tensor

from kernels.reference.blocks import BAND_ROWS, ROW_BLOCK, padded, row_block, spans
from kernels.reference.dequantize import dequantize, row_bytes
from kernels.reference.scratch import Scratch

TILE_WEIGHTS = 288 * 1024
"""Weights of one tile: 1.1 MiB of floats. Of 147k, 295k, 590k and 885k the second gave the most weights a second for
Q4_1 (2.1 G on 2 quiet cores with 2 MiB of second-level cache each)."""


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
    columns, num_outputs = x.shape[1], out.shape[1]
    stride = row_bytes(type_id, columns)
    assert weight.numel() == num_outputs * stride, (weight.numel(), num_outputs, columns, type_id)
    for start, stop in spans(x.shape[0], BAND_ROWS):
        blocks = _pack(x[start:stop], scratch)
        for first, last in spans(num_outputs, tile_rows(columns)):
            tile = scratch.take("linear.tile", (last - first, columns))
            dequantize(weight[first * stride : last * stride], type_id, tile, scratch)
            tile_bias = None if bias is None else bias[first:last]
            multiply(blocks, tile, out[start:stop, first:last], scratch, bias=tile_bias, accumulate=accumulate)


def tile_rows(columns: int) -> int:
    """Rows of W dequantized together: a multiple of ROW_BLOCK that depends on W's row length only."""
    return max(ROW_BLOCK, TILE_WEIGHTS // columns // ROW_BLOCK * ROW_BLOCK)


def multiply(
    blocks: list[Tensor],
    tile: Tensor,
    out: Tensor,
    scratch: Scratch,
    *,
    bias: Tensor | None = None,
    accumulate: bool = False,
) -> None:
    """out[16 i : 16 i + 16] = blocks[i] tile^T for each block of exactly ROW_BLOCK rows; rows beyond out are dropped.

    blocks: f32 [16, K] each, aligned; tile: f32 [n, K]; out: f32 [rows, n], strided over rows."""
    product = scratch.take("linear.product", (ROW_BLOCK, tile.shape[0]))
    for block, (start, stop) in zip(blocks, spans(out.shape[0], ROW_BLOCK), strict=True):
        torch.mm(block, tile.t(), out=product)
        rows = product[: stop - start]
        if bias is not None:
            rows.add_(bias)
        if accumulate:
            out[start:stop].add_(rows)
        else:
            out[start:stop].copy_(rows)


def _pack(x: Tensor, scratch: Scratch) -> list[Tensor]:
    """x as blocks of exactly ROW_BLOCK aligned rows; copied as a whole when its rows are strided or unaligned."""
    rows = x.shape[0]
    if not x.is_contiguous() or x.data_ptr() % 64:
        band = scratch.take("linear.band", (BAND_ROWS, x.shape[1]))[: padded(rows)]
        band[:rows].copy_(x)
        band[rows:].zero_()
        x, rows = band, band.shape[0]
    return [row_block(x, start, stop, scratch, "linear.block") for start, stop in spans(rows, ROW_BLOCK)]
