"""The server of a simulated world: the real application, connections, steward, runner and core over the twin.

What stands in for the machine around it: the network, the text port, the date, ids and seeds, and the device's thread,
whose every step takes virtual time and is looked at afterwards.
"""

import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import TypeVar

import trio

from sim.world.card import TERMINATORS, Card, build_card
from sim.world.checks import AtStart, BookWatch, WorldFault, check_rest, look
from sim.world.geometry import Geometry
from sim.world.server.asks import FRESH_SEED
from sim.world.server.journal import Journal
from sim.world.server.network import Network
from sim.world.server.text import LetterStream, WorldText
from strata.core.errors import DeviceError, Refusal, RequestError
from strata.core.serving.request import GenerationRequest
from strata.core.serving.states import Idle
from strata.engine.ports import EngineStatistics
from strata.engine.steward import Steward
from strata.engine.ticket import RequestTicket
from strata.server.app import create_app
from strata.server.lifetime import live
from strata.server.ports import ServedModel, ServerLimits
from strata.server.serving import serve_listener
from strata.server.surroundings import Surroundings

T = TypeVar("T")

MODEL_ID = "world"
CREATED_S = 1_800_000_000
NUM_FAVOURS = 64


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """`step_s`: bounds of what a step of the device takes; `text_s`: of what parsing a body does. `slow_step_s` is
    taken by one step in `slow_one_in`, so that comments and readiness come to their right."""

    geometry: Geometry
    limits: ServerLimits
    max_queued: int
    step_s: tuple[float, float] = (0.0005, 0.02)
    text_s: tuple[float, float] = (0.0, 0.01)
    slow_step_s: float = 0.0
    slow_one_in: int = 50


class Site:
    """`faults_found` are broken promises: they are kept here, since an engine that mends swallows exceptions."""

    def __init__(self, options: SiteOptions, rng: Random, journal: Journal) -> None:
        card = build_card(options.geometry)
        if isinstance(card, Refusal):
            raise WorldFault(f"this geometry has no plan: {card.reason}")
        self.card: Card = card
        self.options, self.journal, self._rng = options, journal, rng
        self.network = Network()
        self.is_ready_or_over, self.is_over = trio.Event(), trio.Event()
        self.lost_s = self.ended_s = math.inf  # when the device was lost, and when the process would have ended
        self.faults_found: list[str] = []
        self.scope = trio.CancelScope()
        self._signals, self._arriving = trio.open_memory_channel[int](8)
        self.signalled_s: list[float] = []
        self.num_busy = 0  # clients in the middle of something
        self.last_act_s = 0.0  # when one of them was last; no more once the server is over
        self.tickets: list[RequestTicket] = []
        self.num_submitted = 0
        self.askers: Counter[GenerationRequest] = Counter()  # who waits for a reply to what; no request has its id here
        self._ids = count()
        self._at_start: AtStart | None = None
        self._books = BookWatch(card)
        card.device.history = []
        plan = card.plan
        self.steward = Steward(
            card.runner,
            terminators=frozenset(TERMINATORS),
            make_terminator=LetterStream,
            run_step=self._run_step,
            clock=trio.current_time,
            max_queued=options.max_queued,
            chunk_tokens=plan.prompt.chunk_tokens,
            ring_slots=len(plan.prompt.ring),
        )
        model = ServedModel(MODEL_ID, CREATED_S, options.geometry.context_tokens, card.plan.inventory.vocab_size)
        surroundings = Surroundings(
            unix_s=lambda: CREATED_S + int(trio.current_time()),
            new_id=lambda: f"{next(self._ids):024x}",
            new_seed=lambda: FRESH_SEED,
            run_text=self._run_text,
        )
        self.app = create_app(self, WorldText(), model, options.limits, surroundings=surroundings)

    @property
    def stopping_since_s(self) -> float:
        """When the server was told to stop, or had to; infinity while it serves."""
        return min([*self.signalled_s, self.lost_s])

    @property
    def is_stopping(self) -> bool:
        return self.stopping_since_s < math.inf

    def note_act(self, num_busy: int) -> None:
        """A client begins something (1), or is done with it (-1)."""
        self.num_busy += num_busy
        if not self.is_over.is_set():
            self.last_act_s = trio.current_time()

    @property
    def num_faults(self) -> int:
        """Planted failures that have happened."""
        return self.card.device.faults.num_fired

    def signal(self) -> None:
        """SIGTERM."""
        if not self.is_over.is_set():
            self.journal.note("signal", "SIGTERM")
            self.signalled_s.append(trio.current_time())
            self._signals.send_nowait(15)

    def accuse(self, what: str) -> None:
        """A promise is broken: the world ends."""
        self.journal.note("fault", what)
        self.faults_found.append(what)
        self.scope.cancel()

    async def run(self) -> None:
        """The steward's life; see `strata.server.lifetime.LivingEngine`."""
        try:
            await self.steward.run()
        except DeviceError as error:
            self.lost_s = trio.current_time()
            self.journal.note("site", f"the device is lost: {error}")
            raise

    def drain(self) -> None:
        self.steward.drain()

    def submit(self, request: GenerationRequest) -> RequestTicket:
        """The engine's door; see `strata.engine.ports.Engine`. Refuses exactly when the line is full."""
        limit = self.options.max_queued + 1  # one of them runs
        try:
            ticket = self.steward.submit(request)
        except RequestError as error:
            if error.code == "queue_full" and len(self.open_tickets()) < limit:
                self.accuse(f"{error.message}, with {len(self.open_tickets())} open")
            raise
        self.tickets.append(ticket)
        self.num_submitted += 1
        if len(self.open_tickets()) > limit:
            self.accuse(f"{len(self.tickets)} requests are accepted, the limit is {limit}")
        return ticket

    def statistics(self) -> EngineStatistics:
        return self.steward.statistics()

    def check_wanted(self, request: GenerationRequest) -> None:
        """The engine works on `request` for those who wait for it, and for nobody who left. Raises WorldFault."""
        same = [each for each in self.open_tickets() if replace(each.request, request_id="") == request]
        num_worked_on = sum(not ticket.is_cancelled for ticket in same)
        if num_worked_on > self.askers[request]:
            raise WorldFault(f"{same[-1].request.request_id} is still worked on, and its client has left")

    def open_tickets(self) -> list[RequestTicket]:
        self.tickets = [ticket for ticket in self.tickets if ticket._send.statistics().open_send_channels]
        return self.tickets

    async def serve(self) -> None:
        """From start-up to the end of the last connection, as a process lives."""
        limits = self.options.limits
        try:
            await self._start()
            self._at_start = look(self.card)
            await live(
                self,
                lambda shutdown: serve_listener(
                    self.app, limits, self.network, shutdown=shutdown, on_ready=self.is_ready_or_over.set
                ),
                signals=self._open_signals,
            )
        except* DeviceError:
            await self.network.aclose()  # noted where it was met; a process would end with its own exit code here
        finally:
            self.ended_s = trio.current_time()
            if self.num_busy:
                self.last_act_s = self.ended_s
            self.is_over.set()
            self.is_ready_or_over.set()
            self.journal.note("site", "is over")

    @property
    def is_started(self) -> bool:
        return self._at_start is not None

    async def _start(self) -> None:
        try:
            await self._run_step(self.steward.start)
        except DeviceError as error:
            self.lost_s = trio.current_time()
            self.journal.note("site", f"the device is lost at start: {error}")
            raise

    @contextmanager
    def _open_signals(self) -> Iterator[AsyncIterator[int]]:
        yield self._arriving

    async def _run_step(self, step: Callable[[], T], /) -> T:
        """In place of the device's thread: never abandoned, and its time passes before and after."""
        before_s, after_s = (self._rng.uniform(*self.options.step_s) / 2 for _ in range(2))
        if self.options.slow_step_s and self._rng.randrange(self.options.slow_one_in) == 0:
            after_s += self.options.slow_step_s
        device = self.card.device
        if device.queues is not None and len(device.favours) < NUM_FAVOURS:  # which stream goes on while the host waits
            device.favours.extend(self._rng.randrange(4) for _ in range(NUM_FAVOURS))
        with trio.CancelScope(shield=True):
            await trio.sleep(before_s)
        try:
            return step()
        finally:
            self._look()
            with trio.CancelScope(shield=True):
                await trio.sleep(after_s)

    async def _run_text(self, work: Callable[[], T], /) -> T:
        await trio.sleep(self._rng.uniform(*self.options.text_s))
        return work()

    def _look(self) -> None:
        device = self.card.device
        assert device.history is not None
        for command in device.history:
            self.journal.note("card", repr(command))
        device.history.clear()
        if device.accusation is not None:
            self.accuse(f"{type(device.accusation).__name__}: {device.accusation}")
            return
        if self._at_start is None:
            return
        try:
            self._books.check()
            if isinstance(self.card.runner._state, Idle):
                device.faults.is_spoilt = False
                check_rest(self.card, self._at_start)
        except (AssertionError, DeviceError) as error:
            self.accuse(f"{type(error).__name__}: {error}")

    def check_rest(self) -> None:
        """The card is what it was at start. Raises WorldFault."""
        assert self._at_start is not None
        if not isinstance(self.card.runner._state, Idle):
            raise WorldFault(f"at the end the machine is {self.card.runner._state}")
        self._books.check()
        check_rest(self.card, self._at_start)


class LogWatch(logging.Handler):
    """Whatever the server logs as an error is one: a broad `except` at its edge has caught something."""

    EXPLAINED = ("broken, the device failed",)

    def __init__(self, site: Site) -> None:
        super().__init__(logging.INFO)
        self._site = site

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        self._site.journal.note("log", f"{record.levelname} {message}")
        if record.levelno < logging.WARNING:
            return
        if any(words in message for words in self.EXPLAINED) and self._site.num_faults:
            return
        trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
        self._site.accuse(f"logged {record.levelname}: {message}\n{trace}")


@contextmanager
def watched_logs(site: Site) -> Iterator[None]:
    """All of the server's log goes to the journal, and to nobody else."""
    logger, watch = logging.getLogger("strata"), LogWatch(site)
    before = (logger.propagate, logger.level)
    logger.addHandler(watch)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(watch)
        logger.propagate, logger.level = before[0], before[1]
