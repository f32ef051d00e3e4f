# mypy: allow-untyped-calls
"""Packed form: the bytes of one quantized matrix, rearranged once at load so that a card reads them in wide words.

A ggml block mixes codes and scales and is 18, 34, 136, 176 or 210 bytes long, so its codes are almost never 16-byte
aligned. The packed form keeps every byte's information and the total size, and sorts it into planes, one after the
other:

    codes    4 bits a weight: u32 [rows, groups, 4], 8 bits: u32 [rows, groups, 8]      (a group = 32 weights of a row)
    high     Q5_K u8 [rows, groups, 4]; Q6_K u16 [rows, groups, 4]; else absent
    scales   [blocks of a row, rows, bytes of a block], so that the rows of a tile read neighbouring bytes. Of a block:
             Q4_0, Q8_0 f16 d; Q4_1 f16 d, f16 m; MXFP4 u8; Q6_K int8[16]; IQ4_XS f16 d, u16 scales_h, u8 scales_l[4]
             IQ3_XXS u32[8], four sign indices and a scale each; IQ2_XS u8[8], two scales each
             Q4_K, Q5_K f16 d, f16 dmin, u8 low[8], u32 high: low[s] = sc & 15 | (mn & 15) << 4,
             bits 4s..4s+3 of high = sc >> 4 | (mn >> 4) << 2
    tail     Q6_K, IQ3_XXS, IQ2_XS f16 d, [blocks of a row, rows]; else absent

Word j of a group holds, at place i, the code of weight (words in a group) * i + j. So the j of one place are neighbours
in x (a decode kernel reads x in 16-byte pieces), and [.., place, j] is the natural order (a prompt kernel needs no
shuffle). Bits of `high` for word j and place i: bit i (Q5_K), bits 2i, 2i+1 (Q6_K). Q8_0 codes are q + 128.

The codes of IQ3_XXS and IQ2_XS stay indices into a table of values (`grid_table`), u8 [rows, groups, 8] and u16 [rows,
groups, 4] as in the file. Float types stay as they are; every other type that gguf-py can read becomes F16, which is
larger than its file form (`formats.card_type`). A digest of a blob on the card covers the packed form.

Plain torch, on whichever device the bytes lie: a card packs a model about as fast as its link brings it, where threads
of numpy would wait for each other's interpreter.
"""

from functools import cache

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.triton.formats import FLOAT_TYPES, FORMATS, GRID_TYPES, Q4_K, Q5_K, Q6_K, Q8_0, Format, card_type, planes


@cache
def grid_table() -> NDArray[np.uint32]:
    """What the indices of GRID_TYPES mean, four values a word: 256 words of IQ3_XXS, then 512 pairs of IQ2_XS."""
    grids = []
    for quant in (gguf.quants.IQ3_XXS, gguf.quants.IQ2_XS):
        quant.init_grid()
        assert quant.grid is not None
        grids.append(quant.grid.astype(np.uint8).reshape(-1))
    return np.concatenate(grids).view("<u4")


def pack(data: Tensor, type_id: int, *, rows: int, columns: int) -> Tensor:
    """data: uint8, one matrix in file form, [rows, columns] weights -> the packed form, uint8 [packed_bytes] beside it.

    ValueError where a weight of a type that becomes F16 is not finite there."""
    if type_id in FLOAT_TYPES:
        return data
    if type_id not in FORMATS:
        return _as_half(data, type_id)
    form, blocks = _blocks(data, type_id, rows, columns)
    codes = _file_codes(blocks, type_id, form)  # [blocks, block] numbers, in weight order
    words, high = _to_words(codes, type_id)
    scales = _field(blocks, form.scales)
    assert scales is not None
    if type_id in (Q4_K, Q5_K):
        scales = _pack_six_bits(scales)
    tail = _field(blocks, form.tail)
    parts = [words, high, _by_column(scales, rows), None if tail is None else _by_column(tail, rows)]
    return torch.cat([part.reshape(-1) for part in parts if part is not None])


def pack_many(data: Tensor, type_id: int, *, rows: int, columns: int) -> Tensor:
    """data: uint8 [n, bytes], n matrices of one shape in file form -> uint8 [n, packed_bytes], for the launches of one.
    ValueError as `pack`."""
    count = len(data)
    packed = pack(data.reshape(-1), type_id, rows=count * rows, columns=columns)
    parts, start = [], 0
    for per_row, width in planes(card_type(type_id), columns=columns):
        end = start + per_row * width * count * rows
        parts.append(packed[start:end].view(per_row, count, rows * width).transpose(0, 1).reshape(count, -1))
        start = end
    return torch.cat(parts, dim=1)


def pack_rows(
    data: Tensor, type_id: int, target: Tensor, *, rows: int, columns: int, first_row: int, num_rows: int
) -> None:
    """Packs `num_rows` rows of a matrix, from `first_row` on, to where they lie in the packed form of all `rows`.

    data: uint8, those rows in file form; target: uint8, `packed_bytes` of the whole matrix, on any device. Several
    threads may pack rows of one matrix at once. ValueError as `pack`."""
    packed = pack(data, type_id, rows=num_rows, columns=columns)
    packed = packed.to(target.device)  # by way of memory of torch's own: a card may not copy across registered blocks
    if num_rows == rows:
        target.copy_(packed)
        return
    start = 0
    for count, width in planes(type_id, columns=columns):
        end = start + count * width
        part = packed[start * num_rows : end * num_rows].view(count, num_rows, width)
        target[start * rows : end * rows].view(count, rows, width)[:, first_row : first_row + num_rows] = part
        start = end


def _as_half(data: Tensor, type_id: int) -> Tensor:
    kind = gguf.GGMLQuantizationType(type_id)
    with np.errstate(over="ignore"):
        weights = gguf.quants.dequantize(data.cpu().numpy(), kind).astype(np.float16)
    if not np.isfinite(weights).all():
        raise ValueError(f"a matrix of type {kind.name} has weights beyond 65,504, the largest of F16")
    return torch.from_numpy(weights.view(np.uint8).reshape(-1)).to(data.device)


def _blocks(data: Tensor, type_id: int, rows: int, columns: int) -> tuple[Format, Tensor]:
    form = FORMATS[type_id]
    assert columns % form.block == 0, (type_id, columns)
    assert data.numel() == rows * columns // form.block * form.size_bytes, (type_id, data.shape, rows, columns)
    return form, data.view(-1, form.size_bytes)


def _by_column(plane: Tensor, rows: int) -> Tensor:
    """[rows * n, bytes] -> [n, rows, bytes]."""
    return plane.view(rows, -1, plane.shape[1]).transpose(0, 1)


def _field(blocks: Tensor, span: tuple[int, int] | None) -> Tensor | None:
    return None if span is None else blocks[:, span[0] : span[0] + span[1]].contiguous()


# --- codes: file order -> weight order ---------------------------------------------------------------------------


def _file_codes(blocks: Tensor, type_id: int, form: Format) -> Tensor:
    raw = blocks[:, form.codes[0] : form.codes[0] + form.codes[1]]
    if type_id in GRID_TYPES:
        return raw
    if type_id == Q8_0:
        return raw ^ 0x80
    num_low = {Q4_K: 32, Q5_K: 32, Q6_K: 64}.get(type_id, 16)  # bytes whose low nibbles come before their high ones
    piece = raw.reshape(len(blocks), -1, num_low)
    codes = torch.stack([piece & 15, piece >> 4], dim=2).view(len(blocks), form.block)
    if form.high:
        codes |= _file_high(blocks, type_id, form.high) << 4
    return codes


def _file_high(blocks: Tensor, type_id: int, span: tuple[int, int]) -> Tensor:
    """Bits above the nibble, in weight order: [blocks, 256]."""
    raw = blocks[:, span[0] : span[0] + span[1]]
    if type_id == Q5_K:
        return (raw[:, None, :] >> _range(raw, 8).view(1, 8, 1) & 1).reshape(len(blocks), 256)
    return (raw.reshape(len(blocks), 2, 1, 32) >> _range(raw, 4).mul_(2).view(1, 1, 4, 1) & 3).reshape(len(blocks), 256)


# --- codes: weight order -> words --------------------------------------------------------------------------------


def _to_words(codes: Tensor, type_id: int) -> tuple[Tensor, Tensor | None]:
    """Bytes of the planes `codes` and `high`."""
    if type_id in GRID_TYPES:
        return codes, None
    if type_id == Q8_0:
        return codes.reshape(-1, 4, 8).transpose(1, 2), None  # [groups, word, place]
    places = codes.view(-1, 8, 4).transpose(1, 2)
    low, above = places & 15, places >> 4
    words = low[:, :, 0::2] | low[:, :, 1::2] << 4
    if type_id == Q5_K:
        return words, _joined(above, bits=1)
    if type_id == Q6_K:
        return words, _joined(above.reshape(len(above), 4, 2, 4), bits=2)
    return words, None


def _joined(numbers: Tensor, *, bits: int) -> Tensor:
    """The last axis as one byte, its first number lowest."""
    shifted = numbers << _range(numbers, numbers.shape[-1]).mul_(bits)
    return shifted.sum(dim=-1, dtype=torch.uint8)  # no two have a bit in common


def _range(like: Tensor, end: int) -> Tensor:
    return torch.arange(end, dtype=torch.uint8, device=like.device)


# --- the twelve bytes of Q4_K and Q5_K ---------------------------------------------------------------------------


def _pack_six_bits(scales: Tensor) -> Tensor:
    """[blocks, 16] of the file (d, dmin, 12 B) -> [blocks, 16] packed: one rule for all eight sub-blocks."""
    first, second, third = scales[:, 4:8], scales[:, 8:12], scales[:, 12:]
    sc = torch.cat([first & 63, third & 15 | first >> 6 << 4], dim=1)
    mn = torch.cat([second & 63, third >> 4 | second >> 6 << 4], dim=1)
    nibbles = sc >> 4 | mn >> 4 << 2
    return torch.cat([scales[:, :4], sc & 15 | (mn & 15) << 4, nibbles[:, 0::2] | nibbles[:, 1::2] << 4], dim=1)
