"""A runner that says what it was told and what came of it, to somebody who keeps a trace. It changes nothing."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from strata.core.serving.launches import Recipe
from strata.core.serving.request import GenerationRequest
from strata.device import Device
from strata.engine.results import DigestOf
from strata.engine.runner import HasClosed, HasMoved, HasRead, HasSampled, Outcome, Runner


class Watch(Protocol):
    """Who wants to know. Called in the device's thread; must not raise and not wait."""

    def began(self, request: GenerationRequest) -> None: ...

    def noted(self, what: str, **facts: Any) -> None:
        """`facts` are plain JSON values."""

    def broke(self, error: BaseException | None) -> None:
        """The runner raises `error`, or, None, is told to recover from what did not come from it."""


class WatchedRunner(Runner):
    """`advance` is noted as what it gave: "read", "moved", "sampled" or "closed"; before that, what the model chose:
    "routed" experts, the tokens that a window "gave", or the reads of experts that it "counted". Behind "goes on" it
    may say how many drafts were "worthy"."""

    def __init__(
        self,
        device: Device,
        recipe: Recipe,
        terminators: Sequence[int],
        pause: Callable[[], None],
        watch: Watch,
        *,
        is_touched: bool = False,
        digest: DigestOf | None = None,
        clock: Callable[[], float] = lambda: 0.0,
        heat: tuple[int, ...] = (),
    ) -> None:
        self._watch = watch
        self._told: BaseException | None = None  # what `recover` is called for
        self._is_advancing = False
        super().__init__(
            device, recipe, terminators, pause, is_touched=is_touched, digest=digest, clock=clock, heat=heat
        )

    def start(self) -> dict[str, float]:
        with _Told(self):
            return super().start()

    def begin(self, request: GenerationRequest) -> int:
        self._watch.began(request)
        with _Told(self):
            read_from = super().begin(request)
        self._watch.noted("reuses", tokens=read_from)
        return read_from

    def advance(self, *, is_cancelled: bool) -> Outcome:
        if is_cancelled:
            self._watch.noted("cancelled")
        self._is_advancing = True
        with _Told(self):
            outcome = super().advance(is_cancelled=is_cancelled)
        self._is_advancing = False
        match outcome:
            case HasRead(read_tokens):
                self._watch.noted("read", tokens=read_tokens)
            case HasSampled(token_ids):
                self._watch.noted("sampled", ids=list(token_ids))
            case HasMoved():
                self._watch.noted("moved")
            case HasClosed():
                self._watch.noted("closed")
        return outcome

    def resume(self, *token_ids: int) -> None:
        self._watch.noted("goes on", ids=list(token_ids))
        with _Told(self):
            super().resume(*token_ids)

    def end(self, *, num_taken: int | None = None) -> None:
        if self._is_advancing:  # a cancel, which ends a window by itself
            super().end(num_taken=num_taken)
            return
        self._watch.noted("ended", taken=num_taken)
        with _Told(self):
            super().end(num_taken=num_taken)

    def recover(self) -> None:
        self._is_advancing = False
        if self._told is None:
            self._watch.broke(None)
        self._told = None
        self._watch.noted("recovers")
        with _Told(self):
            super().recover()
        self._watch.noted("recovered")

    def _routed_experts(self) -> tuple[int, ...]:
        experts = super()._routed_experts()
        self._watch.noted("routed", experts=list(experts))
        return experts

    def _sampled_tokens(self, rows: int) -> tuple[int, ...]:
        token_ids = super()._sampled_tokens(rows)
        self._watch.noted("gave", ids=list(token_ids))
        if reads := self._expert_reads():
            self._watch.noted("counted", reads=list(reads))
        return token_ids

    def _num_worthy(self, num_drafts: int) -> int:
        num_worthy = super()._num_worthy(num_drafts)
        self._watch.noted("worthy", drafts=num_worthy)
        return num_worthy

    def tell(self, error: BaseException) -> None:
        """Once, however many of these methods it passes."""
        if self._told is not error:
            self._told = error
            self._watch.broke(error)


class _Told:
    """Whatever is raised inside is told, and passes."""

    __slots__ = ("_runner",)

    def __init__(self, runner: WatchedRunner) -> None:
        self._runner = runner

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._runner.tell(error)
