"""A command trace as a file: everything that one device was asked for, by name.

    {"device":{...},"kind":"commands","note":"...","origin":{...},"places":[...],"serving":{...},"skipped":0,"v":1}
    {"at":["arena",0,16384],"op":"map","segment":0}
    ...
    {"sha256":"..."}

`read_trace` accepts exactly what `write_trace` writes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from strata.core.extent import HostSpace
from strata.device import DeviceDescription
from strata.trace.entries import Entry
from strata.trace.jsonl import TraceError, canonical, seal, unseal
from strata.trace.lines import from_line, to_line
from strata.trace.places import ARENA, Place, Places, make_where, space_of

KIND = "commands"
MAX_SEGMENTS = 1 << 20
MAX_STAGING_BYTES = 1 << 30
"""Beyond any card there is; a file that says more would only exhaust the host."""


@dataclass(frozen=True, slots=True)
class CardSizes:
    """What a device needs to be made again; where its addresses lie is its own affair."""

    arena_bytes: int
    segment_bytes: int
    pack_bytes: int
    staging_bytes: int
    behind_bytes: int = 0
    parked_bytes: int = 0

    def of_spaces(self) -> dict[str, int]:
        """The bytes of each space that a place can be in."""
        return {
            ARENA: self.arena_bytes + self.behind_bytes,
            HostSpace.PACK: self.pack_bytes,
            HostSpace.STAGING: self.staging_bytes,
            HostSpace.PARKED: self.parked_bytes,
        }


def sizes_of(description: DeviceDescription) -> CardSizes:
    return CardSizes(
        description.arena_bytes,
        description.segment_bytes,
        description.pack_bytes,
        description.staging_bytes,
        description.behind_bytes,
        description.parked_bytes,
    )


@dataclass(frozen=True, slots=True)
class CommandTrace:
    """`serving`: what was configured, `origin`: where the trace comes from; plain JSON values both. `skipped`: entries
    before the first one here, of which the first entries give the state that they led to (`prelude.py`)."""

    sizes: CardSizes
    places: Places
    entries: tuple[Entry, ...]
    serving: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    skipped: int = 0


def write_trace(trace: CommandTrace) -> str:
    places = [[place.name, space_of(place.where), *_span(place)] for place in trace.places.rows]
    head = {
        "kind": KIND,
        "device": asdict(trace.sizes),
        "places": places,
        "serving": dict(trace.serving),
        "origin": dict(trace.origin),
        "note": trace.note,
        "skipped": trace.skipped,
    }
    return seal(head, (to_line(entry, trace.places) for entry in trace.entries))


def read_trace(text: str) -> CommandTrace:
    """Raises TraceError, which names the line."""
    head, lines = unseal(text, kind=KIND)
    try:
        places = Places([Place(name, make_where(*where)) for name, *where in head["places"]])
        trace = CommandTrace(
            CardSizes(**head["device"]), places, (), head["serving"], head["origin"], head["note"], head["skipped"]
        )
        _check_sizes(trace.sizes)
        _check_head(trace)
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise TraceError(f"no trace of commands: its head is wrong: {error}") from error
    entries: list[Entry] = []
    sizes = trace.sizes.of_spaces()
    for number, line in enumerate(lines, 2):
        try:
            entry = from_line(line, places, sizes)
        except ValueError as error:
            raise TraceError(f"no trace of commands: line {number}: {error}") from error
        if canonical(to_line(entry, places)) != canonical(line):
            raise TraceError(f"no trace of commands: line {number} has keys or names that no recorder writes")
        entries.append(entry)
    return CommandTrace(trace.sizes, places, tuple(entries), trace.serving, trace.origin, trace.note, trace.skipped)


def _span(place: Place) -> tuple[int, int]:
    return place.where.offset_bytes, place.where.size_bytes


def _check_sizes(sizes: CardSizes) -> None:
    if not all(type(value) is int and value >= 0 for value in asdict(sizes).values()):
        raise ValueError(f"{sizes} are no sizes")
    if not sizes.segment_bytes or not sizes.arena_bytes or sizes.arena_bytes % sizes.segment_bytes:
        raise ValueError(f"arena_bytes={sizes.arena_bytes} is not whole segments of {sizes.segment_bytes} B")
    if sizes.behind_bytes % sizes.segment_bytes:
        raise ValueError(f"behind_bytes={sizes.behind_bytes} is not whole segments of {sizes.segment_bytes} B")
    if (sizes.arena_bytes + sizes.behind_bytes) // sizes.segment_bytes > MAX_SEGMENTS:
        raise ValueError(f"a card of more than {MAX_SEGMENTS:,} segments: {sizes}")
    if sizes.staging_bytes > MAX_STAGING_BYTES:
        raise ValueError(f"staging_bytes={sizes.staging_bytes:,} B, more than {MAX_STAGING_BYTES:,} B")


def _check_head(trace: CommandTrace) -> None:
    if not isinstance(trace.serving, dict) or not isinstance(trace.origin, dict):
        raise ValueError("serving and origin are objects")
    if not isinstance(trace.note, str) or type(trace.skipped) is not int or trace.skipped < 0:
        raise ValueError(f"note={trace.note!r} is a text, and skipped={trace.skipped!r} a natural number")
    sizes = trace.sizes.of_spaces()
    for place in trace.places.rows:
        if place.where.end_bytes > sizes[space_of(place.where)]:
            raise ValueError(f"place {place.name!r} ends beyond the {sizes[space_of(place.where)]:,} B of its space")
