"""Quantized types with blocks of 32 weights: Q4_0, Q4_1, Q8_0.

Bytes of a block, little endian:

    Q4_0   d f16 | 16 bytes: low nibbles are weights 0..15, high nibbles 16..31      w = d * (q - 8)
    Q4_1   d f16 | m f16 | 16 bytes, same order                                      w = d * q + m
    Q8_0   d f16 | 32 x int8                                                         w = d * q

Speed comes from touching few, contiguous, wide words: block heads and nibbles are gathered once as 16- or 32-bit
words, split by masks on whole words, and turned into floats in one contiguous pass.

Each function: data uint8 [num_blocks * block bytes] -> out f32 [num_blocks * 32].
"""

import torch
from torch import Tensor

from kernels.reference.scratch import Scratch

LOW_NIBBLES = 0x0F0F0F0F


def q4_0(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    blocks = data.view(torch.int16).view(-1, 9)
    num_blocks = blocks.shape[0]
    words = scratch.take("q4_0.words", (num_blocks, 8), torch.int16)
    words.copy_(blocks[:, 1:])
    _nibbles_to_float(words.view(torch.int32), out, scratch)
    out.view(num_blocks, 32).sub_(8.0).mul_(_halves(blocks[:, :1], scratch))


def q4_1(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    blocks = data.view(torch.int32).view(-1, 5)
    num_blocks = blocks.shape[0]
    scale_and_min = _halves(blocks[:, :1], scratch)
    _nibbles_to_float(blocks[:, 1:], out, scratch)
    # Two roundings, as in the file format's definition; a fused multiply-add would round once.
    out.view(num_blocks, 32).mul_(scale_and_min[:, :1]).add_(scale_and_min[:, 1:])


def q8_0(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    blocks = data.view(torch.int16).view(-1, 17)
    num_blocks = blocks.shape[0]
    words = scratch.take("q8_0.words", (num_blocks, 16), torch.int16)
    words.copy_(blocks[:, 1:])
    out.copy_(words.view(torch.int8).view(-1))
    out.view(num_blocks, 32).mul_(_halves(blocks[:, :1], scratch))


def _halves(words: Tensor, scratch: Scratch) -> Tensor:
    """words: int16 or int32 [num_blocks, 1], strided -> the f16 values in them as f32 [num_blocks, 1 or 2]."""
    packed = scratch.take("halves.packed", (words.shape[0], 1), words.dtype)
    packed.copy_(words)
    values = scratch.take("halves.values", (words.shape[0], words.dtype.itemsize // 2))
    values.copy_(packed.view(torch.float16))
    return values


def _nibbles_to_float(words: Tensor, out: Tensor, scratch: Scratch) -> None:
    """words: int32 [num_blocks, 4], 16 bytes of nibbles -> out f32 [num_blocks * 32], 0.0 .. 15.0."""
    split = scratch.take("nibbles.split", (words.shape[0], 2, 4), torch.int32)
    split[:, 0].copy_(words)
    torch.bitwise_right_shift(words, 4, out=split[:, 1])
    split.bitwise_and_(LOW_NIBBLES)
    out.copy_(split.view(torch.uint8).view(-1))
