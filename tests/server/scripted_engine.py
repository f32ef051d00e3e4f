"""An engine that follows a script: the real protocol and the real order of things, no model.

One task serves tickets first in, first out; a ticket's script runs in a cancel scope, so `cancel` takes effect at the
next step, as the real engine's does at the next layer or token. `updates` is an async generator on purpose: it is the
kind of iterator that a cancelled `__anext__` would finish for good.
"""

import math
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

import trio

from strata.core.errors import RequestError
from strata.core.serving.request import GenerationRequest
from strata.engine.ports import EngineStatistics
from strata.engine.updates import Broken, Finished, Progress, Text, Timings, Update, Usage


@dataclass(frozen=True)
class Say:
    text: str


@dataclass(frozen=True)
class Read:
    read_tokens: int
    fresh_tokens: int


@dataclass(frozen=True)
class Hold:
    """Work that lasts until the test says so."""

    until: trio.Event


@dataclass(frozen=True)
class Break:
    message: str = "the device failed"
    code: str = "engine_error"


@dataclass(frozen=True)
class Explode:
    """A mistake of the engine: its iterator raises."""

    error: Exception


@dataclass(frozen=True)
class Vanish:
    """Another mistake: the updates end without a final one."""


@dataclass(frozen=True)
class End:
    reason: str = "stop"


Step = Say | Read | Hold | Break | Explode | Vanish | End
Script = Iterable[Step]
Scripts = Callable[[GenerationRequest], Script]


def say(*texts: str, reason: str = "stop") -> Scripts:
    """The same reply to every request."""
    return lambda request: (*map(Say, texts), End(reason))


class ScriptedTicket:
    def __init__(self, request: GenerationRequest, script: Script) -> None:
        self.request, self.script = request, script
        self.scope = trio.CancelScope()
        self.num_cancels = 0
        self.send, self._receive = trio.open_memory_channel[Update | Exception](math.inf)

    async def updates(self) -> AsyncIterator[Update]:
        async for update in self._receive:
            if isinstance(update, Exception):
                raise update
            yield update

    def cancel(self) -> None:
        self.num_cancels += 1
        self.scope.cancel()


class ScriptedEngine:
    """`scripts` gives the script of each request and may be replaced between requests."""

    def __init__(self, scripts: Scripts, *, max_queued: int = 16) -> None:
        self.scripts = scripts
        self.tickets: list[ScriptedTicket] = []
        self.started: list[str] = []
        self._max_queued = max_queued
        self._queue, self._work = trio.open_memory_channel[ScriptedTicket](math.inf)
        self._counts = dict.fromkeys(("queued", "running", "finished", "cancelled", "broken", "predicted"), 0)
        self._progress_at = 0.0
        self._changed = trio.Event()

    def submit(self, request: GenerationRequest) -> ScriptedTicket:
        if self._counts["queued"] >= self._max_queued:
            raise RequestError(f"queue is full: {self._max_queued} requests wait", status=503, code="queue_full")
        ticket = ScriptedTicket(request, self.scripts(request))
        self.tickets.append(ticket)
        self._count("queued", 1)
        self._queue.send_nowait(ticket)
        return ticket

    def statistics(self) -> EngineStatistics:
        counts = self._counts
        return EngineStatistics(
            num_queued=counts["queued"],
            num_running=counts["running"],
            num_finished=counts["finished"],
            num_cancelled=counts["cancelled"],
            num_broken=counts["broken"],
            prompt_tokens=sum(len(ticket.request.prompt_ids) for ticket in self.tickets),
            predicted_tokens=counts["predicted"],
            seconds_since_progress=trio.current_time() - self._progress_at if counts["running"] else 0.0,
            expert_reads_hit=7,
            expert_reads_missed=5,
            window_reads_hit=6,
            window_reads_missed=4,
            staged_reads=1,
            num_swaps=2,
            swapped_bytes=512,
            link_bytes=4096,
            ring_entries=3,
            num_loans=2,
            lent_bytes=8192,
            slab_bytes=512,
            refilled_bytes=6144,
            num_rooms=1,
            room_bytes=512,
            num_segment_loans=1,
            restored_bytes=1024,
            reclaim_s=0.25,
            num_verified=8,
            num_drafts=9,
            num_drafts_accepted=5,
            num_parked=2,
            held_bytes=2048,
            num_hits=4,
            num_parkings=5,
            num_restores=3,
            num_evictions=1,
            num_given_up=6,
            parked_bytes=10240,
            unparked_bytes=3072,
            num_checkpoints=3,
            num_saves=11,
            num_resumes=7,
            num_checkpoint_evictions=8,
            num_launches=2,
            num_maps_while_serving=0,
            chunk_tokens=256,
            ring_slots=8,
        )

    async def wait_for(self, claim: Callable[[EngineStatistics], bool]) -> None:
        while not claim(self.statistics()):
            await self._changed.wait()

    async def run(self) -> None:
        async for ticket in self._work:
            self._count("queued", -1)
            if ticket.scope.cancel_called:
                self._count("cancelled", 1)
                ticket.send.close()
                continue
            self._count("running", 1)
            with ticket.send:
                await self._play(ticket)
            self._count("running", -1)

    async def _play(self, ticket: ScriptedTicket) -> None:
        self.started.append(ticket.request.request_id)
        num_said = 0
        with ticket.scope:
            for step in ticket.script:
                self._progress_at = trio.current_time()
                await trio.lowlevel.checkpoint()
                match step:
                    case Say(text):
                        num_said += 1
                        self._count("predicted", 1)
                        ticket.send.send_nowait(Text(text))
                    case Read(read_tokens, fresh_tokens):
                        ticket.send.send_nowait(Progress(read_tokens, fresh_tokens))
                    case Hold(until):
                        await until.wait()
                    case Break(message, code):
                        ticket.send.send_nowait(Broken(message, code))
                        self._count("broken", 1)
                    case Explode(error):
                        ticket.send.send_nowait(error)
                    case End(reason):
                        ticket.send.send_nowait(_finished(ticket.request, reason, num_said))
                        self._count("finished", 1)
        if ticket.scope.cancelled_caught:
            self._count("cancelled", 1)

    def _count(self, name: str, step: int) -> None:
        self._counts[name] += step
        self._changed.set()
        self._changed = trio.Event()


def _finished(request: GenerationRequest, reason: str, num_said: int) -> Finished:
    num_prompt = len(request.prompt_ids)
    usage = Usage(prompt_tokens=num_prompt, completion_tokens=num_said, cached_tokens=num_prompt - 1)
    return Finished(reason, usage, Timings(prompt_n=1, prompt_ms=2.0, predicted_n=num_said, predicted_ms=4.0))
