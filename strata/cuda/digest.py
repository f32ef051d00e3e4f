"""The positional digest in torch operations, for a body that was given no kernel for it.

With w_i the little-endian 64-bit words of the bytes, the last one zero padded, and all arithmetic modulo 2^64:

    x_i = (w_i xor (i + 1) * K1) * K2;    digest = size_bytes + sum of x_i xor (x_i >> 32)

A sum has no order, so a card may add as it likes; the position is inside, so that two swapped slots differ.
"""

import torch

WORDS_AT_ONCE = 1 << 20  # about 40 MiB of temporaries
K1 = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / golden ratio, odd (Knuth, TAOCP 6.4), as int64
K2 = 0xC2B2AE3D27D4EB4F - (1 << 64)


def torch_digest(source: torch.Tensor) -> torch.Tensor:
    """source: uint8 [size_bytes], contiguous, any offset -> int64 [1], on the same device, with nothing waited for."""
    size_bytes = source.numel()
    total = torch.full((1,), size_bytes, dtype=torch.int64, device=source.device)
    for start in range(0, size_bytes, 8 * WORDS_AT_ONCE):
        block = source[start : start + 8 * WORDS_AT_ONCE]
        padded = torch.zeros(-(-block.numel() // 8) * 8, dtype=torch.uint8, device=source.device)
        padded[: block.numel()].copy_(block)
        words = padded.view(torch.int64)
        first = start // 8 + 1
        place = torch.arange(first, first + words.numel(), dtype=torch.int64, device=source.device)
        mixed = (words ^ (place * K1)) * K2
        total += (mixed ^ ((mixed >> 32) & 0xFFFF_FFFF)).sum()
    return total
