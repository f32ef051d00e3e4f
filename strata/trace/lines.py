"""One entry of a command trace as one line, and back. `docs/traces.md` says what every key means.

    extent            [place, offset, size]
    access            [place, offset, size, owner, content or null]
    read of a table   version

Read back, a launch has `ScalarArgs`: what a program would need beyond them is in no trace.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from strata.core.commands import (
    MAX_COPY_GROUP,
    Access,
    Command,
    Copy,
    CopyPair,
    Digest,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Record,
    Stream,
    TableRead,
    TableVersion,
    Transfer,
    Unmap,
    Wait,
)
from strata.core.events import Failed, Reached
from strata.core.extent import Extent, HostExtent
from strata.core.programs import ProgramArgs
from strata.trace.entries import Asked, Captured, Entry, Faulted, FaultKind, HostAccess, Noted, Refused, ScalarArgs
from strata.trace.places import Places, Where, space_of

MAX_HOST_ACCESS_BYTES = 1 << 28
"""A replay makes so many bytes at once; far more than is staged for any launch."""

Line: TypeAlias = dict[str, Any]
Side = Access | HostExtent


def to_line(entry: Entry, places: Places) -> Line:
    match entry:
        case Faulted(command, kind):
            return {**_asked(command, places), "fault": kind.value}
        case Refused(asked, error, message):
            return {**_asked(asked, places), "refused": error, "message": message}
        case Reached(tag):
            return {"op": "reached", "tag": tag}
        case Failed(message, _, is_fatal):
            return {"op": "failed", "message": message} | ({"fatal": True} if is_fatal else {})
        case Noted(what, facts):
            return {"op": "note", "what": what, "facts": dict(facts)}
    return _asked(entry, places)


def _asked(asked: Asked, places: Places) -> Line:
    match asked:
        case Launch():
            return {"op": "launch", "stream": asked.stream.value, **_launch(asked, places)}
        case Copy(stream, pairs, publishes):
            line: Line = {"op": "copy", "stream": stream.value}
            line["pairs"] = [[_side(pair.source, places), _side(pair.target, places)] for pair in pairs]
            if publishes is not None:
                entries = [_access(entry, places) for entry in publishes.entries]
                line["publishes"] = {"version": publishes.version, "entries": entries}
            return line
        case GraphLaunch(stream, graph, table_version):
            return {"op": "graph_launch", "stream": stream.value, "graph": graph, "table": table_version}
        case Record(stream, event):
            return {"op": "record", "stream": stream.value, "event": event}
        case Wait(stream, event):
            return {"op": "wait", "stream": stream.value, "event": event}
        case Notify(stream, tag):
            return {"op": "notify", "stream": stream.value, "tag": tag}
        case Fill(stream, target, value):
            return {"op": "fill", "stream": stream.value, "to": _access(target, places), "value": value}
        case Digest(stream, source, host):
            return {"op": "digest", "stream": stream.value, "from": _access(source, places), "to": _where(host, places)}
        case Transfer(extent, giver, taker, in_place):
            line = {"op": "transfer", "at": _where(extent, places), "giver": giver, "taker": taker}
            return line | ({"in_place": True} if in_place else {})
        case Map(segment_index, extent):
            return {"op": "map", "segment": segment_index, "at": _where(extent, places)}
        case Unmap(extent):
            return {"op": "unmap", "at": _where(extent, places)}
        case Captured(name, launches):
            nodes = [{"stream": node.stream.value, **_launch(node, places)} for node in launches]
            return {"op": "capture", "graph": name, "launches": nodes}
        case HostAccess(extent, digest):
            return {"op": "host", "at": _where(extent, places)} | ({"digest": digest} if digest else {})


def _launch(launch: Launch, places: Places) -> Line:
    reads = [r.version if isinstance(r, TableRead) else _access(r, places) for r in launch.reads]
    line: Line = {"program": launch.program, "reads": reads, "writes": [_access(w, places) for w in launch.writes]}
    scalars = {name: getattr(launch.args, name, None) for name in ("layer", "rows", "experts")}
    args = {name: list(v) if isinstance(v, tuple) else v for name, v in scalars.items() if v is not None}
    return line | ({"args": args} if args else {})


def _where(where: Extent | HostExtent, places: Places) -> list[Any]:
    return list(places.name_of(where))


def _access(access: Access, places: Places) -> list[Any]:
    return [*places.name_of(access.extent), access.owner, access.content]


def _side(side: Side, places: Places) -> list[Any]:
    return _access(side, places) if isinstance(side, Access) else _where(side, places)


def from_line(line: Mapping[str, Any], places: Places, sizes: Mapping[str, int] | None = None) -> Entry:
    """`sizes`: the bytes of each space, None where they are not known. What is asked for lies within them, unless the
    device refused it. Raises ValueError for what is no entry."""
    try:
        return _Reader(places, None if "refused" in line else sizes).entry(dict(line))
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"a key is missing or has a value of another kind: {error!r}") from error


class _Reader:
    def __init__(self, places: Places, sizes: Mapping[str, int] | None) -> None:
        self._places, self._sizes = places, sizes

    def entry(self, line: Line) -> Entry:
        op = line.pop("op")
        match op:
            case "reached":
                return Reached(_text(line["tag"]))
            case "failed":
                return Failed(_text(line["message"]), None, is_fatal=_truth(line.get("fatal", False)))
            case "note":
                return Noted(_text(line["what"]), dict(line["facts"]))
        readers: dict[str, Callable[[Line], Asked]] = {
            "map": lambda a: Map(_number(a["segment"]), self.extent(a["at"])),
            "unmap": lambda a: Unmap(self.extent(a["at"])),
            "transfer": self.transfer,
            "copy": self.copy,
            "fill": lambda a: Fill(Stream(a["stream"]), self.access(a["to"]), _number(a["value"], most=255)),
            "digest": lambda a: Digest(Stream(a["stream"]), self.access(a["from"]), self.host(a["to"], size_bytes=8)),
            "record": lambda a: Record(Stream(a["stream"]), _text(a["event"])),
            "wait": lambda a: Wait(Stream(a["stream"]), _text(a["event"])),
            "launch": self.launch,
            "graph_launch": lambda a: GraphLaunch(Stream(a["stream"]), _text(a["graph"]), _number(a["table"])),
            "notify": lambda a: Notify(Stream(a["stream"]), _text(a["tag"])),
            "capture": lambda a: Captured(_text(a["graph"]), tuple(map(self.launch, _some(a["launches"])))),
            "host": self.host_access,
        }
        if op not in readers:
            raise ValueError(f"op={op!r} is none of {', '.join(readers)}, reached, failed, note")
        asked = readers[op](line)
        if "fault" in line:
            if isinstance(asked, (Captured, HostAccess)):
                raise ValueError(f"op={op} cannot be planted to fail")
            return Faulted(asked, FaultKind(line["fault"]))
        if "refused" in line:
            return Refused(asked, _text(line["refused"]), _text(line["message"]))
        return asked

    def host_access(self, line: Line) -> HostAccess:
        where = self.host(line["at"])
        if self._sizes is not None and where.size_bytes > MAX_HOST_ACCESS_BYTES:
            raise ValueError(f"the host asks for {where.size_bytes:,} B at once, more than {MAX_HOST_ACCESS_BYTES:,} B")
        return HostAccess(where, _digest(line.get("digest", "")))

    def transfer(self, line: Line) -> Command:
        in_place = _truth(line.get("in_place", False))
        return Transfer(self.extent(line["at"]), _text(line["giver"]), _text(line["taker"]), in_place)

    def copy(self, line: Line) -> Command:
        pairs = tuple(self.pair(*pair) for pair in line["pairs"])
        if not 1 <= len(pairs) <= MAX_COPY_GROUP:
            raise ValueError(f"a group of {len(pairs)} copies; 1 to {MAX_COPY_GROUP} are allowed")
        publishes = None
        if "publishes" in line:
            entries = tuple(map(self.access, line["publishes"]["entries"]))
            publishes = TableVersion(_number(line["publishes"]["version"]), entries)
        return Copy(Stream(line["stream"]), pairs, publishes)

    def pair(self, source: Sequence[Any], target: Sequence[Any]) -> CopyPair:
        if {len(source), len(target)} != {3, 5} or source[2] != target[2]:
            raise ValueError("a copy has one side on the host, and both sides have one size")
        if len(source) == 3:
            return CopyPair(self.host(source), self.access(target))
        return CopyPair(self.access(source), self.host(target))

    def launch(self, line: Line) -> Launch:
        reads = tuple(TableRead(_number(r)) if isinstance(r, int) else self.access(r) for r in line["reads"])
        writes = tuple(map(self.access, line["writes"]))
        given = dict(line.get("args", {}))
        if "experts" in given:
            given["experts"] = tuple(map(_number, given["experts"]))
        # A replay's programs are made for what a trace has; the device does not look inside.
        args = cast(ProgramArgs, ScalarArgs(**given))
        return Launch(Stream(line["stream"]), _text(line["program"]), args, reads, writes)

    def access(self, value: Sequence[Any]) -> Access:
        place, offset_bytes, size_bytes, owner, content = value
        extent = self.extent((place, offset_bytes, size_bytes))
        return Access(extent, _text(owner), None if content is None else _text(content))

    def _find(self, name: str, offset_bytes: int, size_bytes: int) -> Where:
        where = self._places.find(name, offset_bytes, size_bytes)
        if self._sizes is not None and where.end_bytes > self._sizes[space_of(where)]:
            raise ValueError(
                f"bytes [{where.offset_bytes}, {where.end_bytes}) of {space_of(where)}, which has "
                f"{self._sizes[space_of(where)]:,} B"
            )
        return where

    def extent(self, value: Sequence[Any]) -> Extent:
        where = self._find(*value)
        if not isinstance(where, Extent):
            raise ValueError(f"{value[0]!r} is host memory, the arena is meant")
        return where

    def host(self, value: Sequence[Any], *, size_bytes: int | None = None) -> HostExtent:
        where = self._find(*value)
        if not isinstance(where, HostExtent):
            raise ValueError(f"{value[0]!r} is in the arena, host memory is meant")
        if size_bytes is not None and where.size_bytes != size_bytes:
            raise ValueError(f"{where.size_bytes} B where {size_bytes} B are needed")
        return where


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _digest(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch("([0-9a-f]{16})?", value) is None:
        raise ValueError(f"{value!r} is no digest of 16 hex digits")
    return value


def _some(values: list[Line]) -> list[Line]:
    if not values:
        raise ValueError("a list that needs one entry at least is empty")
    return values


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _number(value: object, *, most: int = 2**63) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no number from 0 to {most}")
    return value
