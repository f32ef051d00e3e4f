"""The steward: one task that owns the device. Requests wait in a bounded line and are served one by one, in order.

HTTP handlers own nothing: they hold a ticket, read its updates, and may cancel it. A cancelled request is dropped at
the next layer or token; one that is still in line never starts.
"""

import logging
from collections import deque
from collections.abc import Callable

import trio

from strata.core.errors import DeviceError, DeviceLost, RequestError
from strata.core.lending.ledger import Holding
from strata.core.serving.request import GenerationRequest
from strata.engine.ports import EngineStatistics, TerminatorFactory
from strata.engine.reply import Reply
from strata.engine.runner import Runner
from strata.engine.thread import StepRunner
from strata.engine.ticket import RequestTicket
from strata.engine.updates import Broken, Finished, ReadFacts, Timings
from strata.sizes import format_bytes

log = logging.getLogger(__name__)

BROKEN = Broken("the engine failed while it worked on this request; the server's log says how")


def read_line(timings: Timings) -> str:
    """One line a read, for the log."""
    read = timings.read
    if read.window_rows:
        rows = f"windows of {read.window_rows} row{'s' * (read.window_rows > 1)}"
        return f"read {timings.prompt_n} tokens from {read.read_from}: {rows}{_parts(read)}"
    if not read.chunk_tokens:
        return f"read {timings.prompt_n} token behind {read.read_from} of the session{_parts(read)}"
    ring = f"{read.ring_slots - read.room_slots} + {read.room_slots}" if read.room_slots else f"{read.ring_slots}"
    lent = f"{read.lent_slots} slots lent, {format_bytes(read.lent_bytes)}" if read.lent_slots else "no slots lent"
    moved = f", {read.moved_segments} segments moved" if read.moved_segments else ""
    slab = f", {format_bytes(read.slab_bytes)} of it slab" if read.slab_bytes else ""
    return (
        f"read {timings.prompt_n} tokens from {read.read_from}: chunk {read.chunk_tokens}, ring {ring}, "
        f"{read.ring_entries} entries, {lent}{slab}{moved}{_parts(read)}, {timings.prompt_per_second:.1f} tok/s"
    )


def draft_part(timings: Timings) -> str:
    """What a request's line says behind its read, where something was drafted for it."""
    if not timings.draft_n:
        return ""
    return f"; {timings.draft_n_accepted} of {timings.draft_n} drafts accepted in {timings.predicted_n} tokens"


def _parts(read: ReadFacts) -> str:
    """What there is to say beside the geometry."""
    parked = f", parked {format_bytes(read.parked_bytes)}" if read.parked_bytes else ""
    came = f"{read.unparked_tokens} tokens came back, {format_bytes(read.unparked_bytes)}"
    resumed = f", on from the checkpoint at {read.checkpoint_tokens}" if read.checkpoint_tokens else ""
    return f"{_room_part(read)}{parked}{', ' + came if read.unparked_tokens else ''}{resumed}"


def _room_part(read: ReadFacts) -> str:
    """Only where there could have been one."""
    if read.no_room == "off":
        return ""
    return (
        f", no room ({read.no_room})" if read.no_room else f", room taken, {format_bytes(read.room_bytes)} copied back"
    )


class Steward:
    """Implements `strata.engine.ports.Engine`. `clock` gives seconds, `terminators` end a reply."""

    def __init__(
        self,
        runner: Runner,
        *,
        terminators: frozenset[int],
        make_terminator: TerminatorFactory,
        run_step: StepRunner,
        clock: Callable[[], float],
        max_queued: int,
        chunk_tokens: int,
        ring_slots: int,
    ) -> None:
        self._runner, self._run_step, self._clock = runner, run_step, clock
        self._terminators, self._make_terminator = terminators, make_terminator
        self._max_queued, self._chunk_tokens, self._ring_slots = max_queued, chunk_tokens, ring_slots
        self._line: deque[RequestTicket] = deque()
        self._news = trio.Event()
        self._running: Reply | None = None
        self._is_draining = False
        self._num_finished = self._num_cancelled = self._num_broken = 0
        self._prompt_tokens = self._predicted_tokens = 0
        self._base, self._base_moves = runner.snapshot().device, 0

    def submit(self, request: GenerationRequest) -> RequestTicket:
        if self._is_draining:
            raise RequestError("the server is shutting down", status=503, code="shutting_down")
        self._drop_cancelled()
        if len(self._line) >= self._max_queued + (self._running is None):  # the first in line is about to run
            raise RequestError(
                f"queue refused: the limit is {self._max_queued} waiting requests; try again later",
                status=503,
                code="queue_full",
            )
        ticket = RequestTicket(request)
        self._line.append(ticket)
        self._news.set()
        return ticket

    def drain(self) -> None:
        """Accept nothing more; what was accepted is served."""
        self._is_draining = True
        self._news.set()

    def start(self) -> None:
        """Make the device ready, in its thread. Raises DeviceError."""
        self._runner.start()
        snapshot = self._runner.snapshot()
        self._base, self._base_moves = snapshot.device, snapshot.counts.num_moves

    async def run(self) -> None:
        """Serve until cancelled or drained; after `start`. Raises DeviceError when the device is lost."""
        try:
            while (ticket := await self._next_ticket()) is not None:
                await self._serve(ticket)
        finally:
            self._is_draining = True
            self._abandon(Broken("the engine has stopped", code="shutting_down"))

    def holdings(self) -> tuple[Holding, ...]:
        """Who owns which bytes of the card, by the books, as they stood after the last step."""
        return self._runner.snapshot().ledger.holdings

    def heat(self) -> tuple[int, ...]:
        """How often windows read each expert (`strata.core.memory.residency`), as known after the last step."""
        return self._runner.snapshot().heat

    def statistics(self) -> EngineStatistics:
        snapshot = self._runner.snapshot()
        device, counts, parked, base = snapshot.device, snapshot.counts, snapshot.parked, self._base
        checkpoints = snapshot.checkpoints
        return EngineStatistics(
            num_queued=sum(not ticket.is_cancelled for ticket in self._line),
            num_running=int(self._running is not None),
            num_finished=self._num_finished,
            num_cancelled=self._num_cancelled,
            num_broken=self._num_broken,
            prompt_tokens=self._prompt_tokens,
            predicted_tokens=self._predicted_tokens,
            seconds_since_progress=self._clock() - self._running.progress_s if self._running else 0.0,
            expert_reads_hit=counts.expert_reads_hit,
            expert_reads_missed=counts.expert_reads_missed,
            window_reads_hit=counts.window_reads_hit,
            window_reads_missed=counts.window_reads_missed,
            staged_reads=counts.staged_reads,
            num_swaps=counts.num_swaps,
            swapped_bytes=counts.swapped_bytes,
            link_bytes=device.copied_to_device_bytes
            - base.copied_to_device_bytes
            + device.pack_read_bytes
            - base.pack_read_bytes,
            ring_entries=counts.ring_entries,
            num_loans=counts.num_loans,
            lent_bytes=counts.lent_bytes,
            slab_bytes=counts.slab_bytes,
            refilled_bytes=counts.refilled_bytes,
            num_rooms=counts.num_rooms,
            room_bytes=counts.room_bytes,
            num_segment_loans=counts.num_segment_loans,
            restored_bytes=counts.restored_bytes,
            reclaim_s=counts.reclaim_s,
            num_verified=counts.num_verified,
            num_drafts=counts.num_drafts,
            num_drafts_accepted=counts.num_drafts_accepted,
            num_parked=len(parked.listed),
            held_bytes=parked.used_bytes,
            num_hits=parked.counts.num_hits,
            num_parkings=parked.counts.num_parked,
            num_restores=parked.counts.num_restored,
            num_evictions=parked.counts.num_evicted,
            num_given_up=parked.counts.num_lost,
            parked_bytes=counts.parked_bytes,
            unparked_bytes=counts.unparked_bytes,
            num_checkpoints=len(checkpoints.listed),
            num_saves=checkpoints.num_saved,
            num_resumes=checkpoints.num_restored,
            num_checkpoint_evictions=checkpoints.num_evicted,
            num_launches=device.num_launches - base.num_launches,
            num_maps_while_serving=device.num_maps - base.num_maps - (counts.num_moves - self._base_moves),
            chunk_tokens=self._chunk_tokens,
            ring_slots=self._ring_slots,
        )

    async def _next_ticket(self) -> RequestTicket | None:
        while True:
            self._drop_cancelled()
            if self._line:
                return self._line.popleft()
            if self._is_draining:
                return None
            self._news = trio.Event()
            await self._news.wait()

    def _drop_cancelled(self) -> None:
        for ticket in [ticket for ticket in self._line if ticket.is_cancelled]:
            self._line.remove(ticket)
            self._num_cancelled += 1
            ticket.close(None)

    async def _serve(self, ticket: RequestTicket) -> None:
        """One request from its first chunk to rest. A failed command breaks this request only."""
        reply = Reply(
            ticket,
            self._make_terminator(ticket.request),
            self._terminators,
            self._runner,
            self._run_step,
            self._clock,
        )
        self._running = reply
        last: Finished | Broken | None = Broken("the engine has stopped", code="shutting_down")
        try:
            last = await reply.run()
        except DeviceLost:
            raise
        except DeviceError as error:
            log.error("request %s broken, the device failed: %s", ticket.request.request_id, error)
            last = BROKEN
            await self._run_step(self._runner.recover)
        except Exception:
            # A fault of ours in one request's work: told in full in the log, and no reason to drop everybody else.
            log.exception("request %s broken by a fault of the server", ticket.request.request_id)
            last = BROKEN
            await self._run_step(self._runner.recover)
        finally:
            self._running = None
            self._count(reply, last)
            ticket.close(last)

    def _count(self, reply: Reply, last: Finished | Broken | None) -> None:
        self._prompt_tokens += reply.num_read
        self._predicted_tokens += reply.num_sampled
        self._num_finished += isinstance(last, Finished)
        if isinstance(last, Finished):
            log.info("%s%s", read_line(last.timings), draft_part(last.timings))
        self._num_broken += isinstance(last, Broken)
        self._num_cancelled += last is None

    def _abandon(self, last: Broken) -> None:
        """Nobody who waits is left without an answer."""
        while self._line:
            self._line.popleft().close(last)
