"""Worlds of several stages: the core's pipeline over as many twins, one driver, decisions as anywhere.

A model is cut into runs of layers, each on a card of its own. Whatever holds for one card is held of each of them:
books against the twin's map, acts, ring and homes of every loan, owners and bytes at rest. Replies are held against the
whole model's (`expected.py`), which knows nothing of stages.
"""

from collections.abc import Callable
from hashlib import sha256

from sim.world.card import TERMINATORS, Card, build_card
from sim.world.checks import AtStart, BookWatch, check_rest, look
from sim.world.decisions import Begin
from sim.world.errors import WorldFault
from sim.world.expected import Expected
from sim.world.geometry import Geometry
from sim.world.loan_checks import check_start
from sim.world.loan_watch import LoanWatch
from sim.world.notes import name_of
from sim.world.play import PROBE_TOKENS, Play
from sim.world.staged.notes import note_stages
from sim.world.staged.runner import StagedRunner, StageRunner
from sim.world.staged.sessions import Due, Sessions
from sim.world.staged.watch import Borders, StageDevice
from strata.core.errors import DeviceError, Refusal
from strata.core.memory.planner import Plan
from strata.core.serving.launches import Recipe
from strata.core.serving.parking import Parking, Restoring
from strata.core.serving.request import GenerationRequest
from strata.device import Device


class StagedDriver(Play):
    """On a card a stage; driven by the same front ends as `sim.world.driver.Driver`."""

    def __init__(self, geometry: Geometry, *, is_recording: bool = False) -> None:
        super().__init__()
        self.geometry = geometry
        self.borders = Borders()
        self._cards = make_cards(geometry, self.borders, is_recording=is_recording)
        self.runner = StagedRunner([_runner_of(card) for card in self.cards], self.borders.take)
        self.runner.start()
        for card in self.cards:
            check_start(card.device.journal, card.geometry, card.lent)
        self._starts: list[AtStart] = [look(card) for card in self.cards]
        self._books = [BookWatch(card) for card in self.cards]
        self._loans = [LoanWatch(card, start) for card, start in zip(self.cards, self._starts, strict=True)]
        self.sessions = Sessions(geometry, self.cards)
        self._turns: list[int] = []
        self._expected: Expected | None = None
        self._due = Due(0, is_lost=False, is_resumed=False)
        self._token: int | None = None
        self._num_sampled = 0

    @property
    def cards(self) -> list[Card]:
        return self._cards

    @property
    def has_token(self) -> bool:
        return self._token is not None

    @property
    def checkpoints(self) -> tuple[int, ...]:
        return self.sessions.positions

    @property
    def where(self) -> str:
        """The states of all stages, and the phases of their loans."""
        return " | ".join(name_of(state) for state in self.runner.state.stages)

    @property
    def is_handing_over(self) -> bool:
        """Bytes of a loan are on their way, there or back."""
        return any(state.at.is_restoring for state in self.runner.state.stages)

    @property
    def is_half_parked(self) -> bool:
        """A conversation is on its way to host memory on some stages, and others are done with that."""
        state = self.runner.state
        on_its_way = [
            isinstance(stage, Parking) and came is None for stage, came in zip(state.stages, state.came, strict=True)
        ]
        return any(on_its_way) and not all(on_its_way)

    @property
    def num_steps(self) -> int:
        return self.num_events + sum(card.device.statistics().num_commands for card in self.cards)

    def digest(self) -> str:
        """Of every command since start, stage by stage; only when recording."""
        lines = [repr(command) for card in self.cards for command in card.device.history or ()]
        return sha256("\n".join(lines).encode()).hexdigest()

    def _turn(self, pick: int, times: int) -> None:
        self._turns += [pick] * times

    def finish(self) -> None:
        self._turns.clear()
        self._calm()
        if self.is_lost:
            return
        self._drain()
        limit = self.geometry.context_tokens
        loans = self.sometimes["staged: loan opened"]
        fresh = min(limit - 3, max(PROBE_TOKENS, self.geometry.room_min_tokens, self.geometry.short_read_tokens + 1))
        for begin in (Begin(fresh, salt=0x5A17, max_tokens=2), Begin(1, shared=fresh, salt=0x5A30)):
            self.apply(begin)
            self._drain()
        can_lend = any(card.plan.lendable for card in self.cards) and fresh > self.geometry.short_read_tokens
        if can_lend and self.sometimes["staged: loan opened"] == loans:
            raise WorldFault("a long read at the end of the world opened no loan on any stage")
        for begin in (Begin(self._other(fresh), salt=0x5A19), Begin(2, shared=limit, base=2, salt=0x5A1A)):
            self.apply(begin)
            self._drain()

    def _begin(self, decision: Begin) -> None:
        request = self._ask(decision, self.sessions.held)
        self._num_sampled, self._token = 0, None
        self._expected = Expected(self.geometry, request, TERMINATORS)
        self._due = self.sessions.begin(request.prompt_ids)
        for watch in self._loans:
            watch.expect(len(request.prompt_ids) - self._due.read_from)
        self._guarded(lambda: self._started(request))

    def _started(self, request: GenerationRequest) -> None:
        self.runner.begin(request)
        states = self.runner.state.stages
        taken = {state.takeover.read_from for state in states if isinstance(state, Parking | Restoring)}
        if taken != {self._due.read_from}:
            raise WorldFault(f"stages take over {taken} tokens, {self._due.read_from} are held or parked: {self.where}")
        is_parking = isinstance(states[0], Parking)
        self.sessions.parking = self.sessions.held if is_parking else None
        if self._due.is_lost and not is_parking:
            raise WorldFault(f"{len(self.sessions.held)} tokens would be lost, with room to park them")
        self.sometimes["staged: parked"] += is_parking
        self.sometimes["staged: checkpoint used"] += self._due.is_resumed
        self.sometimes["staged: prefix reused"] += self._due.read_from > 0

    def _advance(self) -> None:
        assert self._request is not None and self._expected is not None
        if self._token is not None:
            if self._num_sampled == self._request.max_tokens:
                self._end()
                return
            token, self._token = self._token, None
            self._expected.take(token)
            self.runner.resume(token)
            return
        waiting = self.runner.waiting
        if not waiting:
            raise WorldFault(f"no stage has anything to tell, and a request is open: {self.where}")
        self.runner.advance(waiting[self._turns.pop(0) % len(waiting)] if self._turns else waiting[0])
        note_stages(self.sometimes, self.runner.state, self.borders)
        if self.runner.state.is_idle:
            if not self._is_cancelled:
                raise WorldFault("a request that nobody gave up was closed without a token")
            self._close(is_whole=False)
        elif self.runner.state.has_sampled and not self._is_cancelled:
            self._sampled(self.runner.sampled())

    def _sampled(self, token: int) -> None:
        assert self._expected is not None
        right = self._expected.next_token()
        if token != right:
            raise WorldFault(f"token {self._num_sampled} of the reply is {token}, the model says {right}")
        self._num_sampled += 1
        self._token = token
        self.sometimes["staged: window answered"] += 1

    def _leave(self) -> None:
        self.sometimes["staged: cancelled"] += 1
        self._guarded(self._go)

    def _go(self) -> None:
        """The client is gone, with the token that was sampled last if there is one."""
        tokens = () if self._token is None else (self._token,)
        self._token = None
        self.runner.end(*tokens)
        if self.runner.state.is_idle:
            self._close(is_whole=False)

    def _end_early(self) -> None:
        self._end()

    def _end(self) -> None:
        assert self._token is not None
        token, self._token = self._token, None
        self.runner.end(token)
        while not self.runner.state.is_idle:
            self.runner.advance(self.runner.waiting[0])
        self._close(is_whole=True)

    def _close(self, *, is_whole: bool) -> None:
        assert self._request is not None and self._expected is not None
        self.sessions.end(tuple(self._expected.ids), is_whole=is_whole)
        self._rest(is_answered=is_whole)

    def _rest(self, *, is_answered: bool) -> None:
        """Nothing is open on any stage."""
        self._request = self._expected = self._token = None
        self._is_cancelled = False
        self.borders.rest()
        self.sessions.check_rest()
        for card, start, watch in zip(self.cards, self._starts, self._loans, strict=True):
            if card.runner._state.at.is_lending:
                raise WorldFault("nothing is open, and a loan is")
            check_rest(card, start)
            device = card.device
            assert isinstance(device, StageDevice)
            device.cleared.clear()
            watch.check_rest(is_answered=is_answered)
        self._check_chunks()

    def _check_chunks(self) -> None:
        """Invariant 43: all stages that lend read in chunks of one size, the smallest that any stage can have."""
        fresh_tokens = self._loans[0].due.fresh_tokens
        lending = [card for card in self.cards if card.plan.lendable is not None]
        used = {tokens for card in lending for tokens in card.device.journal.chunks}
        if used and not self._loans[0].has_failed:
            smallest = min(card.plan.read(fresh_tokens - 1).layout.chunk_tokens for card in self.cards)
            if used != {smallest}:
                raise WorldFault(f"stages read in chunks of {used} tokens, all of them can have {smallest}")

    def _guarded(self, move: Callable[[], None]) -> None:
        self.num_events += 1
        words = [len(card.device.journal.words) for card in self.cards]
        try:
            move()
        except DeviceError as error:
            self._judge(error)
            self._recover()
        self._accuse()
        for card, book, watch, before in zip(self.cards, self._books, self._loans, words, strict=True):
            book.check()
            acts = card.device.journal.words[before:]
            self.sometimes["staged: loan opened"] += "cache goes" in acts
            self.sometimes["staged: room opened"] += "room opens" in acts
            watch.check_lent(acts)

    def _recover(self) -> None:
        for watch in self._loans:
            watch.has_failed = True
        if not self._is_mended(self.runner.recover):
            return
        self.sometimes["staged: recovered"] += 1
        self.sessions.lose()
        self._rest(is_answered=False)


def make_cards(geometry: Geometry, borders: Borders, *, is_recording: bool = False) -> list[Card]:
    """One a stage, filled and sealed, not yet started. Raises ValueError where a part has no plan."""
    parts = geometry.parts()
    plans: list[Plan] = []
    for part in parts:
        plan = part.plan()
        if isinstance(plan, Refusal):
            raise ValueError(f"no world: layers {part.layers} have no plan: {plan.reason}")
        plans.append(plan)
    cards = []
    for stage, part in enumerate(parts):

        def runner(device: Device, recipe: Recipe, terminators: object, pause: Callable[[], None]) -> StageRunner:
            return StageRunner(device, recipe, TERMINATORS, pause, stages=tuple(plans), stage=stage)  # noqa: B023

        card = build_card(part, device_class=StageDevice, make_runner=runner)
        assert isinstance(card, Card) and isinstance(card.device, StageDevice)
        card.device.join(borders, stage, card.plan.staging, lambda runner=card.runner: runner._state.at.loan)  # type: ignore[misc]
        card.device.history = [] if is_recording else None
        cards.append(card)
    return cards


def _runner_of(card: Card) -> StageRunner:
    assert isinstance(card.runner, StageRunner)
    return card.runner
