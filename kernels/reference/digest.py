"""The positional digest by which bytes on a device are compared with what they should be.

    w_i = bytes 8 i .. 8 i + 7, little endian, i = 0, 1, ...; the last word is padded with zero bytes
    x_i = (w_i xor (i + 1) * K1) * K2
    digest = size_bytes + sum over i of x_i xor (x_i >>> 32)                   all modulo 2^64

The sum may be taken in any order and by any number of workers; moved, swapped and changed words change it. Every
device body computes the same number: this is the definition, and a test holds the twin to it.
"""

import torch
from torch import Tensor

from kernels.reference.blocks import spans
from kernels.reference.mix import signed, xor_shift_right

K1 = 0x9E3779B97F4A7C15
K2 = 0xC2B2AE3D27D4EB4F
_WORDS_AT_ONCE = 1 << 16  # 512 KiB: stays in the second-level cache


def digest(data: Tensor) -> int:
    """data: uint8 [size_bytes], contiguous, any offset -> 0 .. 2^64 - 1."""
    total = data.numel()
    num_words = data.numel() // 8
    for first, last in spans(num_words, _WORDS_AT_ONCE):
        words = torch.empty(last - first, dtype=torch.int64)
        words.view(torch.uint8).copy_(data[8 * first : 8 * last])
        total += _sum(words, first)
    if tail_bytes := data.numel() % 8:
        word = torch.zeros(1, dtype=torch.int64)
        word.view(torch.uint8)[:tail_bytes].copy_(data[8 * num_words :])
        total += _sum(word, num_words)
    return total & (1 << 64) - 1


def _sum(words: Tensor, num_before: int) -> int:
    """Sum of the mixed words, int64 [n], which are overwritten; `num_before` words come before them."""
    places = torch.arange(num_before + 1, num_before + 1 + words.numel(), dtype=torch.int64)
    words.bitwise_xor_(places.mul_(signed(K1))).mul_(signed(K2))
    return int(xor_shift_right(words, 32).sum())
