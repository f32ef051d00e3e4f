"""A command trace for a trace viewer: the Trace Event Format (JSON) that chrome://tracing and Perfetto read.

One lane a stream and one for the host. A trace has no times, so time is the line of the file: line n is at n
microseconds and takes one. Arrows go from each record to the waits for it; owners' bytes are a counter; what was
planted or refused is an instant across all lanes.
"""

import json
from collections.abc import Iterator
from typing import Any

from strata.core.commands import Record, Stream, Wait
from strata.core.events import Failed, Reached
from strata.trace.card_state import CardState
from strata.trace.command_trace import CommandTrace
from strata.trace.entries import Captured, Entry, Faulted, FaultKind, HostAccess, Noted, Refused
from strata.trace.lines import to_line

HOST_LANE = "host"
LANES = (HOST_LANE, *(stream.value for stream in Stream))
PROCESS = 1
FIRST_LINE = 2

Row = dict[str, Any]


def chrome_text(trace: CommandTrace) -> str:
    rows = [*_names(), *_rows(trace)]
    other = {"note": trace.note, "origin": json.dumps(dict(trace.origin), sort_keys=True), "skipped": trace.skipped}
    whole = {"displayTimeUnit": "ms", "otherData": other, "traceEvents": rows}
    return json.dumps(whole, sort_keys=True, separators=(",", ":")) + "\n"


def _names() -> Iterator[Row]:
    yield {"ph": "M", "name": "process_name", "pid": PROCESS, "tid": 0, "args": {"name": "card"}}
    for lane, name in enumerate(LANES):
        yield {"ph": "M", "name": "thread_name", "pid": PROCESS, "tid": lane, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": PROCESS, "tid": lane, "args": {"sort_index": lane}}


def _rows(trace: CommandTrace) -> Iterator[Row]:
    state = CardState(trace.sizes)
    records: dict[str, Row] = {}
    owned: dict[str, int] = {}
    num_arrows = 0
    for line, entry in enumerate(trace.entries, FIRST_LINE):
        row = _row(trace, line, entry)
        yield row
        if isinstance(entry, Faulted | Refused | Failed):
            yield {**_at(row), "ph": "i", "s": "g", "name": row["name"], "cat": "fault"}
        if isinstance(entry, Record):
            records[entry.event] = row
        if isinstance(entry, Wait) and entry.event in records:
            num_arrows += 1
            arrow = {"cat": "order", "name": entry.event, "id": num_arrows}
            yield {**_at(records[entry.event]), **arrow, "ph": "s"}
            yield {**_at(row), **arrow, "ph": "f", "bp": "e"}
        state.apply(entry)
        now = _owned(state)
        if now != owned:
            owned = now
            yield {"ph": "C", "name": "bytes by owner", "pid": PROCESS, "tid": 0, "ts": line, "args": now}


def _at(row: Row) -> Row:
    return {"pid": row["pid"], "tid": row["tid"], "ts": row["ts"]}


def _row(trace: CommandTrace, line: int, entry: Entry) -> Row:
    args = to_line(entry, trace.places)
    op = args.pop("op")
    about = args.get("program") or args.get("graph") or args.get("event") or args.get("tag") or args.get("what") or ""
    lane = LANES.index(args.get("stream", HOST_LANE))
    return {
        "ph": "X",
        "name": f"{op} {about}".strip(),
        "cat": kind_of(entry),
        "pid": PROCESS,
        "tid": lane,
        "ts": line,
        "dur": 1,
        "args": args,
    }


def kind_of(entry: Entry) -> str:
    """A word for what an entry is about."""
    match entry:
        case Noted():
            return "note"
        case Reached() | Failed() | HostAccess():
            return "host"
        case Captured():
            return "graph"
        case Faulted(_, FaultKind()) | Refused():
            return "fault"
    return type(entry).__name__.lower()


def _owned(state: CardState) -> dict[str, int]:
    owned: dict[str, int] = {}
    for start, end, owner in state.owners:
        if owner:
            owned[owner] = owned.get(owner, 0) + end - start
    return owned
