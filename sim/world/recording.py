"""The command trace of a world: what the core of today asks of the card in a decision trace, named by the plan; and
that trace played again onto a twin that knows nothing of the core.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.device import describe_twin
from sim.world.card import Stalled
from sim.world.decisions import to_json
from sim.world.driver import Driver
from sim.world.plain_bytes import PlainBytes
from sim.world.told import ToldDevice
from sim.world.trace import Trace, geometry_to_json
from strata.core.errors import Refusal
from strata.trace.command_trace import CardSizes, CommandTrace
from strata.trace.digest import pattern, positional_digest
from strata.trace.entries import Entry, Noted
from strata.trace.fingerprint import fingerprint_programs
from strata.trace.naming import plan_places
from strata.trace.replay import Hooks, Replayed, program_names, replay


@dataclass(frozen=True, slots=True)
class Recorded:
    """`failure`: what the world ended with before its end, None where it held."""

    commands: CommandTrace
    failure: Exception | None


def record_commands(trace: Trace, origin: Mapping[str, Any]) -> Recorded:
    """Everything up to the end of the world, or up to what it failed with. Raises ValueError for a geometry that has no
    plan, and nothing that happens in a world."""
    geometry, plan = trace.geometry, trace.geometry.plan()
    if isinstance(plan, Refusal):
        raise ValueError(f"this geometry has no plan: {plan.reason}")
    sizes = CardSizes(geometry.arena_bytes, geometry.segment_bytes, plan.pack.size_bytes, plan.staging.size_bytes)
    entries: list[Entry] = []
    failure: Exception | None = None
    try:
        driver = Driver(geometry, keep=entries.append)
        for decision in trace.decisions:
            entries.append(Noted("decision", to_json(decision)))
            driver.apply(decision)
        entries.append(Noted("finish", {}))
        driver.finish()
    except Exception as error:  # whatever a core raises is what a world is made to show
        failure = error
        entries.append(Noted("failure", {"error": type(error).__name__, "message": str(error)}))
    serving = {"geometry": geometry_to_json(geometry)}
    return Recorded(CommandTrace(sizes, plan_places(plan), tuple(entries), serving, origin, trace.note), failure)


def replay_plainly(trace: CommandTrace) -> Replayed:
    """Onto a twin with real bytes and without torch. Raises ReplayStalled."""
    sizes = trace.sizes
    description = describe_twin(
        arena_bytes=sizes.arena_bytes,
        segment_bytes=sizes.segment_bytes,
        pack_bytes=sizes.pack_bytes,
        staging_bytes=sizes.staging_bytes,
    )
    programs = fingerprint_programs(program_names(trace), digest=positional_digest, fill=_fill)
    manifest = trace.places.manifest()
    device = ToldDevice(description, programs, PlainBytes(description), manifest)
    for home, name in manifest:
        device.host(home)[:] = pattern(home.size_bytes, positional_digest(name.encode()))
    device.seal()
    return replay(trace, device, Hooks(_stall, device.fail_next, device.tell))


def _fill(target: memoryview, seed: int) -> None:
    target[:] = pattern(len(target), seed)


def _stall() -> None:
    raise Stalled("the twin has nothing to report, and never will: the trace says that it reported something")
