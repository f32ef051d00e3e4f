"""Decision traces: one world as JSON Lines, canonical, with its own hash. They need neither seed nor generator, and run
through whatever the core is today.

    {"geometry":{...},"kind":"decisions","note":"...","v":1}
    {"do":"begin","fresh":300}
    ...
    {"sha256":"..."}                 of all lines above, each with its line end

Numbers and names only: no address, no slot and no time is in a trace.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any

from sim.world.decisions import Decision, from_json, to_json
from sim.world.driver import Driver
from sim.world.geometry import Delivery, Geometry

VERSION = 1


@dataclass(frozen=True, slots=True)
class Trace:
    """`note` says in words what the trace is kept for."""

    geometry: Geometry
    decisions: tuple[Decision, ...]
    note: str = ""


def write_trace(trace: Trace) -> str:
    head = {"v": VERSION, "kind": "decisions", "geometry": geometry_to_json(trace.geometry), "note": trace.note}
    lines = [_canonical(head), *(_canonical(to_json(decision)) for decision in trace.decisions)]
    return "".join(lines) + _canonical({"sha256": sha256("".join(lines).encode()).hexdigest()})


def read_trace(text: str) -> Trace:
    """Raises ValueError for anything that `write_trace` would not have written."""
    lines = text.splitlines(keepends=True)
    if len(lines) < 2:
        raise ValueError(f"no trace: {len(lines)} lines, a head and a hash are needed at least")
    try:
        head, *decisions, tail = (json.loads(line) for line in lines)
        if (head["v"], head["kind"]) != (VERSION, "decisions"):
            raise ValueError(f"no trace: v={head['v']} kind={head['kind']}, this reads v={VERSION} kind=decisions")
        trace = Trace(
            geometry_from_json(head["geometry"]), tuple(from_json(line) for line in decisions), str(head["note"])
        )
        named = tail["sha256"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"no trace: {error!r}") from error
    if write_trace(trace) != text:
        raise ValueError(f"no trace: its lines are not canonical or do not hash to {named}")
    return trace


def replay(trace: Trace, *, is_recording: bool = False) -> Driver:
    """The world at the end of `trace`, finished. Raises what `Driver` raises."""
    driver = Driver(trace.geometry, is_recording=is_recording)
    for decision in trace.decisions:
        driver.apply(decision)
    driver.finish()
    return driver


def geometry_to_json(geometry: Geometry) -> dict[str, Any]:
    """What is None or the default is left out."""
    defaults = {field.name: field.default for field in fields(Geometry)}
    return {name: value for name, value in asdict(geometry).items() if value != defaults[name]}


def geometry_from_json(values: Mapping[str, Any]) -> Geometry:
    delivery = Delivery(values.get("delivery", Delivery.ALL))
    layers = {name: tuple(values.get(name, ())) for name in ("blob_bytes", "recurrent")}
    return Geometry(**{**values, **layers, "delivery": delivery})


def _canonical(value: Mapping[str, Any] | Sequence[Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n"
