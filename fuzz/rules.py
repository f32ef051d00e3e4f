"""The Hypothesis front end: one rule, one decision, over the same driver. It shrinks what it finds.

A rule is counted when Hypothesis has drawn it, also where its decision does not apply; what a world takes to start and
to finish is in the time.

Rules are total: a decision that does not apply is nothing, so any part of a sequence is a sequence. The seed of a world
chooses its geometry; 0 is the plainest one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from fuzz.draw import FRESH, draw_world, geometry_that_lends
from fuzz.garbage import swept_between_worlds
from sim.world.card import FaultKind
from sim.world.decisions import Advance, Begin, Cancel, Decision, Fault, Favour, Restart, Stop, Turn
from sim.world.geometry import OTHER_OPTIONS
from sim.world.sites import SITES
from sim.world.worlds import AnyDriver, make_world


class WorldRules(RuleBasedStateMachine):
    """A world under Hypothesis. What a driver raises is the failure; a world that failed is not finished."""

    def __init__(self) -> None:
        super().__init__()
        self.driver: AnyDriver | None = None
        self.has_failed = False

    @initialize(seed=st.integers(0, 400))
    def open(self, seed: int) -> None:
        self.driver = make_world(draw_world(seed).geometry if seed else geometry_that_lends())

    @rule(
        fresh=st.sampled_from(FRESH),
        shared=st.sampled_from((0, 1, 100, 256, 5000)),
        base=st.integers(0, 3),
        salt=st.integers(0, 5),
        max_tokens=st.integers(1, 3),
    )
    def begin(self, **values: Any) -> None:
        self._apply(Begin(**values))

    @rule(times=st.sampled_from((1, 2, 5, 20)))
    def advance(self, times: int) -> None:
        self._apply(Advance(times))

    @rule()
    def cancel(self) -> None:
        self._apply(Cancel())

    @rule()
    def stop(self) -> None:
        self._apply(Stop())

    @rule(after=st.integers(0, 40), kind=st.sampled_from(FaultKind), stage=st.integers(0, 2))
    def fault(self, after: int, kind: FaultKind, stage: int) -> None:
        self._apply(Fault(after, kind, stage))

    @rule(kind=st.sampled_from(FaultKind), at=st.sampled_from(SITES))
    def aimed_fault(self, kind: FaultKind, at: str) -> None:
        self._apply(Fault(0, kind, at=at))

    @rule(pick=st.integers(0, 2), times=st.sampled_from((1, 3, 20)))
    def turn(self, pick: int, times: int) -> None:
        self._apply(Turn(pick, times))

    @rule(pick=st.integers(0, 3), times=st.sampled_from((1, 3, 20)))
    def favour(self, pick: int, times: int) -> None:
        self._apply(Favour(pick, times))

    @rule(pick=st.integers(0, len(OTHER_OPTIONS) - 1))
    def restart(self, pick: int) -> None:
        self._apply(Restart(pick))

    def teardown(self) -> None:
        if self.driver is not None and not self.has_failed:
            self.driver.finish()

    def _apply(self, decision: Decision) -> None:
        assert self.driver is not None
        self.has_failed = True
        self.driver.apply(decision)
        self.has_failed = False


WORLDS_A_TURN = 25


@dataclass(slots=True)
class RuleTally:
    """`failure` is what Hypothesis says of the smallest example, "" while there is none."""

    worlds: int = 0
    rules: int = 0
    cpu_seconds: float = 0.0
    failure: str = ""


def run_rules(seed: int, is_over: Callable[[RuleTally], bool], *, rules_a_world: int) -> RuleTally:
    """Worlds under Hypothesis from `seed` on, without an example database, until one fails or `is_over`, which is
    asked every WORLDS_A_TURN of them."""
    tally = RuleTally()

    class Counted(WorldRules):
        def __init__(self) -> None:
            super().__init__()
            tally.worlds += 1
            sweep()

        def _apply(self, decision: Decision) -> None:
            tally.rules += 1
            super()._apply(decision)

    chosen = settings(
        max_examples=WORLDS_A_TURN,
        stateful_step_count=rules_a_world,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    began = time.process_time()
    with swept_between_worlds() as sweep:
        while not tally.failure and not is_over(tally):
            try:
                run_state_machine_as_test(seeded(seed)(Counted), settings=chosen)
            except Exception as error:  # whatever a driver raises is what is looked for
                notes = getattr(error, "__notes__", [])
                tally.failure = "\n".join((f"{type(error).__name__}: {error}", *notes))
            seed += 1
            tally.cpu_seconds = time.process_time() - began
    return tally
