"""The one place that knows everything: configuration -> model -> device -> engine -> server, and how they end together.

How engine and server end together is `server/lifetime.py`'s: a lost device gives EXIT_DEVICE_LOST, a first SIGTERM or
SIGINT drains, a second one ends at once.
"""

import gc
import logging
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Protocol

import torch
import trio
from quart import Response

from sim.bytes import BytesPayload, positional_digest
from sim.device import SimDevice, describe_twin
from strata.core.errors import ConfigError, DeviceError, ModelError
from strata.core.extent import Extent
from strata.core.memory.planner import Plan
from strata.core.serving.checkpoints import parked_space_bytes
from strata.core.serving.launches import Recipe
from strata.device import Device
from strata.engine.runner import Runner
from strata.engine.steward import Steward
from strata.engine.thread import DeviceThread
from strata.engine.watched import WatchedRunner
from strata.host_memory import available_bytes
from strata.manifest import pack_manifest
from strata.model.pack_reader import PackReader
from strata.model.program_reads import dense_reads
from strata.model.programs.build import build_programs
from strata.model.text import ModelText, load_text
from strata.planning import PlannedModel
from strata.server.app import create_app, reply
from strata.server.lifetime import live
from strata.server.ports import ServedModel, ServerLimits
from strata.server.serving import serve
from strata.server.sockets import BoundAddress
from strata.sizes import format_bytes
from strata.trace.command_trace import sizes_of
from strata.trace.keeper import Keeper
from strata.trace.naming import plan_facts, plan_places
from strata.trace.tail import Tail
from strata.warm_start import save_usage

EXIT_DEVICE_LOST = 70
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SHARD_SUFFIX = re.compile(r"-\d{5}-of-\d{5}$")


def say(line: str) -> None:
    """One line for whoever started the server; scripts read the last one before it serves."""
    print(f"strata: {line}", flush=True)


def run_server(planned: PlannedModel) -> int:
    """Serve until told to stop; the exit code. Raises ConfigError for whatever the user can mend."""
    logging.basicConfig(format="strata: %(message)s", level=logging.WARNING)
    logging.getLogger("strata").setLevel(logging.INFO)
    text = load_text(planned.file.metadata, context_tokens=planned.plan.options.context_tokens)
    device = open_device(planned)
    try:
        trio.run(_run, planned, text, device)
    except DeviceError as error:
        return _tell_lost(error)
    except BaseExceptionGroup as group:
        # The nursery wraps what its tasks raise; the user gets the reason, in one line.
        if (refused := group.subgroup(ConfigError)) is not None:
            raise _first(refused) from None
        if (lost := group.subgroup(DeviceError)) is not None:
            return _tell_lost(_first(lost))
        raise
    finally:
        device.close()
    return 0


def _tell_lost(error: BaseException) -> int:
    """The exit code, once the reason is told."""
    _complain(f"the device is lost: {error}")
    return EXIT_DEVICE_LOST


def open_device(planned: PlannedModel, laps: dict[str, float] | None = None) -> Device:
    """The body that was asked for, with the model's weights in its pack, not yet mapped. `laps` gets the seconds of a
    card's parts: its memory, and the weights. Raises ConfigError."""
    if planned.config.device.is_virtual:
        return open_twin(planned)
    from strata.boot_card import open_card  # needs triton and the driver's binding

    return open_card(planned, laps=laps)


def open_twin(planned: PlannedModel) -> SimDevice:
    """A virtual card with the model's weights in its pack, not yet mapped. Reads the whole file once. Raises
    ConfigError when the host has too little memory for both."""
    plan, spec = planned.plan, planned.spec
    _check_host_memory(plan)
    # One core stays free, for the server's loop and for neighbours: torch's threads meet at a barrier after each small
    # operation, so one that has to share its core holds up all of them (bench/results/twin-speed.md).
    torch.set_num_threads(max(1, (os.cpu_count() or 1) - 1))
    description = describe_twin(
        arena_bytes=plan.arena_bytes,
        segment_bytes=planned.config.segment_bytes,
        pack_bytes=plan.pack.size_bytes,
        pageable_pack_bytes=plan.pack.pageable_bytes,
        staging_bytes=plan.staging.size_bytes,
        behind_bytes=plan.behind_bytes,
        parked_bytes=parked_space_bytes(plan),
    )
    programs = build_programs(
        spec,
        plan.weights,
        kv_format=plan.options.kv_format,
        context_tokens=plan.options.context_tokens,
        arena_address=description.arena_address,
        arena_bytes=description.range_bytes,
    )
    device = SimDevice(description, programs, BytesPayload(description), manifest=pack_manifest(plan))
    fill_pack(device, planned)
    device.seal()
    return device


def _check_host_memory(plan: Plan) -> None:
    parked_bytes, left_bytes = parked_space_bytes(plan), available_bytes()
    needed_bytes = plan.arena_bytes + plan.pack.size_bytes + plan.staging.size_bytes + parked_bytes
    if left_bytes is not None and needed_bytes > left_bytes:
        raise ConfigError(
            f"vram refused: a virtual card of {plan.arena_bytes:,} B, the weights of {plan.pack.size_bytes:,} B and "
            f"{parked_bytes:,} B for parked conversations and checkpoints are host memory, {needed_bytes:,} B in all; "
            f"{left_bytes:,} B are available; lower --vram, --parked-mib or --checkpoint-mib, or take a smaller model"
        )


def fill_pack(device: SimDevice, planned: PlannedModel) -> None:
    """Every weight from the file to its place in the host master."""
    pack = planned.plan.pack
    with PackReader(planned.spec) as reader:
        for name, home in pack.weights.items():
            reader.read_dense(name, device.host(home))
        for layer, expert, home in pack.placed_blobs():
            reader.read_blob(layer=layer, expert=expert, target=device.host(home))


def digest_of(data: memoryview) -> int:
    """The positional digest of host bytes, as every body computes it of its own."""
    return positional_digest(
        torch.frombuffer(bytearray(data), dtype=torch.uint8)
    )  # a copy, since the pack is read-only


def make_runner(planned: PlannedModel, device: Device, terminators: Sequence[int]) -> Runner:
    """With --trace, one that keeps what it is told and what it asks of the device."""
    plan, config = planned.plan, planned.config
    reads = dense_reads(planned.spec)
    recipe, pause = Recipe(plan, reads), _pause_of(planned, device)
    is_touched = not config.device.is_virtual
    if config.trace_file is None:
        return Runner(
            device,
            recipe,
            terminators,
            pause,
            is_touched=is_touched,
            digest=digest_of,
            clock=time.monotonic,
            heat=planned.heat,
        )
    serving = plan_facts(plan) | {
        "model": planned.file.path.name,
        "terminators": list(terminators),
        "heat": list(planned.heat),
        "dense_reads": [[program, layer, list(names)] for (program, layer), names in reads.items()],
    }
    tail = Tail(sizes_of(device.describe()), plan_places(plan), serving, max_entries=config.kept_commands)
    keeper = Keeper(device, tail, Path(config.trace_file), _complain)
    return WatchedRunner(
        keeper.device,
        recipe,
        terminators,
        pause,
        keeper,
        is_touched=is_touched,
        digest=digest_of,
        clock=time.monotonic,
        heat=planned.heat,
    )


def _pause_of(planned: PlannedModel, device: Device) -> Callable[[], None]:
    """What the engine does while its device has nothing to report. The twin has done all that was submitted."""
    if planned.config.device.is_virtual:
        return partial(time.sleep, 5e-5)
    from strata.boot_card import rest_of

    return rest_of(device)


def keep_for_good() -> None:
    """What a start has made lives as long as the process: its hundred thousands of objects are looked through for
    garbage no more, which took 50 ms here and there, in the middle of a prompt."""
    gc.collect()
    gc.freeze()


def _complain(line: str) -> None:
    print(f"strata: {line}", file=sys.stderr, flush=True)


def make_steward(planned: PlannedModel, text: ModelText, device: Device, thread: DeviceThread) -> Steward:
    plan, end_ids = planned.plan, text.tokenizer.end_ids
    return Steward(
        make_runner(planned, device, sorted(end_ids)),
        terminators=end_ids,
        make_terminator=text.new_stream,
        run_step=thread.run,
        clock=time.monotonic,
        max_queued=planned.config.max_queued,
        chunk_tokens=plan.prompt.chunk_tokens,
        ring_slots=len(plan.prompt.ring),
    )


def served_model(planned: PlannedModel) -> ServedModel:
    path = planned.file.path
    return ServedModel(
        model_id=_SHARD_SUFFIX.sub("", path.stem),
        created_s=planned.file.shards[0].identity.modified_ns // 10**9,
        context_tokens=planned.plan.options.context_tokens,
        vocab_size=planned.spec.vocab_size,
    )


async def _run(planned: PlannedModel, text: ModelText, device: Device) -> None:
    config, model = planned.config, served_model(planned)
    thread = DeviceThread()
    limits = ServerLimits(
        host=config.host,
        port=config.port,
        api_key=config.api_key,
        write_deadline_s=config.write_deadline_s,
        shutdown_grace_s=config.shutdown_grace_s,
    )
    steward = make_steward(planned, text, device, thread)
    app = create_app(steward, text, model, limits)
    app.add_url_rule("/debug/card", "card", partial(_show_card, planned, steward), methods=["GET"])
    _say_plan(planned)
    on_bound = partial(_say_address, model)
    try:
        await thread.run(steward.start)
        keep_for_good()
        await live(
            steward,
            lambda shutdown: serve(app, limits, shutdown=shutdown, on_bound=on_bound),
            signals=_stop_signals,
            on_signal=_say_stopping,
        )
    finally:
        thread.close()
        save_heat(planned, steward)


class Heated(Protocol):
    """What a steward says of the experts that it served."""

    def heat(self) -> tuple[int, ...]: ...


def save_heat(planned: PlannedModel, steward: Heated) -> None:
    """Where --warm-start asks for it. A file that cannot be written keeps no server from ending."""
    path, heat = planned.config.warm_start_file, steward.heat()
    if path is None:
        return
    if heat == planned.heat:
        say(f"warm start: no reads of experts were counted, {path} stays as it is")
        return
    try:
        save_usage(Path(path), planned.spec, heat)
    except (OSError, ModelError) as error:
        _complain(f"warm start: how often experts were read could not be written to {path}: {error}")
    else:
        say(f"warm start: how often experts were read is in {path}, for the next start")


@contextmanager
def _stop_signals() -> Iterator[AsyncIterator[int]]:
    for number in STOP_SIGNALS:
        # What the receiver puts back when it ends: a third signal must not change the exit code of an orderly end.
        signal.signal(number, signal.SIG_IGN)
    with trio.open_signal_receiver(*STOP_SIGNALS) as arriving:
        yield arriving


def _say_stopping(is_first: bool) -> None:
    if is_first:
        say("draining: running replies may end, new requests are refused; signal again to stop at once")
    else:
        say("stopping at once: running replies get an error")


async def _show_card(planned: PlannedModel, steward: Steward) -> Response:
    """Who owns which bytes, by the books, and the counters. Addresses behind the arena have memory only while segments
    are lent, and an owner then, so what is nobody's there is no part of the card."""
    plan = planned.plan
    held = [
        (row.owner, row.extent) for row in steward.holdings() if row.owner or row.extent.offset_bytes < plan.arena_bytes
    ]
    held.append(("", Extent(plan.end_bytes, plan.arena_bytes - plan.end_bytes)))
    return reply(
        {
            "rows": [{"owner": owner, **asdict(extent)} for owner, extent in held if extent.size_bytes],
            "chunk_tokens": plan.prompt.chunk_tokens,
            "ring_slots": len(plan.prompt.ring),
            "statistics": asdict(steward.statistics()),
        }
    )


def _say_plan(planned: PlannedModel) -> None:
    plan, spec = planned.plan, planned.spec
    if planned.config.vram_bytes is not None and planned.config.vram_bytes != plan.arena_bytes:
        say(f"vram={planned.config.vram_bytes:,} B is not whole segments; the card has {plan.arena_bytes:,} B")
    if planned.config.warm_start_file is not None and not planned.heat:
        say(f"warm start: there is no {planned.config.warm_start_file} yet, it is written when the server ends")
    say(
        f"{_card(planned)} of {format_bytes(plan.arena_bytes)}: {spec.architecture}, context "
        f"{plan.options.context_tokens:,}, {len(plan.slots)} of {plan.inventory.num_pairs} experts resident, "
        f"chunk {plan.prompt.chunk_tokens}, ring {len(plan.prompt.ring)}"
    )
    if plan.staged:
        say(
            f"{sum(map(len, plan.staged)):,} experts are neither pinned nor resident: windows run layer by layer "
            "(--resident-budget-gib)"
        )


def _card(planned: PlannedModel) -> str:
    return "twin, a virtual card" if planned.config.device.is_virtual else "cuda, an arena"


def _say_address(model: ServedModel, address: BoundAddress) -> None:
    say(f"serving {model.model_id} on {address.url}")


def _first(group: BaseException) -> BaseException:
    error = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
