"""Digests and patterns in plain Python, for traces and for payloads that have no torch.

`positional_digest` is the digest of `strata.core.commands.Digest`, by its definition: with w_i the little-endian 64-bit
words of the bytes, the last one zero padded, and all arithmetic modulo 2^64,

    x_i = (w_i xor (i + 1) * K1) * K2;    digest = size_bytes + sum of x_i xor (x_i >> 32)

`pattern` is what a replay writes where nobody knows the bytes any more: word i is the same mixture of a seed.
"""

import sys
from array import array
from collections.abc import Iterable
from hashlib import blake2b

K1 = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd (Knuth, TAOCP 6.4)
K2 = 0xC2B2AE3D27D4EB4F
MASK = (1 << 64) - 1
WORD_BYTES = 8


def positional_digest(data: bytes | memoryview) -> int:
    """0 .. 2^64 - 1. About ten million bytes a second."""
    size_bytes = len(data)
    words = array("Q", bytes(data) + bytes(-size_bytes % WORD_BYTES))
    if sys.byteorder == "big":
        words.byteswap()
    total, place = size_bytes, 0
    for word in words:
        place = place + K1 & MASK
        mixed = (word ^ place) * K2 & MASK
        total += mixed ^ mixed >> 32
    return total & MASK


def pattern(size_bytes: int, seed: int) -> bytes:
    """Bytes that differ from place to place and from seed to seed; `seed` is 0 .. 2^64 - 1."""
    words = array("Q")
    place = 0
    for _ in range(-(-size_bytes // WORD_BYTES)):
        place = place + K1 & MASK
        mixed = (seed ^ place) * K2 & MASK
        words.append(mixed ^ mixed >> 32)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()[:size_bytes]


def mix_digests(digests: Iterable[int]) -> int:
    """One number of several, in their order."""
    mark = 0
    for digest in digests:
        mixed = (mark ^ digest) * K2 & MASK
        mark = (mixed ^ mixed >> 32) + K1 & MASK
    return mark


def short_digest(data: bytes | memoryview) -> str:
    """16 hex digits of BLAKE2b: fast enough for every upload while a server runs."""
    return blake2b(data, digest_size=8).hexdigest()
