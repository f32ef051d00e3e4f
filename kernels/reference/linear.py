"""y = x W^T, with W in file form: the only matrix product of weights there is.

It is computed as W x^T, on blocks of exactly ROW_BLOCK rows of x, which lie transposed: then a row of x is one lane of
the processor's vectors from end to end, and W is read as it lies, where the BLAS would reorder it for x W^T first
(1.3 to 3 times slower, measured with torch 2.13 and MKL on AVX-512).

Weights are dequantized a tile of rows at a time, small enough to stay in the second-level cache, and each tile meets
every block of rows before the next tile is made. How W is tiled depends on W's shape alone, so it is the same for one
row and for a thousand.
"""

from dataclasses import dataclass

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
        is_whole = stop - start == rows  # a view costs as much as a small product
        x_band, out_band = (x, out) if is_whole else (x[start:stop], out[start:stop])
        num_blocks = -(-(stop - start) // ROW_BLOCK)
        inputs = scratch.take_set(_Lanes.of_inputs, num_blocks, columns)
        products = scratch.take_set(_Lanes.of_products, num_blocks, num_outputs)
        _pack(x_band, inputs)
        _multiply(inputs, weight, stride, type_id, products, scratch)
        if bias is not None:
            products.whole.add_(bias.unsqueeze(1))
        _unpack(products, out_band, accumulate=accumulate)


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Blocks of rows that lie transposed, from a buffer for one block or for a whole band: a vocabulary is wide, but
    the rows that meet it are few."""

    whole: Tensor  # f32 [n, columns, 16]
    by_row: Tensor  # the same, f32 [n, 16, columns]
    each: tuple[Tensor, ...]  # n times f32 [columns, 16]

    @staticmethod
    def of_inputs(scratch: Scratch, num_blocks: int, columns: int) -> "_Lanes":
        return _Lanes._named("linear.inputs", scratch, num_blocks, columns)

    @staticmethod
    def of_products(scratch: Scratch, num_blocks: int, columns: int) -> "_Lanes":
        return _Lanes._named("linear.products", scratch, num_blocks, columns)

    @staticmethod
    def _named(name: str, scratch: Scratch, num_blocks: int, columns: int) -> "_Lanes":
        room = 1 if num_blocks == 1 else BAND_ROWS // ROW_BLOCK
        whole = scratch.take(name, (room, columns, ROW_BLOCK))[:num_blocks]
        return _Lanes(whole, whole.transpose(1, 2), whole.unbind())


def tile_rows(columns: int) -> int:
    """Rows of W dequantized together: a multiple of ROW_BLOCK that depends on W's row length only."""
    return max(ROW_BLOCK, TILE_WEIGHTS // columns // ROW_BLOCK * ROW_BLOCK)


def _multiply(inputs: _Lanes, weight: Tensor, stride: int, type_id: int, products: _Lanes, scratch: Scratch) -> None:
    """products[i] = W inputs[i], of K and of N columns; stride: bytes of a row of W."""
    columns, num_outputs = inputs.whole.shape[1], products.whole.shape[1]
    for first, last in spans(num_outputs, tile_rows(columns)):
        tile = scratch.take("linear.tile", (last - first, columns))
        is_whole = last - first == num_outputs
        dequantize(weight if is_whole else weight[first * stride : last * stride], type_id, tile, scratch)
        for block, product in zip(inputs.each, products.each, strict=True):
            torch.mm(tile, block, out=product if is_whole else product[first:last])


def _pack(x: Tensor, inputs: _Lanes) -> None:
    """inputs[i, k, r] = x[16 i + r, k], zero where x has no such row. x: f32 [rows, K]."""
    whole, rest = divmod(x.shape[0], ROW_BLOCK)
    if whole:
        inputs.by_row[:whole].copy_(x[: whole * ROW_BLOCK].view(whole, ROW_BLOCK, -1))
    if rest:
        inputs.each[whole].zero_()
        inputs.by_row[whole, :rest].copy_(x[whole * ROW_BLOCK :])


def _unpack(products: _Lanes, out: Tensor, *, accumulate: bool) -> None:
    """out[16 i + r, n] = products[i, n, r], or += that. out: f32 [rows, N]."""
    whole, rest = divmod(out.shape[0], ROW_BLOCK)
    parts = []
    if whole:
        parts.append((out[: whole * ROW_BLOCK].view(whole, ROW_BLOCK, -1), products.by_row[:whole]))
    if rest:
        parts.append((out[whole * ROW_BLOCK :], products.by_row[whole, :rest]))
    for target, source in parts:
        if accumulate:
            target.add_(source)
        else:
            target.copy_(source)
