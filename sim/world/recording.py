"""The command trace of a world: what the core of today asks of the card in a decision trace, named by the plan; and
that trace played again onto a twin that knows nothing of the core.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sim.device import describe_twin
from sim.payload import Payload
from sim.world.decisions import to_json
from sim.world.driver import Driver
from sim.world.plain_bytes import PlainBytes
from sim.world.told import ToldDevice
from sim.world.trace import Trace, geometry_to_json
from strata.core.errors import Refusal
from strata.core.serving.checkpoints import parked_space_bytes
from strata.device import DeviceDescription, Programs
from strata.trace.command_trace import CardSizes, CommandTrace
from strata.trace.digest import pattern, positional_digest
from strata.trace.entries import Entry, Noted
from strata.trace.fingerprint import fingerprint_programs
from strata.trace.naming import plan_places
from strata.trace.replay import Hooks, Replayed, ReplayStalled, program_names, replay


@dataclass(frozen=True, slots=True)
class Recorded:
    """`failure`: what the world ended with before its end, None where it held. `is_of_world`: a check of the world
    found it while the twin took a command, so that a replay does not see it."""

    commands: CommandTrace
    failure: Exception | None
    num_decisions: int
    is_of_world: bool = False


def record_commands(trace: Trace, origin: Mapping[str, Any]) -> Recorded:
    """Everything up to the end of the world, or up to what it failed with. Raises ValueError for a geometry that has no
    plan, and nothing that happens in a world."""
    geometry = trace.geometry
    if geometry.splits:
        raise ValueError(f"a trace of commands is one card's, and this world has {1 + len(geometry.splits)}")
    try:
        plan = geometry.plan()
    except Exception as error:  # a geometry out of a file may be one that nothing was written for
        raise ValueError(f"of this geometry no plan can be made: {type(error).__name__}: {error}") from error
    if isinstance(plan, Refusal):
        raise ValueError(f"this geometry has no plan: {plan.reason}")
    sizes = CardSizes(
        geometry.arena_bytes,
        geometry.segment_bytes,
        plan.pack.size_bytes,
        plan.staging.size_bytes,
        plan.behind_bytes,
        parked_space_bytes(plan),
    )
    entries: list[Entry] = []
    failure: Exception | None = None
    driver: Driver | None = None
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
    commands = CommandTrace(sizes, plan_places(plan), tuple(entries), serving, origin, trace.note)
    is_of_world = driver is not None and driver.card.device.is_judged_by_world
    return Recorded(commands, failure, len(trace.decisions), is_of_world)


def replay_plainly(trace: CommandTrace) -> Replayed:
    """Onto a twin with real bytes and without torch. Raises ReplayStalled."""
    programs = fingerprint_programs(program_names(trace), digest=positional_digest, fill=fill_plainly)
    return replay_on_twin(trace, PlainBytes, programs, fill_pack=fill_plainly)


def replay_on_twin(
    trace: CommandTrace,
    make_payload: Callable[[DeviceDescription], Payload],
    programs: Programs,
    *,
    fill_pack: Callable[[memoryview, int], None] | None,
    is_watched: bool = False,
) -> Replayed:
    """`fill_pack` gives an item of the pack a pattern of its name; None for a payload without bytes, of which there are
    no digests either. Raises ReplayStalled, and ConfigError where the payload does."""
    sizes, manifest = trace.sizes, trace.places.manifest()
    description = describe_twin(
        arena_bytes=sizes.arena_bytes,
        segment_bytes=sizes.segment_bytes,
        pack_bytes=sizes.pack_bytes,
        staging_bytes=sizes.staging_bytes,
        behind_bytes=sizes.behind_bytes,
        parked_bytes=sizes.parked_bytes,
    )
    device = ToldDevice(description, programs, make_payload(description), manifest)
    try:
        if fill_pack is not None:
            for home, name in manifest:
                fill_pack(device.host(home), positional_digest(name.encode()))
        device.seal()
        hooks = Hooks(_stall, device.fail_next, device.tell)
        return replay(trace, device, hooks, is_digesting=fill_pack is not None, is_watched=is_watched)
    finally:
        device.close()


def fill_plainly(target: memoryview, seed: int) -> None:
    target[:] = pattern(len(target), seed)


def _stall() -> None:
    raise ReplayStalled(
        "the twin has nothing to report, and never will; when the trace was recorded there was something"
    )
