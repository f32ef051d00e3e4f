"""Which types the kernels read, and how large a matrix is in the form that they read it in: pure arithmetic.

`packing.py` has the picture of the packed form and makes it. What is here needs neither torch nor numpy, so whoever
plans a card can ask for sizes without loading what computes.
"""

from dataclasses import dataclass

F32, F16, Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_XS, BF16, MXFP4 = 0, 1, 2, 3, 8, 12, 13, 14, 23, 30, 39
IQ2_XS, IQ3_XXS = 17, 18
FLOAT_TYPES = (F32, F16, BF16)
GRID_TYPES = (IQ2_XS, IQ3_XXS)


@dataclass(frozen=True, slots=True)
class Format:
    """Where the fields of a file block lie: (first byte, bytes). `block` weights, `size_bytes` a block."""

    block: int
    size_bytes: int
    codes: tuple[int, int]
    scales: tuple[int, int]
    high: tuple[int, int] | None = None
    tail: tuple[int, int] | None = None


FORMATS = {
    Q4_0: Format(32, 18, codes=(2, 16), scales=(0, 2)),
    Q4_1: Format(32, 20, codes=(4, 16), scales=(0, 4)),
    Q8_0: Format(32, 34, codes=(2, 32), scales=(0, 2)),
    Q4_K: Format(256, 144, codes=(16, 128), scales=(0, 16)),
    Q5_K: Format(256, 176, codes=(48, 128), scales=(0, 16), high=(16, 32)),
    Q6_K: Format(256, 210, codes=(0, 128), scales=(192, 16), high=(128, 64), tail=(208, 2)),
    IQ4_XS: Format(256, 136, codes=(8, 128), scales=(0, 8)),
    MXFP4: Format(32, 17, codes=(1, 16), scales=(0, 1)),
    IQ2_XS: Format(256, 74, codes=(2, 64), scales=(66, 8), tail=(0, 2)),
    IQ3_XXS: Format(256, 98, codes=(2, 64), scales=(66, 32), tail=(0, 2)),
}
PACKED_TYPES = tuple(FORMATS)


def card_type(type_id: int) -> int:
    """The type that kernels are told for matrices of a file's type: itself, or F16 where no kernel reads it packed."""
    return type_id if type_id in FORMATS or type_id in FLOAT_TYPES else F16


def packed_bytes(type_id: int, *, rows: int, columns: int) -> int:
    """Bytes of a packed matrix: those of the file form, but for types that become F16. `columns` are whole blocks."""
    if type_id not in FORMATS:
        return rows * columns * (4 if type_id == F32 else 2)
    form = FORMATS[type_id]
    assert columns % form.block == 0, (type_id, columns)
    return rows * columns // form.block * form.size_bytes


def planes(type_id: int, *, columns: int) -> tuple[tuple[int, int], ...]:
    """(n, width) of each plane of a packed matrix [rows, columns], in order: the plane is [n, rows, width] bytes."""
    if type_id not in FORMATS:
        return ((1, packed_bytes(type_id, rows=1, columns=columns)),)
    form = FORMATS[type_id]
    num_blocks = columns // form.block
    whole_rows = ((1, span[1] * num_blocks) for span in (form.codes, form.high) if span)
    by_block = ((num_blocks, span[1]) for span in (form.scales, form.tail) if span)
    return (*whole_rows, *by_block)


def scales_bytes(type_id: int, *, rows: int, columns: int) -> tuple[int, int]:
    """(first byte, bytes) of the scales plane of a packed matrix."""
    form = FORMATS[type_id]
    num_blocks = rows * columns // form.block
    return (form.codes[1] + (form.high[1] if form.high else 0)) * num_blocks, form.scales[1] * num_blocks
