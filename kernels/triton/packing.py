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
larger than its file form (`formats.card_type`). A digest of a blob on the card covers the packed form. No triton, no
torch.
"""

from functools import cache

import gguf
import numpy as np
from numpy.typing import NDArray

from kernels.triton.formats import FLOAT_TYPES, FORMATS, GRID_TYPES, Q4_K, Q5_K, Q6_K, Q8_0, Format, planes

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]

CACHED_BYTES = 64 * 1024


@cache
def grid_table() -> NDArray[np.uint32]:
    """What the indices of GRID_TYPES mean, four values a word: 256 words of IQ3_XXS, then 512 pairs of IQ2_XS."""
    grids = []
    for quant in (gguf.quants.IQ3_XXS, gguf.quants.IQ2_XS):
        quant.init_grid()
        assert quant.grid is not None
        grids.append(quant.grid.astype(np.uint8).reshape(-1))
    return np.concatenate(grids).view("<u4")


def pack(data: Bytes, type_id: int, *, rows: int, columns: int) -> Bytes:
    """data: uint8, one matrix in file form, [rows, columns] weights -> the packed form, `packed_bytes` of it.

    ValueError where a weight of a type that becomes F16 is not finite there."""
    if type_id in FLOAT_TYPES:
        return data.copy()
    if type_id not in FORMATS:
        return _as_half(data, type_id)
    form, blocks = _blocks(data, type_id, rows, columns)
    words, high = _code_planes(blocks, type_id, form)
    scales = _field(blocks, form.scales)
    assert scales is not None
    if type_id in (Q4_K, Q5_K):
        scales = _pack_six_bits(scales)
    tail = _field(blocks, form.tail)
    planes = [words, high, _by_column(scales, rows), None if tail is None else _by_column(tail, rows)]
    return np.concatenate([plane.reshape(-1).view(np.uint8) for plane in planes if plane is not None])


def pack_rows(
    data: Bytes, type_id: int, target: Bytes, *, rows: int, columns: int, first_row: int, num_rows: int
) -> None:
    """Packs `num_rows` rows of a matrix, from `first_row` on, to where they lie in the packed form of all `rows`.

    data: uint8, those rows in file form; target: uint8, `packed_bytes` of the whole matrix. Several threads may pack
    rows of one matrix at once. ValueError as `pack`."""
    packed = pack(data, type_id, rows=num_rows, columns=columns)
    start = 0
    for count, width in planes(type_id, columns=columns):
        end = start + count * width
        part = packed[start * num_rows : end * num_rows].reshape(count, num_rows, width)
        target[start * rows : end * rows].reshape(count, rows, width)[:, first_row : first_row + num_rows] = part
        start = end


def unpack(data: Bytes, type_id: int, *, rows: int, columns: int) -> Bytes:
    """The inverse of `pack`, bit for bit."""
    if type_id in FLOAT_TYPES:
        return data.copy()
    form = FORMATS[type_id]
    num_blocks = rows * columns // form.block
    assert data.size == num_blocks * form.size_bytes, (type_id, data.size, rows, columns)
    widths = [span[1] if span else 0 for span in (form.codes, form.high, form.scales, form.tail)]
    ends = np.cumsum([width * num_blocks for width in widths])
    words, high, scales, tail = (plane.reshape(num_blocks, -1) for plane in np.split(data, ends[:-1]))
    blocks = np.empty((num_blocks, form.size_bytes), np.uint8)
    scales = _by_column(scales, columns // form.block)
    tail = _by_column(tail, columns // form.block) if form.tail else tail
    if type_id in (Q4_K, Q5_K):
        scales = _unpack_six_bits(scales)
    for span, field in ((form.scales, scales), (form.tail, tail)):
        if span:
            blocks[:, span[0] : span[0] + span[1]] = field
    _put_file_codes(blocks, type_id, form, _from_words(words, high, type_id, form))
    return blocks.reshape(-1)


def _as_half(data: Bytes, type_id: int) -> Bytes:
    kind = gguf.GGMLQuantizationType(type_id)
    with np.errstate(over="ignore"):
        weights = gguf.quants.dequantize(data, kind).astype(np.float16)
    if not np.isfinite(weights).all():
        raise ValueError(f"a matrix of type {kind.name} has weights beyond 65,504, the largest of F16")
    return weights.view(np.uint8).reshape(-1)


def _blocks(data: Bytes, type_id: int, rows: int, columns: int) -> tuple[Format, Bytes]:
    form = FORMATS[type_id]
    assert columns % form.block == 0, (type_id, columns)
    assert data.size == rows * columns // form.block * form.size_bytes, (type_id, data.size, rows, columns)
    return form, data.reshape(-1, form.size_bytes)


def _by_column(plane: Bytes, count: int) -> Bytes:
    """[count, n, bytes] -> [n, count, bytes], each flattened to [count * n, bytes]. Its own inverse."""
    width = plane.shape[1]
    return plane.reshape(count, -1, width).transpose(1, 0, 2).reshape(-1, width)


def _field(blocks: Bytes, span: tuple[int, int] | None) -> Bytes | None:
    return None if span is None else np.ascontiguousarray(blocks[:, span[0] : span[0] + span[1]])


# --- codes: file order <-> weight order --------------------------------------------------------------------------


def _nibble_order(type_id: int) -> int:
    """Bytes whose low nibbles come first, in weight order, before their high nibbles."""
    return {Q4_K: 32, Q5_K: 32, Q6_K: 64}.get(type_id, 16)


def _file_high(blocks: Bytes, type_id: int, span: tuple[int, int]) -> Bytes:
    """Bits above the nibble, in weight order: [blocks, 256]."""
    raw = blocks[:, span[0] : span[0] + span[1]]
    if type_id == Q5_K:
        shifts = np.arange(8, dtype=np.uint8)[None, :, None]
        return ((raw[:, None, :] >> shifts) & 1).reshape(len(blocks), 256).astype(np.uint8)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[None, None, :, None]
    return ((raw.reshape(-1, 2, 1, 32) >> shifts) & 3).reshape(len(blocks), 256).astype(np.uint8)


def _put_file_codes(blocks: Bytes, type_id: int, form: Format, codes: Bytes) -> None:
    start, size = form.codes
    if type_id in GRID_TYPES:
        blocks[:, start : start + size] = codes
        return
    if type_id == Q8_0:
        blocks[:, start : start + size] = codes ^ 0x80
        return
    halves = (codes & 15).reshape(len(blocks), -1, 2, _nibble_order(type_id))
    blocks[:, start : start + size] = (halves[:, :, 0] | halves[:, :, 1] << 4).reshape(len(blocks), size)
    if not form.high:
        return
    start, size = form.high
    if type_id == Q5_K:
        planes = (codes >> 4).reshape(-1, 8, 32) << np.arange(8, dtype=np.uint8)[None, :, None]
        blocks[:, start : start + size] = np.bitwise_or.reduce(planes, axis=1)
    else:
        planes = (codes >> 4).reshape(-1, 2, 4, 32) << np.arange(0, 8, 2, dtype=np.uint8)[None, None, :, None]
        blocks[:, start : start + size] = np.bitwise_or.reduce(planes, axis=2).reshape(-1, 64)


# --- codes: file <-> words ---------------------------------------------------------------------------------------


def _code_planes(blocks: Bytes, type_id: int, form: Format) -> tuple[Words, NDArray[np.unsignedinteger] | None]:
    """The planes `codes` and `high` of file blocks, in any shape."""
    raw = np.ascontiguousarray(blocks[:, form.codes[0] : form.codes[0] + form.codes[1]])
    if type_id in GRID_TYPES:
        return raw.view("<u4"), None
    if type_id == Q8_0:
        # Bytes of words 0 to 3 and 4 to 7 of a group: [groups, place, half, word] -> [groups, half, place, word]
        places = (raw.view("<u4") ^ np.uint32(0x80808080)).reshape(-1, 4, 2).transpose(0, 2, 1)
        return _transpose_bytes(places), None
    words = _nibble_words(raw, _nibble_order(type_id))
    if not form.high:
        return words, None
    above = _file_high(blocks, type_id, form.high).reshape(-1, 8, 4).transpose(0, 2, 1)
    if type_id == Q5_K:
        return words, np.bitwise_or.reduce(above << np.arange(8, dtype=np.uint8), axis=2)
    return words, np.bitwise_or.reduce(above.astype(np.uint16) << np.arange(0, 16, 2, dtype=np.uint16), axis=2)


def _nibble_words(raw: Bytes, num_low: int) -> Words:
    """uint32 [groups, 4]. Sixteen codes at a time and pieces that stay in a core's cache: most bytes of a model come
    through here at each start."""
    eight = raw.view("<u8").reshape(-1, num_low // 8)  # two places of four words each, low and high nibbles
    first, second = np.uint64(0x0F0F0F0F), np.uint64(0xF0F0F0F0)
    words = np.empty((eight.size // 2, 4), "<u4")
    step = CACHED_BYTES // num_low
    for start in range(0, len(eight), step):
        piece = eight[start : start + step]
        pairs = np.empty((len(piece), 2, num_low // 8), "<u4")  # two places, one in each nibble
        pairs[:, 0] = piece & first | piece >> np.uint64(28) & second
        pairs[:, 1] = piece >> np.uint64(4) & first | piece >> np.uint64(32) & second
        groups = start * num_low // 16
        words[groups : groups + piece.size // 2] = _transpose_bytes(pairs.reshape(-1, 4))
    return words


def _transpose_bytes(rows: Words) -> Words:
    """uint32 [..., 4] -> the same with byte i of word j where byte j of word i was."""
    even, odd = np.uint32(0x00FF00FF), np.uint32(0xFF00FF00)
    low, high = np.uint32(0x0000FFFF), np.uint32(0xFFFF0000)
    a, b, c, d = (rows[..., i] for i in range(4))
    ab_even, ab_odd = a & even | (b & even) << 8, a >> 8 & even | b & odd
    cd_even, cd_odd = c & even | (d & even) << 8, c >> 8 & even | d & odd
    out = np.empty(rows.shape, "<u4")
    out[..., 0], out[..., 2] = ab_even & low | cd_even << 16, ab_even >> 16 | cd_even & high
    out[..., 1], out[..., 3] = ab_odd & low | cd_odd << 16, ab_odd >> 16 | cd_odd & high
    return out


def _from_words(words: Bytes, high: Bytes, type_id: int, form: Format) -> Bytes:
    if type_id in GRID_TYPES:
        return words.reshape(-1, form.codes[1])
    if type_id == Q8_0:
        return words.reshape(-1, 8, 4).transpose(0, 2, 1).reshape(-1, form.block)
    packed = words.reshape(-1, 4, 4)
    places = np.stack([packed & 15, packed >> 4], axis=3).reshape(-1, 4, 8)
    if type_id == Q5_K:
        places = places | ((high.reshape(-1, 4, 1) >> np.arange(8, dtype=np.uint8)) & 1) << 4
    elif type_id == Q6_K:
        bits = high.reshape(-1).view("<u2").reshape(-1, 4, 1) >> np.arange(0, 16, 2, dtype=np.uint16)
        places = places | ((bits & 3) << 4).astype(np.uint8)
    return places.transpose(0, 2, 1).reshape(-1, form.block)


# --- the twelve bytes of Q4_K and Q5_K ---------------------------------------------------------------------------


def _pack_six_bits(scales: Bytes) -> Bytes:
    """[blocks, 16] of the file (d, dmin, 12 B) -> [blocks, 16] packed: one rule for all eight sub-blocks."""
    s = scales[:, 4:]
    first, second, third = s[:, :4], s[:, 4:8], s[:, 8:]
    sc = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], axis=1)
    mn = np.concatenate([second & 63, (third >> 4) | (second >> 6) << 4], axis=1)
    nibbles = sc >> 4 | (mn >> 4) << 2
    return np.concatenate([scales[:, :4], (sc & 15) | (mn & 15) << 4, nibbles[:, 0::2] | nibbles[:, 1::2] << 4], axis=1)


def _unpack_six_bits(scales: Bytes) -> Bytes:
    low, high = scales[:, 4:12], scales[:, 12:]
    nibbles = np.stack([high & 15, high >> 4], axis=2).reshape(-1, 8)
    sc = (low & 15) | (nibbles & 3) << 4
    mn = low >> 4 | (nibbles >> 2) << 4
    first = sc[:, :4] | (sc[:, 4:] >> 4) << 6
    second = mn[:, :4] | (mn[:, 4:] >> 4) << 6
    third = (sc[:, 4:] & 15) | (mn[:, 4:] & 15) << 4
    return np.concatenate([scales[:, :4], first, second, third], axis=1)
