"""Quantized types with blocks of 32 weights: Q4_0, Q4_1, Q8_0.

Bytes of a block, little endian:

    Q4_0   d f16 | 16 bytes: low nibbles are weights 0..15, high nibbles 16..31      w = d * (q - 8)
    Q4_1   d f16 | m f16 | 16 bytes, same order                                      w = d * q + m
    Q8_0   d f16 | 32 x int8                                                         w = d * q

Speed comes from touching few, contiguous, wide words: block heads and nibbles are gathered once as 16- or 32-bit
words, split by masks on whole words, and turned into floats in one contiguous pass.

Each function: data uint8 [num_blocks * block bytes] -> out f32 [num_blocks * 32].
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.reference.scratch import Scratch

LOW_NIBBLES, NIBBLE_BITS = (torch.tensor(word, dtype=torch.int32) for word in (0x0F0F0F0F, 4))
"""Tensors, because torch wraps a number anew at each call, which takes longer than the call."""


def q4_0(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    num_blocks = data.numel() // 18
    heads, nibbles = scratch.take_set(_Scales.make, num_blocks), scratch.take_set(_Nibbles.make, num_blocks)
    words = data.view(torch.int16)
    heads.packed.copy_(words[::9])
    nibbles.halfwords.copy_(_tails(words, num_blocks, head=1, length=9))
    _nibbles_to_float(nibbles, out)
    out.view(-1, 32).sub_(8.0).mul_(heads.values.copy_(heads.halves))


def q4_1(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    num_blocks = data.numel() // 20
    heads, nibbles = scratch.take_set(_ScalesAndMins.make, num_blocks), scratch.take_set(_Nibbles.make, num_blocks)
    words = data.view(torch.int32)
    heads.packed.copy_(words[::5])
    nibbles.words.copy_(_tails(words, num_blocks, head=1, length=5))
    _nibbles_to_float(nibbles, out)
    heads.values.copy_(heads.halves)
    # d * q is exact, 11 and 4 bits: only the sum is rounded, as in gguf-py.
    out.view(-1, 32).mul_(heads.scales).add_(heads.mins)


def q8_0(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    num_blocks, blocks = data.numel() // 34, out.view(-1, 32)
    blocks.copy_(_tails(data.view(torch.int8), num_blocks, head=2, length=34))
    # A product of f32 and f16 is one of f32.
    blocks.mul_(data.view(torch.float16).as_strided((num_blocks, 1), (17, 1), data.storage_offset() // 2))


def _tails(words: Tensor, num_blocks: int, *, head: int, length: int) -> Tensor:
    """Of consecutive blocks of `length` words, the words after the first `head`: [num_blocks, length - head]."""
    return words.as_strided((num_blocks, length - head), (length, 1), words.storage_offset() + head)


@dataclass(frozen=True, slots=True)
class _Scales:
    """Heads of blocks that are one f16."""

    packed: Tensor  # int16 [num_blocks]
    halves: Tensor  # f16 [num_blocks, 1], the same bytes
    values: Tensor  # f32 [num_blocks, 1]

    @staticmethod
    def make(scratch: Scratch, num_blocks: int) -> "_Scales":
        packed = scratch.take("scales.packed", (num_blocks,), torch.int16)
        return _Scales(packed, packed.view(torch.float16).view(-1, 1), scratch.take("scales.values", (num_blocks, 1)))


@dataclass(frozen=True, slots=True)
class _ScalesAndMins:
    """Heads of blocks that are two f16, the scale first."""

    packed: Tensor  # int32 [num_blocks]
    halves: Tensor  # f16 [num_blocks, 2], the same bytes
    values: Tensor  # f32 [num_blocks, 2], of which the next two are the columns
    scales: Tensor
    mins: Tensor

    @staticmethod
    def make(scratch: Scratch, num_blocks: int) -> "_ScalesAndMins":
        packed = scratch.take("mins.packed", (num_blocks,), torch.int32)
        values = scratch.take("mins.values", (num_blocks, 2))
        return _ScalesAndMins(packed, packed.view(torch.float16).view(-1, 2), values, values[:, :1], values[:, 1:])


@dataclass(frozen=True, slots=True)
class _Nibbles:
    """16 bytes of nibbles a block, and what they become: one byte a weight. A row is 16 bytes moved as one element."""

    words: Tensor  # int32 [num_blocks, 4]
    halfwords: Tensor  # int16 [num_blocks, 8], the same bytes
    rows: Tensor  # complex128 [num_blocks], the same bytes
    shifted: Tensor  # int32 [num_blocks, 4]
    shifted_rows: Tensor  # complex128 [num_blocks], the same bytes
    split: Tensor  # int32 [num_blocks, 8]
    low_rows: Tensor  # complex128 [num_blocks], strided: the first 16 bytes of each row of split
    high_rows: Tensor  # the other 16
    weights: Tensor  # uint8 [num_blocks * 32], the bytes of split

    @staticmethod
    def make(scratch: Scratch, num_blocks: int) -> "_Nibbles":
        words = scratch.take("nibbles.words", (num_blocks, 4), torch.int32)
        shifted = scratch.take("nibbles.shifted", (num_blocks, 4), torch.int32)
        split = scratch.take("nibbles.split", (num_blocks, 8), torch.int32)
        split_rows = split.view(torch.complex128)
        return _Nibbles(
            words=words,
            halfwords=words.view(torch.int16),
            rows=words.view(torch.complex128)[:, 0],
            shifted=shifted,
            shifted_rows=shifted.view(torch.complex128)[:, 0],
            split=split,
            low_rows=split_rows[:, 0],
            high_rows=split_rows[:, 1],
            weights=split.view(torch.uint8).view(-1),
        )


def _nibbles_to_float(nibbles: _Nibbles, out: Tensor) -> None:
    """What was gathered into `words` -> out f32 [num_blocks * 32], 0.0 .. 15.0."""
    torch.bitwise_right_shift(nibbles.words, NIBBLE_BITS, out=nibbles.shifted)
    nibbles.low_rows.copy_(nibbles.rows)
    nibbles.high_rows.copy_(nibbles.shifted_rows)
    nibbles.split.bitwise_and_(LOW_NIBBLES)
    out.copy_(nibbles.weights)
