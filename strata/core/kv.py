"""How K and V lie in memory. One extent a layer: the cell of every position for K, then for V.

    K cells [context] | pad to 16 B | V cells [context]

K holds roped, normed keys, V raw values. A cell is what one position takes: all heads, in floats or in blocks of 32
numbers with a scale (`kernels/reference/kv_cells.py` has the bytes of a cell, the same on every body). A cell is one
run of bytes in every format, so whoever moves positions about needs to know lengths only.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from strata.core.extent import Extent
from strata.core.units import align_up

BLOCK_NUMBERS = 32
VALUES_ALIGNMENT_BYTES = 16
"""What a card's wide loads ask of an address."""


class CellType(IntEnum):
    """Numbers as ggml has them."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q8_0 = 8

    @property
    def is_blocks(self) -> bool:
        return self in (CellType.Q4_0, CellType.Q8_0)

    @property
    def bytes_per_32(self) -> int:
        return {CellType.F32: 128, CellType.F16: 64, CellType.Q4_0: 18, CellType.Q8_0: 34}[self]


class KvFormat(StrEnum):
    """`q8_0` is another name of `int8`."""

    F16 = "f16"
    F32 = "f32"
    INT8 = "int8"
    Q4_0 = "q4_0"
    K8V4 = "k8v4"

    @classmethod
    def _missing_(cls, value: object) -> "KvFormat | None":
        return cls.INT8 if value == "q8_0" else None

    @property
    def key_type(self) -> CellType:
        return _TYPES[self][0]

    @property
    def value_type(self) -> CellType:
        return _TYPES[self][1]

    def fits(self, *, head_dim: int) -> bool:
        """Blocks never cross heads, so a head must be whole blocks."""
        return not (self.key_type.is_blocks or self.value_type.is_blocks) or head_dim % BLOCK_NUMBERS == 0


_TYPES = {
    KvFormat.F16: (CellType.F16, CellType.F16),
    KvFormat.F32: (CellType.F32, CellType.F32),
    KvFormat.INT8: (CellType.Q8_0, CellType.Q8_0),
    KvFormat.Q4_0: (CellType.Q4_0, CellType.Q4_0),
    KvFormat.K8V4: (CellType.Q8_0, CellType.Q4_0),
}


@dataclass(frozen=True, slots=True)
class KvLayout:
    """Of one layer: K of position p lies at p * key_bytes, V at values_start_bytes + p * value_bytes."""

    key_bytes: int
    value_bytes: int
    values_start_bytes: int
    size_bytes: int

    def cells(self, layer: Extent, *, start: int, end: int) -> tuple[Extent, Extent]:
        """Where K and V of positions [start, end) lie in a layer's extent."""
        values = self.values_start_bytes + start * self.value_bytes
        return (
            layer.part(offset_bytes=start * self.key_bytes, size_bytes=(end - start) * self.key_bytes),
            layer.part(offset_bytes=values, size_bytes=(end - start) * self.value_bytes),
        )

    @property
    def position_bytes(self) -> int:
        """K and V of one position."""
        return self.key_bytes + self.value_bytes


def kv_layout(*, kv_format: KvFormat, context_tokens: int, num_kv_heads: int, head_dim: int) -> KvLayout:
    assert kv_format.fits(head_dim=head_dim), (kv_format, head_dim)
    numbers = num_kv_heads * head_dim
    key_bytes, value_bytes = (
        numbers * kind.bytes_per_32 // BLOCK_NUMBERS for kind in (kv_format.key_type, kv_format.value_type)
    )
    values_start_bytes = align_up(context_tokens * key_bytes, VALUES_ALIGNMENT_BYTES)
    return KvLayout(key_bytes, value_bytes, values_start_bytes, values_start_bytes + context_tokens * value_bytes)
