"""Decision traces: one world as JSON Lines, canonical, with its own hash. They need neither seed nor generator, and run
through whatever the core is today.

    {"geometry":{...},"kind":"decisions","note":"...","v":1}
    {"do":"begin","fresh":300}
    ...
    {"sha256":"..."}                 of all lines above, each with its line end

Numbers and names only: no address, no slot and no time is in a trace.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sim.world.bounds import check_geometry
from sim.world.decisions import Decision, from_json, to_json
from sim.world.geometry import Delivery, Geometry
from sim.world.worlds import AnyDriver, make_world
from strata.trace.jsonl import TraceError, seal, unseal

KIND = "decisions"


@dataclass(frozen=True, slots=True)
class Trace:
    """`note` says in words what the trace is kept for."""

    geometry: Geometry
    decisions: tuple[Decision, ...]
    note: str = ""


def write_trace(trace: Trace) -> str:
    head = {"kind": KIND, "geometry": geometry_to_json(trace.geometry), "note": trace.note}
    return seal(head, (to_json(decision) for decision in trace.decisions))


def read_trace(text: str) -> Trace:
    """Raises TraceError for anything that `write_trace` would not have written."""
    head, lines = unseal(text, kind=KIND)
    try:
        decisions = tuple(from_json(line) for line in lines)
        trace = Trace(geometry_from_json(head["geometry"]), decisions, str(head["note"]))
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"no trace of decisions: {error}") from error
    if write_trace(trace) != text:
        raise TraceError("no trace of decisions: a line says more than it needs, or leaves out what it needs")
    return trace


def replay(trace: Trace, *, is_recording: bool = False) -> AnyDriver:
    """The world at the end of `trace`, finished. Raises what `Driver` raises."""
    driver = make_world(trace.geometry, is_recording=is_recording)
    for decision in trace.decisions:
        driver.apply(decision)
    driver.finish()
    return driver


def geometry_to_json(geometry: Geometry) -> dict[str, Any]:
    """What is None or the default is left out."""
    defaults = {field.name: field.default for field in fields(Geometry)}
    return {name: value for name, value in asdict(geometry).items() if value != defaults[name]}


def geometry_from_json(values: Mapping[str, Any]) -> Geometry:
    """Raises ValueError, also for a world larger than those that are drawn."""
    if not isinstance(values, Mapping):
        raise ValueError(f"no trace: its geometry is {values!r}")
    delivery = Delivery(values.get("delivery", Delivery.ALL))
    layers = {name: tuple(values.get(name, ())) for name in ("blob_bytes", "recurrent", "splits", "arenas")}
    switches = {field.name for field in fields(Geometry) if isinstance(field.default, bool)}
    for name, value in values.items():
        kind = bool if name in switches else int
        if name not in (*layers, "delivery") and type(value) is not kind:
            raise ValueError(f"no trace: its geometry has {name}={value!r}, which is no {kind.__name__}")
    geometry = Geometry(**{**values, **layers, "delivery": delivery})
    check_geometry(geometry)
    return geometry
