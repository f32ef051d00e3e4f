"""K and V of a position as blocks of 32 numbers with an f16 scale: a quarter or half of f16.

A cell holds one position's K (or V) of all heads: the codes of every head, then the scales of every block.

    Q8_0   int8 [Hkv, D], f16 [Hkv, D / 32]      d = amax / 127,            x = d q
    Q4_0   u8 [Hkv, D / 2], f16 [Hkv, D / 32]    d = x of largest |x| / -8, x = d (q - 8)

Byte i of a Q4_0 head holds the number 2i in its low and 2i + 1 in its high bits. d is rounded to f16 after the codes
were made with it, as ggml does it. Of equals with opposite signs the positive number is the largest.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

Q4_0, Q8_0 = 2, 8
BLOCK = 32


@dataclass(frozen=True, slots=True)
class BlockCells:
    """A layer's K or V in blocks, in place of floats [context, Hkv, D]. data: uint8 [context, cell bytes]."""

    data: Tensor
    type_id: int
    num_kv_heads: int
    head_dim: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.data.shape[0], self.num_kv_heads, self.head_dim

    def write(self, numbers: Tensor, *, position: int) -> None:
        """Cells of positions `position` and up. numbers: f32 [rows, Hkv, D], may be strided over rows."""
        write_cells(numbers, self.type_id, self.data[position : position + numbers.shape[0]])

    def read(self, start: int, stop: int, numbers: Tensor) -> None:
        """What the cells of these positions say, into numbers: f32 [stop - start, Hkv, D]."""
        read_cells(self.data[start:stop], self.type_id, numbers)


Cells = Tensor | BlockCells
"""A layer's K or V: f16 or f32 [context, Hkv, D], or blocks."""


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
    """numbers[r] = cells[r]. cells: uint8 [rows, cell bytes]; numbers: f32 [rows, Hkv, D], strided but for D."""
    rows, heads, head_dim = numbers.shape
    size = heads * head_dim if type_id == Q8_0 else heads * head_dim // 2
    codes = cells[:, :size].view(rows, heads, size // heads)
    if type_id == Q8_0:
        numbers.copy_(codes.view(torch.int8))
    else:
        pairs = numbers.view(rows, heads, head_dim // 2, 2)
        pairs[..., 0].copy_(codes & 15)
        pairs[..., 1].copy_(codes >> 4)
        numbers.sub_(8)
    scales = cells[:, size:].view(torch.float16).view(rows, heads, head_dim // BLOCK, 1)
    numbers.view(rows, heads, head_dim // BLOCK, BLOCK).mul_(scales)


def _inverse(scale: Tensor) -> Tensor:
    return torch.where(scale == 0, torch.zeros_like(scale), 1 / scale)
