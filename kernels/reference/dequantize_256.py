"""Quantized types with blocks of 256 weights: Q4_K, Q5_K, Q6_K.

Bytes of a block, little endian (sub-blocks of 32 weights, s = 0..7; sc and mn are 6-bit numbers, packed in 12 bytes):

    Q4_K   d f16 | dmin f16 | scales 12 | qs 128            w = (d * sc[s]) * q - (dmin * mn[s])
    Q5_K   d f16 | dmin f16 | scales 12 | qh 32 | qs 128    the same, q has a fifth bit: bit s of qh
    Q6_K   ql 128 | qh 64 | scales int8 x 16 | d f16        w = (d * scale) * (q - 32), scales of 16 weights

Nibbles, high bits and scales are all taken four bytes at a time, as lanes of 32-bit words: a right shift may drag
bits over a lane's border, and the mask that follows removes them.

Each function: data uint8 [num_blocks * block bytes] -> out f32 [num_blocks * 256].
"""

import torch
from torch import Tensor

from kernels.reference.dequantize_32 import LOW_NIBBLES, NIBBLE_BITS
from kernels.reference.scratch import Scratch

_SIX_BITS, _TWO_BITS, _ONE_BIT = (torch.tensor(w, dtype=torch.int32) for w in (0x3F3F3F3F, 0x03030303, 0x01010101))
_SHIFTS_5 = torch.arange(8, dtype=torch.int32).view(1, 8, 1)
_SHIFTS_6 = torch.arange(0, 8, 2, dtype=torch.int32).view(1, 1, 4, 1)


def q4_k(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    blocks = data.view(torch.int32).view(-1, 36)
    scales, mins = _scales_and_mins(blocks, scratch)
    out.copy_(_split_nibbles(blocks[:, 4:], scratch).view(torch.uint8).view(-1))
    out.view(-1, 8, 32).mul_(scales).sub_(mins)


def q5_k(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    blocks = data.view(torch.int32).view(-1, 44)
    num_blocks = blocks.shape[0]
    scales, mins = _scales_and_mins(blocks, scratch)
    split = _split_nibbles(blocks[:, 12:], scratch)
    high = scratch.take("q5_k.high", (num_blocks, 8, 8), torch.int32)
    torch.bitwise_right_shift(blocks[:, 4:12].unsqueeze(1), _SHIFTS_5, out=high)
    split.view(num_blocks, 8, 8).bitwise_or_(high.bitwise_and_(_ONE_BIT).bitwise_left_shift_(NIBBLE_BITS))
    out.copy_(split.view(torch.uint8).view(-1))
    out.view(-1, 8, 32).mul_(scales).sub_(mins)


def q6_k(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    halves = data.view(torch.int16).view(-1, 105)
    num_blocks = halves.shape[0]
    words = scratch.take("q6_k.words", (num_blocks, 104), torch.int16)  # all but d: then 32-bit words are possible
    words.copy_(halves[:, :104])
    packed = words.view(torch.int32)
    low, high_bits, scales = packed[:, :32], packed[:, 32:48], packed[:, 48:]
    split = scratch.take("q6_k.split", (num_blocks, 2, 4, 8), torch.int32)
    low = low.reshape(num_blocks, 2, 2, 8)
    split[:, :, :2].copy_(low)
    torch.bitwise_right_shift(low, NIBBLE_BITS, out=split[:, :, 2:])
    high = scratch.take("q6_k.high", (num_blocks, 2, 4, 8), torch.int32)
    torch.bitwise_right_shift(high_bits.reshape(num_blocks, 2, 1, 8), _SHIFTS_6, out=high)
    high.bitwise_and_(_TWO_BITS).bitwise_left_shift_(NIBBLE_BITS)
    out.copy_(split.bitwise_and_(LOW_NIBBLES).bitwise_or_(high).view(torch.uint8).view(-1))
    factors = scratch.take("q6_k.factors", (num_blocks, 16))
    factors.copy_(scales.contiguous().view(torch.int8))
    factors.mul_(halves[:, 104:].contiguous().view(torch.float16).float())
    out.view(num_blocks, 16, 16).sub_(32.0).mul_(factors.unsqueeze(2))


def _split_nibbles(words: Tensor, scratch: Scratch) -> Tensor:
    """words: int32 [num_blocks, 32], strided -> int32 [num_blocks, 4, 2, 8]: of 32 bytes, low then high nibbles."""
    num_blocks = words.shape[0]
    split = scratch.take("k.split", (num_blocks, 4, 2, 8), torch.int32)
    groups = words.reshape(num_blocks, 4, 8)
    split[:, :, 0].copy_(groups)
    torch.bitwise_right_shift(groups, NIBBLE_BITS, out=split[:, :, 1])
    return split.bitwise_and_(LOW_NIBBLES)


def _scales_and_mins(blocks: Tensor, scratch: Scratch) -> tuple[Tensor, Tensor]:
    """blocks: int32 [num_blocks, words] with d, dmin, scales in words 0..3 -> two f32 [num_blocks, 8, 1]."""
    num_blocks = blocks.shape[0]
    packed = scratch.take("k.packed", (num_blocks, 4), torch.int32)
    packed.copy_(blocks[:, :4])
    first, second, third = packed[:, 1], packed[:, 2], packed[:, 3]
    lanes = scratch.take("k.lanes", (num_blocks, 4), torch.int32)  # sc 0..3, sc 4..7, mn 0..3, mn 4..7
    torch.bitwise_and(first, _SIX_BITS, out=lanes[:, 0])
    torch.bitwise_and(second, _SIX_BITS, out=lanes[:, 2])
    lanes[:, 1] = (third & LOW_NIBBLES) | (((first >> 6) & _TWO_BITS) << 4)
    lanes[:, 3] = ((third >> 4) & LOW_NIBBLES) | (((second >> 6) & _TWO_BITS) << 4)
    factors = scratch.take("k.factors", (num_blocks, 2, 8))
    factors.copy_(lanes.view(torch.uint8).view(num_blocks, 2, 8))
    factors.mul_(packed[:, :1].contiguous().view(torch.float16).float().unsqueeze(2))
    return factors[:, 0].unsqueeze(2), factors[:, 1].unsqueeze(2)
