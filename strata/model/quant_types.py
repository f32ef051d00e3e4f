"""The ggml tensor types: number, name and block geometry. Decides which of them this program computes with (those
that gguf-py 0.19 dequantizes); knows nothing of how a block is decoded."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuantType:
    """A row of ne0 elements is ne0 / block_elements blocks of block_bytes; ne0 is a multiple of block_elements."""

    type_id: int
    name: str
    block_elements: int
    block_bytes: int
    is_supported: bool

    def row_bytes(self, num_elements: int) -> int:
        """Bytes of one row; `num_elements` must be whole blocks."""
        assert num_elements % self.block_elements == 0, (self.name, num_elements)
        return num_elements // self.block_elements * self.block_bytes


# Numbers as in ggml.h; 4, 5, 31-33 and 36-38 were types that ggml removed, and no file may use them.
_SUPPORTED = (
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
)
# Sizes are known, so that a file that holds such a tensor can be listed; nothing here computes with them.
_KNOWN_ONLY = (
    (9, "Q8_1", 32, 40),
    (15, "Q8_K", 256, 292),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (41, "Q1_0", 128, 18),
    (42, "Q2_0", 64, 18),
)

QUANT_TYPES: dict[int, QuantType] = {
    row[0]: QuantType(*row, is_supported)
    for rows, is_supported in ((_SUPPORTED, True), (_KNOWN_ONLY, False))
    for row in rows
}

F32 = QUANT_TYPES[0]


def supported_names() -> str:
    """The types this program computes with, for an error message."""
    return ", ".join(kind.name for kind in QUANT_TYPES.values() if kind.is_supported)
