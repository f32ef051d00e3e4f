"""The arithmetic that the world's model and its oracle share, and nothing else that they do."""

import struct
from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

FIRST_CELL = 0x5EED
"""What stands before cell 0 of layer 0; one more for each layer, so that no two layers hold equal cells."""

_WORD = 0xFFFF_FFFF
_FACTOR = 0x9E37_79B1


@lru_cache(maxsize=512)
def chain(before: int, tokens: bytes) -> bytes:
    """int32 tokens -> the cells that follow a cell of `before`: each a hash of its token and of the cell before it,

        cell k = cell k-1 * F + token + 1 = F^k * before + what it would be behind a cell of 0

    which holds for all k at once in one long integer, 64 bits a cell: no product of 32 bits and sum reaches the next
    cell's."""
    num_cells = len(tokens) // 4
    powers, words = _powers(num_cells)
    cells = (powers * before + _behind_zero(tokens)) & words
    return memoryview(cells.to_bytes(8 * num_cells, "little")).cast("I")[::2].tobytes()


@lru_cache(maxsize=512)
def _behind_zero(tokens: bytes) -> int:
    cell = 0
    ids = struct.unpack(f"<{len(tokens) // 4}i", tokens)
    return _as_one([cell := (cell * _FACTOR + token + 1) & _WORD for token in ids])


@lru_cache(maxsize=512)
def _powers(num_cells: int) -> tuple[int, int]:
    """F^1 to F^num_cells, and what cuts each cell to its 32 bits."""
    power = 1
    powers = [power := power * _FACTOR & _WORD for _ in range(num_cells)]
    return _as_one(powers), _as_one([_WORD] * num_cells)


def _as_one(cells: Sequence[int]) -> int:
    return int.from_bytes(struct.pack(f"<{len(cells)}Q", *cells), "little")


def pack_ids(ids: tuple[int, ...]) -> bytes:
    """As they lie in a buffer of tokens."""
    return struct.pack(f"<{len(ids)}i", *ids)


@lru_cache(maxsize=4096)
def mix(mark: int, program: str, layer: int) -> int:
    """The mark after `program` of `layer`."""
    return crc32(f"{program} {layer}".encode(), mark)


def last_cell(cells: bytes) -> int:
    return int(struct.unpack("<I", cells[-4:])[0])


def draft_rows(rows: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """What a drafter takes in: each hidden row with the token behind it."""
    return [(row * _FACTOR + token + 1) & _WORD for row, token in zip(rows, tokens, strict=True)]


def draft_cells(rows: Sequence[int], position: int) -> bytes:
    """The drafter's cells from `position` on."""
    words = [(row + _FACTOR * place) & _WORD for place, row in enumerate(rows, position)]
    return struct.pack(f"<{len(words)}I", *words)


def likelihood(mark: int) -> float:
    """What a drafter says of its draft: a quarter, a half, three quarters or nothing."""
    return (mark >> 8) % 4 / 4
