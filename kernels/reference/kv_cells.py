"""K and V of a position as blocks of 32 numbers with an f16 scale: a quarter or half of f16.

A cell holds one position's K (or V) of all heads: the codes of every head, then the scales of every block.

    Q8_0   int8 [Hkv, D], f16 [Hkv, D / 32]      d = amax / 127,            x = d q
    Q4_0   u8 [Hkv, D / 2], f16 [Hkv, D / 32]    d = x of largest |x| / -8, x = d (q - 8)

Byte i of a Q4_0 head holds the number 2i in its low and 2i + 1 in its high bits. d is rounded to f16 after the codes
were made with it, as ggml does it. Of equals with opposite signs the positive number is the largest.
"""

import torch
from torch import Tensor

Q4_0, Q8_0 = 2, 8
BLOCK = 32


def cell_bytes(type_id: int, *, num_kv_heads: int, head_dim: int) -> int:
    """Bytes of one position's K or V; head_dim must be a multiple of 32."""
    assert head_dim % BLOCK == 0, head_dim
    return num_kv_heads * head_dim // BLOCK * {Q4_0: 18, Q8_0: 34}[type_id]


def write_cells(numbers: Tensor, type_id: int, cells: Tensor) -> None:
    """cells[r] = numbers[r]. numbers: f32 [rows, Hkv, D]; cells: uint8 [rows, cell bytes]."""
    blocks = numbers.reshape(numbers.shape[0], numbers.shape[1] * numbers.shape[2] // BLOCK, BLOCK)
    if type_id == Q8_0:
        scale = blocks.abs().amax(dim=2, keepdim=True) / 127
        scaled = blocks * _inverse(scale)
        codes = (scaled.sign() * (scaled.abs() + 0.5).floor()).to(torch.int8).view(torch.uint8).flatten(1)
    else:
        high, low = blocks.amax(dim=2, keepdim=True), blocks.amin(dim=2, keepdim=True)
        scale = torch.where(high >= -low, high, low) / -8
        nibbles = (blocks * _inverse(scale) + 8.5).floor().clamp_(0, 15).to(torch.uint8).flatten(1)
        codes = nibbles[:, 0::2] | nibbles[:, 1::2] << 4
    size = codes.shape[1]
    cells[:, :size] = codes
    cells[:, size:].view(torch.float16).copy_(scale.flatten(1))


def read_cells(cells: Tensor, type_id: int, numbers: Tensor) -> None:
    """numbers[r] = cells[r]. cells: uint8 [rows, cell bytes]; numbers: f32 [rows, Hkv, D]."""
    rows, columns = numbers.shape[0], numbers.shape[1] * numbers.shape[2]
    size = columns if type_id == Q8_0 else columns // 2
    scale = cells[:, size:].contiguous().view(torch.float16).float().unsqueeze(2)
    codes = cells[:, :size]
    if type_id == Q8_0:
        values = codes.contiguous().view(torch.int8).float()
    else:
        values = torch.stack([codes & 15, codes >> 4], dim=2).float() - 8
    numbers.copy_((values.reshape(rows, columns // BLOCK, BLOCK) * scale).view(numbers.shape))


def _inverse(scale: Tensor) -> Tensor:
    return torch.where(scale == 0, torch.zeros_like(scale), 1 / scale)
