"""The inverse of `kernels.triton.packing.pack`, bit for bit, written on its own in numpy."""

import numpy as np
from numpy.typing import NDArray

from kernels.triton.formats import FLOAT_TYPES, FORMATS, GRID_TYPES, Q4_K, Q5_K, Q6_K, Q8_0, Format

Bytes = NDArray[np.uint8]


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


def _by_column(plane: Bytes, count: int) -> Bytes:
    """[count, n, bytes] -> [n, count, bytes], each flattened to [count * n, bytes]. Its own inverse."""
    width = plane.shape[1]
    return plane.reshape(count, -1, width).transpose(1, 0, 2).reshape(-1, width)


def _nibble_order(type_id: int) -> tuple[int, int]:
    """(bytes whose low nibbles come first, in weight order, before their high nibbles; weights they cover)."""
    return {Q4_K: (32, 64), Q5_K: (32, 64), Q6_K: (64, 128)}.get(type_id, (16, 32))


def _put_file_codes(blocks: Bytes, type_id: int, form: Format, codes: Bytes) -> None:
    start, size = form.codes
    if type_id in GRID_TYPES:
        blocks[:, start : start + size] = codes
        return
    if type_id == Q8_0:
        blocks[:, start : start + size] = codes ^ 0x80
        return
    halves = (codes & 15).reshape(len(blocks), -1, 2, _nibble_order(type_id)[0])
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


def _unpack_six_bits(scales: Bytes) -> Bytes:
    low, high = scales[:, 4:12], scales[:, 12:]
    nibbles = np.stack([high & 15, high >> 4], axis=2).reshape(-1, 8)
    sc = (low & 15) | (nibbles & 3) << 4
    mn = low >> 4 | (nibbles >> 2) << 4
    first = sc[:, :4] | (sc[:, 4:] >> 4) << 6
    second = mn[:, :4] | (mn[:, 4:] >> 4) << 6
    third = (sc[:, 4:] & 15) | (mn[:, 4:] & 15) << 4
    return np.concatenate([scales[:, :4], first, second, third], axis=1)
