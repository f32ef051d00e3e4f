"""How rows lie in the buffers of a pass, for the programs of a world: tokens side by side in front of hidden rows, then
marks; and what a program says that found other bytes than the model has.

    hidden   | id 0 | id 1 | ... | mark of row 0 | mark of row 1 | ...        of a chunk the last row alone has a mark
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sim.errors import TwinError
from strata.core.commands import Access
from strata.core.extent import Extent
from strata.core.programs import MAX_WINDOW_ROWS, PassBuffers
from strata.device import Memory

MARK = struct.Struct("<I")
HEADER = struct.Struct("<q")
CELL_BYTES = 4
_MARKS = [struct.Struct(f"<{num_marks}I") for num_marks in range(MAX_WINDOW_ROWS + 1)]


class WrongBytes(TwinError):
    """A program found other bytes than the model has."""


@dataclass(frozen=True, slots=True)
class Part:
    """A weight outside the cache: where it is read, and its bytes in the model."""

    access: Access
    data: bytes


def compare(memory: Memory, parts: Sequence[Part], program: str) -> None:
    for part in parts:
        if bytes(memory.read(part.access.extent)) != part.data:
            raise WrongBytes(f"{program}: {part.access.content} at {part.access.extent} has other bytes than the model")


extent_of = lru_cache(maxsize=1024)(Extent)
"""The same few extents are asked for in every launch."""


def rows_of(buffers: PassBuffers, extent: Extent, rows: int) -> Extent:
    return extent_of(extent.offset_bytes, rows * (extent.size_bytes // buffers.max_rows))


def num_marks(buffers: PassBuffers, rows: int) -> int:
    """A chunk is as wide as no window is, and nothing is sampled from its rows."""
    return rows if buffers.max_rows <= MAX_WINDOW_ROWS else 1


def marks_of(hidden: memoryview, buffers: PassBuffers, rows: int) -> tuple[int, ...]:
    return _MARKS[num_marks(buffers, rows)].unpack_from(hidden, rows * CELL_BYTES)


def set_marks(hidden: memoryview, rows: int, marks: Sequence[int]) -> None:
    _MARKS[len(marks)].pack_into(hidden, rows * CELL_BYTES, *marks)


def words_of(hidden: memoryview, rows: int) -> tuple[int, ...]:
    """What stands for the tokens of the rows."""
    return struct.unpack_from(f"<{rows}I", hidden, 0)


def ends_of(position: int, rows: int, num_marks: int) -> range:
    """Behind which position each mark stands: of each row, or of the last alone."""
    return range(position + rows - num_marks + 1, position + rows + 1)
