"""The card's map as text: who owns which bytes. Pure: rows in, lines out.

offset       bytes        owner
0x00000000    32.1 MiB    weights (212 extents)       ###
0x02019000    22.5 MiB    kv (30 extents)             ##
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from strata.sizes import format_bytes

BAR_CHARS = 32

_NUMBERED = re.compile(r"[\s./:_-]*(?:\d+[\s./:_-]*)+$")


@dataclass(frozen=True, slots=True)
class OwnedBytes:
    """`owner` owns [offset, offset + size); "" is nobody."""

    owner: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MapLine:
    """Neighbours of one kind of owner (`kv 0` .. `kv 29` are `kv`), without a gap between them."""

    owner: str
    offset_bytes: int
    size_bytes: int
    num_extents: int


def merge_rows(rows: Iterable[OwnedBytes]) -> tuple[MapLine, ...]:
    """Rows by address, neighbours of one kind as one line. No byte is lost or counted twice."""
    lines: list[MapLine] = []
    for row in sorted(rows, key=lambda row: row.offset_bytes):
        owner = _NUMBERED.sub("", row.owner) or row.owner or "free"
        last = lines[-1] if lines else None
        if last is not None and last.owner == owner and last.offset_bytes + last.size_bytes == row.offset_bytes:
            lines[-1] = MapLine(owner, last.offset_bytes, last.size_bytes + row.size_bytes, last.num_extents + 1)
        else:
            lines.append(MapLine(owner, row.offset_bytes, row.size_bytes, 1))
    return tuple(lines)


def render_map(rows: Iterable[OwnedBytes]) -> Sequence[str]:
    """One line of text for each MapLine, the bar as long as its share of all bytes, a dot where that is nearly none.
    Rows of 0 bytes are left out."""
    lines = merge_rows(row for row in rows if row.size_bytes)
    total_bytes = max(1, sum(line.size_bytes for line in lines))
    return [_render(line, total_bytes) for line in lines]


def _render(line: MapLine, total_bytes: int) -> str:
    owner = line.owner if line.num_extents == 1 else f"{line.owner} ({line.num_extents} extents)"
    bar = "#" * round(BAR_CHARS * line.size_bytes / total_bytes) or "."
    return f"  0x{line.offset_bytes:08x}  {format_bytes(line.size_bytes):>10}  {owner:<36} {bar}".rstrip()
