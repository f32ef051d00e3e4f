"""What went on in a trace, in as many columns as a picture has: which bytes copies wrote, what each stream was given,
and where requests began and failures fell. Equal neighbours are one run. Knows nothing of colours.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from strata.core.commands import Access, Copy, Stream
from strata.core.events import Failed
from strata.trace.command_trace import CommandTrace
from strata.trace.entries import Asked, Captured, Entry, Faulted, HostAccess, Noted, Refused

FAULT, COMPUTE, COPY, HOST, ORDER = "failure", "launch, graph", "copy, fill, digest", "host, transfer, map", "order"
KINDS = (FAULT, COMPUTE, COPY, HOST, ORDER)
"""What a column shows when several fall into it: the first of these."""

_KIND_OF = {
    "Launch": COMPUTE,
    "GraphLaunch": COMPUTE,
    "Captured": COMPUTE,
    "Copy": COPY,
    "Fill": COPY,
    "Digest": COPY,
    "Record": ORDER,
    "Wait": ORDER,
    "Notify": ORDER,
}

Run = tuple[int, int, str]
Cells = tuple[int, int, int, int]
"""First column, number of columns, first row, end row."""


@dataclass(frozen=True, slots=True)
class Mark:
    entry: int  # counted from 0
    words: str
    is_fault: bool


def lanes_of(trace: CommandTrace, *, columns: int) -> list[tuple[str, list[Run]]]:
    """(lane, its runs of columns), for the host and for every stream that was given anything."""
    ranks: dict[str, dict[int, int]] = {lane: {} for lane in ("host", *(stream.value for stream in Stream))}
    for at, entry in enumerate(trace.entries):
        if isinstance(entry, Noted):
            continue
        lane = getattr(_asked(entry), "stream", None)
        cells = ranks["host" if lane is None else lane.value]
        column = at * columns // len(trace.entries)
        cells[column] = min(cells.get(column, len(KINDS)), KINDS.index(_kind_of(entry)))
    return [(lane, list(_runs(cells))) for lane, cells in ranks.items() if cells]


def _runs(cells: dict[int, int]) -> Iterator[Run]:
    first: int | None = None
    before = -1
    for column, kind in sorted(cells.items()):
        if first is not None and (column != before + 1 or kind != cells[first]):
            yield first, before + 1, KINDS[cells[first]]
            first = None
        first = column if first is None else first
        before = column
    if first is not None:
        yield first, before + 1, KINDS[cells[first]]


def copied_cells(trace: CommandTrace, *, columns: int, rows: int) -> list[Cells]:
    """Where copies over the link wrote, on a grid; runs of rows of neighbouring columns are one."""
    range_bytes = trace.sizes.arena_bytes + trace.sizes.behind_bytes
    written: dict[int, set[int]] = {}
    for at, entry in enumerate(trace.entries):
        if isinstance(entry, Copy):
            for extent in (pair.target.extent for pair in entry.pairs if isinstance(pair.target, Access)):
                if extent.size_bytes:
                    low = extent.offset_bytes * rows // range_bytes
                    high = (extent.end_bytes - 1) * rows // range_bytes
                    written.setdefault(at * columns // len(trace.entries), set()).update(range(low, high + 1))
    open_runs: dict[tuple[int, int], int] = {}
    cells: list[Cells] = []
    for column in range(columns + 1):
        now = set(_spans(sorted(written.get(column, ()))))
        for span in [span for span in open_runs if span not in now]:
            first = open_runs.pop(span)
            cells.append((first, column - first, *span))
        for span in now:
            open_runs.setdefault(span, column)
    return sorted(cells)


def _spans(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first: int | None = None
    before = -1
    for value in numbers:
        if first is not None and value != before + 1:
            yield first, before + 1
            first = None
        first = value if first is None else first
        before = value
    if first is not None:
        yield first, before + 1


def marks_of(trace: CommandTrace) -> Iterator[Mark]:
    num_requests = 0
    for at, entry in enumerate(trace.entries):
        match entry:
            case Noted("decision", facts) if facts.get("do") == "begin":
                num_requests += 1
                tokens = f"{facts.get('fresh', 0)} new" + (f", {facts['shared']} shared" if "shared" in facts else "")
                yield Mark(at, f"request {num_requests}: {tokens}", False)
            case Noted("begin", facts):
                num_requests += 1
                yield Mark(at, f"request {num_requests}: {facts.get('prompt_tokens', 0)} tokens", False)
            case Noted("cut", facts):
                yield Mark(at, f"{facts.get('entries', 0):,} entries are cut off", False)
            case Faulted(_, kind):
                yield Mark(at, f"planted: {kind.value}", True)
            case Refused(_, error, _):
                yield Mark(at, error, True)
            case Failed(_, None) | Noted("failure", _):
                yield Mark(at, "failure reported", True)
            case _:
                pass


def _asked(entry: Entry) -> Asked | Entry:
    if isinstance(entry, Faulted):
        return entry.command
    return entry.asked if isinstance(entry, Refused) else entry


def _kind_of(entry: Entry) -> str:
    if isinstance(entry, Faulted | Refused | Failed):
        return FAULT
    assert isinstance(entry, Captured | HostAccess) or not isinstance(entry, Noted)
    return _KIND_OF.get(type(entry).__name__, HOST)
