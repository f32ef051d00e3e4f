"""Integer mixing on 64-bit words, modulo 2^64: the same on every device, unlike a device's random generator.

torch has no unsigned 64-bit arithmetic, so words are int64 and wrap; `>>>` below is a logical shift.
"""

import torch
from torch import Tensor

FIRST_FACTOR = 0xBF58476D1CE4E5B9
SECOND_FACTOR = 0x94D049BB133111EB
_MASK = (1 << 64) - 1


def mix64(words: Tensor) -> Tensor:
    """The finalizer of splitmix64 (Steele, Lea, Flood 2014), in place; words: int64, any shape.

    x ^= x >>> 30;  x *= FIRST_FACTOR;  x ^= x >>> 27;  x *= SECOND_FACTOR;  x ^= x >>> 31"""
    xor_shift_right(words, 30)
    words.mul_(signed(FIRST_FACTOR))
    xor_shift_right(words, 27)
    words.mul_(signed(SECOND_FACTOR))
    return xor_shift_right(words, 31)


def mix64_scalar(word: int) -> int:
    """`mix64` of one word, 0 .. 2^64 - 1."""
    word ^= word >> 30
    word = word * FIRST_FACTOR & _MASK
    word ^= word >> 27
    word = word * SECOND_FACTOR & _MASK
    return word ^ word >> 31


def xor_shift_right(words: Tensor, bits: int) -> Tensor:
    """words ^= words >>> bits, in place."""
    return words.bitwise_xor_(torch.bitwise_right_shift(words, bits).bitwise_and_((1 << (64 - bits)) - 1))


def signed(word: int) -> int:
    """The int64 with the bits of `word`, of which the lowest 64 count."""
    word &= _MASK
    return word - (1 << 64) if word >> 63 else word
