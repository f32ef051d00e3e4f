"""A world as it is played, on one card or on several: what each decision does, when a request has taken too long, and
what of a failure is nobody's fault.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence

from sim.errors import TwinError
from sim.world.card import PLANTED, Card, PlantedFault
from sim.world.decisions import Advance, Begin, Cancel, Decision, Fault, Favour, Restart, Stop, Turn
from sim.world.errors import WorldFault
from sim.world.prompts import request_of
from strata.core.errors import DeviceError
from strata.core.serving.request import GenerationRequest

PROMPTS_KEPT = 8
HORIZON_STEPS = 4000
MAX_FAVOURS = 1000
PROBE_TOKENS = 300
FAULTS_TO_LOSE_A_DEVICE = 3
"""A mending is tried three times, and only what fails while it goes on costs a try: what failed before, or in an
earlier try, is over once the streams have drained, whenever the host is told of it."""


class Play(ABC):
    """`sometimes` counts what happened in this world that a campaign wants to have seen. `is_lost`: failures took the
    device away, which ends a process and a world."""

    def __init__(self) -> None:
        self.sometimes: Counter[str] = Counter()
        self.is_lost = False
        self.num_events = 0
        self._prompts: list[tuple[int, ...]] = []
        self._request: GenerationRequest | None = None
        self._is_cancelled = False

    @property
    @abstractmethod
    def cards(self) -> Sequence[Card]:
        """One a stage."""

    @property
    @abstractmethod
    def has_token(self) -> bool:
        """A window has sampled, and the reply may go on or end."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The machine's state, and the phase of its loan."""

    @property
    def is_open(self) -> bool:
        return self._request is not None

    @property
    def num_begun(self) -> int:
        """Prompts so far; no more than a few are counted."""
        return len(self._prompts)

    @property
    def is_leaving(self) -> bool:
        """The client has left, and what is open is being closed."""
        return self._is_cancelled

    def apply(self, decision: Decision) -> None:
        """Raises what found a fault: TwinError, WorldFault, or an assertion of the core."""
        if self.is_lost:
            return
        match decision:
            case Begin():
                if self._request is None:
                    self._begin(decision)
            case Advance(times):
                for _ in range(times):
                    if self._request is None or self.is_lost:
                        break
                    self._guarded(self._advance)
            case Cancel():
                if self._request is not None and not self._is_cancelled:
                    self._is_cancelled = True
                    self._leave()
            case Stop():
                if self.has_token:
                    self._guarded(self._end_early)
            case Fault(after, kind, stage, at):
                self.cards[stage % len(self.cards)].device.faults.plan(after, kind, at)
            case Favour(pick, times):
                for card in self.cards:
                    card.device.favours += [pick] * min(times, MAX_FAVOURS)
            case Turn(pick, times):
                self._turn(pick, min(times, MAX_FAVOURS))
            case Restart(pick):
                if self._request is None:
                    self._restart(pick)

    @abstractmethod
    def finish(self) -> None:
        """Failures off; then liveness and quiescence. A lost device ends a world without either."""

    @abstractmethod
    def _begin(self, decision: Begin) -> None: ...

    @abstractmethod
    def _advance(self) -> None: ...

    @abstractmethod
    def _leave(self) -> None:
        """The client has left just now."""

    @abstractmethod
    def _end_early(self) -> None:
        """A sampled token ends the reply."""

    @abstractmethod
    def _guarded(self, move: Callable[[], None]) -> None:
        """A move of the runner, judged; a failure that was planted breaks the request, as the steward does it."""

    def _turn(self, pick: int, times: int) -> None:
        """Of several stages alone."""
        return

    def _restart(self, pick: int) -> None:
        """Of one card alone."""
        return

    def _ask(self, decision: Begin, held: tuple[int, ...]) -> GenerationRequest:
        """The request of `decision` is the one that is open. `held`: ids of the session."""
        context_tokens = self.cards[0].geometry.context_tokens
        request = request_of(decision, context_tokens=context_tokens, held=held, prompts=self._prompts)
        self._prompts = [request.prompt_ids, *self._prompts[: PROMPTS_KEPT - 1]]
        self._request, self._is_cancelled = request, False
        return request

    def _other(self, fresh: int) -> int:
        """Tokens of another conversation than one of `fresh`: shorter, but not so that windows read it one by one."""
        return min(fresh, max(fresh // 2, self.cards[0].geometry.short_read_tokens + 1))

    def _calm(self) -> None:
        """No more failures, and streams go on in the order of submission."""
        for card in self.cards:
            card.device.faults.planned.clear()
            card.device.favours.clear()

    def _drain(self) -> None:
        advance = Advance()
        for _ in range(HORIZON_STEPS):
            if self._request is None:
                return
            self.apply(advance)
        raise WorldFault(f"a request did not end within {HORIZON_STEPS} steps; it is {self.where}")

    def _judge(self, error: DeviceError) -> None:
        self._accuse()
        if not isinstance(error, PlantedFault | TwinError) and str(error) != PLANTED:
            raise error

    def _accuse(self) -> None:
        for card in self.cards:
            if card.device.accusation is not None:
                raise card.device.accusation

    def _num_fired(self) -> int:
        return sum(card.device.faults.num_fired for card in self.cards)

    def _is_mended(self, recover: Callable[[], None]) -> bool:
        """Whether `recover` brought everything to rest; else the device is lost, which enough failures excuse."""
        fired = self._num_fired()
        try:
            recover()
        except DeviceError as error:
            self._judge(error)
            if self._num_fired() - fired < FAULTS_TO_LOSE_A_DEVICE:
                raise
            self.is_lost, self._request = True, None
            return False
        self._accuse()
        for card in self.cards:
            card.device.faults.is_spoilt = False
        return True
