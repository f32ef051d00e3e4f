"""Drives the serving machine over a device, one awaited point at a time. Synchronous: it runs in the device's thread.

Decides nothing: the machine says what to submit and what to wait for, the caller says whether a reply goes on. Counts
what it submits, for the statistics.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strata.core import programs
from strata.core.commands import Access, Command, Copy, Launch, Stream
from strata.core.errors import DeviceError
from strata.core.events import Failed, Reached
from strata.core.programs import RESULT_BYTES
from strata.core.serving.chunk import Addresses
from strata.core.serving.launches import Recipe, window_launches
from strata.core.serving.machine import TABLE_VERSION, WINDOW_GRAPH, Closing, Idle, Machine, Reading, State, Windowing
from strata.core.serving.request import GenerationRequest
from strata.core.serving.startup import start_up
from strata.core.serving.steps import Arrived, Began, Broke, Continued, Ended, Orders, Routed, ServingEvent
from strata.device import Device


@dataclass(frozen=True, slots=True)
class HasRead:
    """`read_tokens` prompt tokens are through all layers, those that the session had included."""

    read_tokens: int


@dataclass(frozen=True, slots=True)
class HasSampled:
    """A window is done; the caller answers with `resume` or `end`."""

    token_id: int


@dataclass(frozen=True, slots=True)
class HasClosed:
    """Nothing is open any more."""


Outcome = HasRead | HasSampled | HasClosed


@dataclass(frozen=True, slots=True)
class RunnerCounts:
    """Since start; prompt and windows together. `ring_entries`: blobs copied through the ring."""

    expert_reads_hit: int = 0
    expert_reads_missed: int = 0
    ring_entries: int = 0


class Runner:
    """`pause` is called while a device has nothing to report yet; the twin always has."""

    def __init__(self, device: Device, recipe: Recipe, terminators: Sequence[int], pause: Callable[[], None]) -> None:
        description = device.describe()
        self._device, self._recipe, self._terminators, self._pause = device, recipe, tuple(terminators), pause
        self._places = Addresses(description.arena_address, description.pack_address)
        self._machine = Machine(recipe, self._places)
        self._state: State = Idle()
        self._awaits: tuple[str, ...] = ()
        self._prompt_hits = self._prompt_misses = self._ring_entries = 0
        self._window_hits = self._window_misses = 0

    def start(self) -> None:
        """Make the card ready: map, load, publish, capture. Raises DeviceError."""
        segment_bytes = self._device.describe().segment_bytes
        plan = self._recipe.plan
        self._order(start_up(plan, self._places, segment_bytes=segment_bytes, terminators=self._terminators))
        self._gather()
        launches = window_launches(self._recipe, rows=1, table_version=TABLE_VERSION)
        self._device.capture(WINDOW_GRAPH, launches)

    def begin(self, request: GenerationRequest) -> int:
        """Submit the first part of a request, and say how many of its tokens the session has already. Only when
        nothing is open."""
        self._step(Began(request))
        return len(self._state.session.ids)

    def advance(self, *, is_cancelled: bool) -> Outcome:
        """Wait for what was submitted last, then submit what follows. Raises DeviceError; then call `recover`."""
        self._gather()
        state = self._state
        if is_cancelled and not isinstance(state, Idle):
            self._step(Ended())
        elif isinstance(state, Windowing):
            return HasSampled(self._sampled_token())
        elif isinstance(state, Reading) and state.is_routing:
            self._step(Routed(self._routed_experts()))
        elif isinstance(state, Reading | Closing):
            self._step(Arrived())
        return HasClosed() if isinstance(self._state, Idle) else HasRead(len(self._state.session.ids))

    def resume(self, token_id: int) -> None:
        """The sampled token was accepted: run the next window on it."""
        self._step(Continued(token_id))

    def end(self) -> None:
        """The reply is over, after a sampled token."""
        self._step(Ended())

    def recover(self) -> None:
        """After a DeviceError: drain what is open, so that the next request finds everything at rest. Raises
        DeviceError when the device cannot even do that; it is lost then."""
        self._awaits = ()
        self._device.completions()
        if isinstance(self._state, Idle):
            return
        self._step(Broke())
        self._gather()
        self._step(Arrived())

    def counts(self) -> RunnerCounts:
        return RunnerCounts(
            self._prompt_hits + self._window_hits, self._prompt_misses + self._window_misses, self._ring_entries
        )

    def _step(self, event: ServingEvent) -> None:
        self._state, orders = self._machine.step(self._state, event)
        self._order(orders)

    def _order(self, orders: Orders) -> None:
        for upload in orders.uploads:
            self._device.host(upload.target)[:] = upload.data
        self._device.submit(orders.commands)
        self._count(orders.commands)
        self._awaits = orders.awaits

    def _gather(self) -> None:
        """Until every awaited tag is reached."""
        missing = set(self._awaits)
        while missing:
            events = self._device.completions()
            for event in events:
                if isinstance(event, Failed):
                    raise DeviceError(event.message, event.command)
                assert isinstance(event, Reached)
                missing.discard(event.tag)
            if missing and not events:
                self._pause()
        self._awaits = ()

    def _routed_experts(self) -> tuple[int, ...]:
        counts = self._device.host(self._recipe.plan.staging.router_counts).cast("i")
        return tuple(expert for expert, rows in enumerate(counts) if rows)

    def _sampled_token(self) -> int:
        words = struct.unpack(f"<{RESULT_BYTES // 8}q", self._device.host(self._recipe.plan.staging.result))
        self._window_hits, self._window_misses = words[8], words[9]
        return int(words[0])

    def _count(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Copy) and command.stream is Stream.COPY:
                self._ring_entries += len(command.pairs)
            elif isinstance(command, Launch) and command.program == programs.EXPERTS:
                owners = [access.owner for access in command.reads if isinstance(access, Access)]
                self._prompt_hits += owners.count("cache")
                self._prompt_misses += owners.count("ring")
