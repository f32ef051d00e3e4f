"""The shell of several stages: a runner a card, and the core's pipeline over them. It decides nothing but which of the
cards that may have something to tell is asked next, and that is told by whoever drives it.

Only the twin has several cards yet (`docs/design.md` 5), so this is no part of the engine.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from strata.core.memory.planner import Plan
from strata.core.serving.launches import Recipe
from strata.core.serving.machine import Machine
from strata.core.serving.pipeline import Events, Pipeline
from strata.core.serving.request import GenerationRequest
from strata.core.serving.states import Closing, Reading, State, landed
from strata.core.serving.steps import Arrived, Began, Broke, Continued, Ended, Orders, Routed
from strata.device import Device
from strata.engine.recovery import until_mended
from strata.engine.runner import Runner

Handed = Callable[[int, Orders], None]


class StageRunner(Runner):
    """Of one stage: what it has ordered and awaits. Its state is the pipeline's."""

    def __init__(
        self,
        device: Device,
        recipe: Recipe,
        terminators: Sequence[int],
        pause: Callable[[], None],
        *,
        stages: tuple[Plan, ...],
        stage: int,
    ) -> None:
        assert recipe.plan.zone is None and not recipe.plan.options.num_swaps, "of one card: segments, swaps"
        super().__init__(device, recipe, terminators, pause)
        self._machine = replace(self._machine, stages=stages, before=stages[stage - 1] if stage else None)

    @property
    def machine(self) -> Machine:
        return self._machine

    @property
    def is_waiting(self) -> bool:
        return bool(self._awaits)

    def clear(self) -> None:
        """A request begins: nobody awaits what was told before."""
        self._early.clear()

    def put(self, state: State) -> None:
        self._state = state

    def forget(self) -> None:
        """Nothing of the last orders has taken place or is awaited."""
        self._awaits, self._checks, self._num_acts = (), (), 0

    def order(self, orders: Orders) -> None:
        """Raises DeviceError."""
        self._order(orders)
        self._state = landed(self._state)
        self._publish()

    def gather(self, *, is_draining: bool = False) -> Arrived | Routed:
        """All that was awaited, and what is learnt by it. Raises DeviceError."""
        self._gather(is_draining=is_draining)
        is_routing = isinstance(self._state, Reading) and self._state.is_routing
        return Routed(self._routed_experts()) if is_routing and not is_draining else Arrived()

    def sampled(self) -> int:
        (token,) = self._sampled_tokens(1)
        return token

    def broke(self) -> Broke:
        """Events of before are of no use."""
        self._awaits, self._checks = (), ()
        self._device.completions()
        return Broke(self._num_acts)

    def hand_over(self, orders: Orders, before: "StageRunner") -> None:
        """Rows of the stage before, through the host."""
        for source, target in orders.handed:
            self._device.host(target)[:] = bytes(before._device.host(source))


class StagedRunner:
    """`note_handed` is told of a stage and its orders before rows change hands."""

    def __init__(self, runners: Sequence[StageRunner], note_handed: Handed) -> None:
        self.runners, self._note_handed = tuple(runners), note_handed
        self._pipeline = Pipeline(tuple(runner.machine for runner in runners))
        self.state = self._pipeline.first_state()

    @property
    def waiting(self) -> list[int]:
        """Stages that may have something to tell."""
        return [stage for stage, runner in enumerate(self.runners) if runner.is_waiting]

    def start(self) -> None:
        for runner in self.runners:
            runner.start()
        self._put()

    def begin(self, request: GenerationRequest) -> None:
        for runner in self.runners:
            runner.clear()
        self._step(self._all(Began(request)))

    def advance(self, stage: int) -> None:
        """What `stage` awaits has come. Raises DeviceError; then call `recover`."""
        self._came(stage, self.runners[stage].gather())

    def resume(self, token: int) -> None:
        self._step(self._all(Continued((token,))))

    def end(self, *token_ids: int) -> None:
        """The reply is over, or the client leaves."""
        self._step(self._all(Ended(token_ids)))

    def sampled(self) -> int:
        return self.runners[-1].sampled()

    def recover(self) -> None:
        until_mended(self._recover_once)

    def _recover_once(self) -> None:
        self._step(tuple(runner.broke() for runner in self.runners))
        while not self.state.is_idle:
            stage = self.waiting[0]
            is_draining = isinstance(self.state.stages[stage], Closing)
            self._came(stage, self.runners[stage].gather(is_draining=is_draining))

    def _came(self, stage: int, event: Arrived | Routed) -> None:
        self._step(tuple(event if at == stage else None for at in range(len(self.runners))))

    def _all(self, event: Began | Continued | Ended) -> Events:
        return (event,) * len(self.runners)

    def _step(self, events: Events) -> None:
        self.state, given = self._pipeline.step(self.state, events)
        self._put()
        for stage, _ in given:
            self.runners[stage].forget()
        for stage, orders in given:
            self._note_handed(stage, orders)
            if orders.handed:
                self.runners[stage].hand_over(orders, self.runners[stage - 1])
            self.runners[stage].order(orders)
            stages = list(self.state.stages)
            stages[stage] = landed(stages[stage])
            self.state = replace(self.state, stages=tuple(stages))

    def _put(self) -> None:
        for runner, state in zip(self.runners, self.state.stages, strict=True):
            runner.put(state)
