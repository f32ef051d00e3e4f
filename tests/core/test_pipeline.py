"""Several stages as pure values: who may begin a pass, what all decide alike, and what is left when all are at rest."""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.draw_stages import two_stages
from sim.world.card import TERMINATORS, _dense_reads
from sim.world.geometry import Geometry
from strata.core.commands import Copy
from strata.core.errors import Refusal
from strata.core.extent import HostExtent
from strata.core.memory.planner import Plan
from strata.core.serving.chunk import Addresses
from strata.core.serving.launches import Recipe
from strata.core.serving.machine import Machine
from strata.core.serving.pipeline import Pipeline, Pipelined
from strata.core.serving.request import GenerationRequest
from strata.core.serving.states import Reading, Windowing
from strata.core.serving.steps import Arrived, Began, Broke, Continued, Ended, Orders, Routed

THREE = replace(two_stages(), splits=(1, 2), arenas=(1 << 17, 1 << 17))
SHORT = replace(THREE, short_read_tokens=255, window_rows=3)
HYBRID = replace(two_stages(), recurrent=(1, 3), num_checkpoints=2)
TURN = TERMINATORS[0]


def plans_of(geometry: Geometry) -> tuple[Plan, ...]:
    plans = [part.plan() for part in geometry.parts()]
    assert not any(isinstance(plan, Refusal) for plan in plans)
    return tuple(plans)  # type: ignore[arg-type]


def pipeline_of(geometry: Geometry) -> Pipeline:
    plans = plans_of(geometry)
    machines = [
        Machine(Recipe(plan, _dense_reads(part)), Addresses(1 << 40, 1 << 41), frozenset(TERMINATORS), plans, before)
        for before, plan, part in zip((None, *plans), plans, geometry.parts(), strict=False)
    ]
    return Pipeline(tuple(machines))


@dataclass
class Played:
    """A pipeline whose cards do whatever they are told at once. `left`, `taken`: row buffers in the order of use."""

    pipeline: Pipeline
    state: Pipelined
    awaiting: set[int] = field(default_factory=set)
    left: list[list[HostExtent]] = field(default_factory=list)
    taken: list[list[HostExtent]] = field(default_factory=list)
    most_apart: int = 0

    def take(self, given: tuple[tuple[int, Orders], ...]) -> None:
        for stage, orders in given:
            self.awaiting = self.awaiting | {stage} if orders.awaits else self.awaiting - {stage}
            self.taken[stage] += [source for source, _ in orders.handed]
            staging = self.pipeline.machines[stage].plan.staging
            rows = (staging.chunk_rows.offset_bytes, staging.window_rows.offset_bytes)
            for command in orders.commands:
                for pair in command.pairs if isinstance(command, Copy) else ():
                    if isinstance(pair.target, HostExtent) and pair.target.offset_bytes >= min(rows):
                        self.left[stage].append(pair.target)
        for before, stage in zip(self.left, self.taken[1:], strict=False):
            assert before[: len(stage)] == stage and len(before) - len(stage) <= 2
        self.most_apart = max(self.most_apart, len(self.left[0]) - len(self.taken[-1]))

    def begin(self, num_tokens: int, *, max_tokens: int = 1, ids: tuple[int, ...] = ()) -> None:
        prompt_ids = ids or tuple(3 + i % 200 for i in range(num_tokens))
        request = GenerationRequest("r", prompt_ids, max_tokens)
        self._step(*[Began(request)] * len(self.taken))

    def hear(self, pick: int) -> None:
        """One of the stages that await something has it."""
        stage = sorted(self.awaiting)[pick % len(self.awaiting)]
        self.awaiting.discard(stage)
        at = self.state.stages[stage]
        event = Routed((0, 2)) if isinstance(at, Reading) and at.is_routing else Arrived()
        self._step(*[event if each == stage else None for each in range(len(self.taken))])

    def leave(self, token_ids: tuple[int, ...] = ()) -> None:
        self._step(*[Ended(token_ids)] * len(self.taken))

    def go_on(self, token: int) -> None:
        self._step(*[Continued((token,))] * len(self.taken))

    def _step(self, *events: object) -> None:
        self.state, given = self.pipeline.step(self.state, events)  # type: ignore[arg-type]
        self.take(given)


def played(geometry: Geometry) -> Played:
    pipeline = pipeline_of(geometry)
    num_stages = len(pipeline.machines)
    return Played(
        pipeline, pipeline.first_state(), set(), [[] for _ in range(num_stages)], [[] for _ in range(num_stages)]
    )


ORDERS = st.lists(st.integers(0, 2), max_size=60)


@pytest.mark.slow
@pytest.mark.parametrize("geometry", [THREE, SHORT], ids=["chunks", "windows"])
@settings(max_examples=15)
@given(order=ORDERS)
def test_a_pass_begins_when_its_rows_are_there_and_two_are_under_way_at_most(
    geometry: Geometry, order: list[int]
) -> None:
    """Whichever stage is heard first: rows are taken in the order in which they were left, none is written over, and
    the reply comes."""
    run = played(geometry)
    run.begin(600 if geometry is THREE else 60, max_tokens=2)
    for pick in [*order, *[0] * 400]:
        if run.state.has_sampled:
            break
        run.hear(pick)
    assert run.state.has_sampled and not run.awaiting
    assert all(isinstance(state, Windowing) for state in run.state.stages)
    num_passes = 4 if geometry is THREE else 21
    assert [len(left) for left in run.left] == [num_passes, num_passes, 0]
    assert [len(taken) for taken in run.taken] == [0, num_passes, num_passes]
    assert run.most_apart <= 2
    run.go_on(7)
    while not run.state.has_sampled:
        run.hear(0)
    run.leave((8,))
    while not run.state.is_idle:
        run.hear(0)
    assert {len(state.at.session.ids) for state in run.state.stages} == {601 if geometry is THREE else 61}


def test_windows_that_read_a_prompt_are_two_in_flight() -> None:
    run = played(SHORT)
    run.begin(60)
    for _ in range(40):
        run.hear(0)
    assert run.most_apart == 2


def test_of_a_reply_one_window_is_under_way() -> None:
    run = played(two_stages())
    run.begin(1, max_tokens=3)
    while not run.state.has_sampled:
        run.hear(0)
    run.go_on(5)
    assert len(run.left[0]) == 2 and len(run.taken[1]) == 1
    assert run.awaiting == {0}


def test_the_common_chunk_is_the_smallest_that_any_stage_can_lend() -> None:
    """Invariant 43. The second stage alone would read in larger chunks, and lends no more than the common one needs."""
    geometry = replace(two_stages(), max_chunk_tokens=None, arena_bytes=6 << 14, arenas=(10 << 14,), ring_slots=1)
    alone = [plan.read(599) for plan in plans_of(geometry)]
    assert alone[0].layout.chunk_tokens < alone[1].layout.chunk_tokens
    run, chunks, lent = played(geometry), Counter[int](), set[int]()
    run.begin(600)
    while not run.state.has_sampled:
        run.hear(1)
        for state in run.state.stages:
            if isinstance(state, Reading):
                chunks[state.chunk.layout.chunk_tokens] += 1
        loan = run.state.stages[1].at.loan
        lent |= {len(loan.slots)} if loan else set()
    assert set(chunks) == {alone[0].layout.chunk_tokens}
    assert len(lent) == 1 and 0 < lent.pop() < len(alone[1].lent)


def test_each_stage_lends_what_its_own_plan_says() -> None:
    """Invariants 4 and 43: slots of its own cache, and as few as its own layout of the common chunk needs."""
    geometry = replace(two_stages(), arena_bytes=6 << 14, arenas=(6 << 14,))
    run, lent = played(geometry), [set[tuple[int, int]](), set[tuple[int, int]]()]
    run.begin(300)
    while not run.state.has_sampled:
        run.hear(1)
        for stage, state in enumerate(run.state.stages):
            lent[stage] |= {(slot.layer, slot.expert) for slot in (state.at.loan.slots if state.at.loan else ())}
    for plan, slots in zip(plans_of(geometry), lent, strict=True):
        assert slots == {(slot.layer, slot.expert) for slot in plan.read(299, chunk_tokens=256).lent}
    assert lent[0] != lent[1]


def test_room_and_drafter_are_the_last_stages_alone() -> None:
    """Invariant 43."""
    geometry = replace(
        two_stages(), drafter_experts=5, drafter_blob_bytes=7001, head_bytes=3001, room_min_tokens=0, arenas=(1 << 18,)
    )
    first, last = plans_of(geometry)
    assert not first.room and not first.block.size_bytes and last.room
    run, rooms = played(geometry), [0, 0]
    run.begin(300)
    while not run.state.has_sampled:
        run.hear(0)
        for stage, state in enumerate(run.state.stages):
            rooms[stage] += state.at.room is not None
    assert rooms[0] == 0 and rooms[1] > 0


@pytest.mark.slow
@settings(max_examples=25)
@given(order=ORDERS, steps=st.integers(0, 60))
def test_at_rest_all_stages_stand_at_one_position(order: list[int], steps: int) -> None:
    """Invariant 42: whenever the client leaves, and however far apart the stages are."""
    run = played(HYBRID)
    run.begin(0, ids=(*range(3, 103), TURN, *range(3, 203), TURN, *range(103, 203)))
    picks = iter([*order, *[0] * 400])
    for _ in range(steps):
        if run.state.has_sampled:
            break
        run.hear(next(picks))
    run.leave()
    while not run.state.is_idle:
        run.hear(next(picks))
    first, second = (state.at for state in run.state.stages)
    assert first.session == second.session and first.checkpoints.listed == second.checkpoints.listed
    assert all(each.position <= len(first.session.ids) for each in first.checkpoints.listed)
    assert first.num_passes == second.num_passes == 0 and not (first.is_lending or second.is_lending)


def test_a_checkpoint_that_some_stage_has_not_is_none() -> None:
    """Invariant 42: the first stage has left the state behind the first turn, the second has not come so far."""
    run = played(HYBRID)
    run.begin(0, ids=(*range(3, 103), TURN, *range(3, 203), TURN, *range(103, 203)))
    while not run.state.stages[0].at.checkpoints.listed:
        run.hear(0)
    assert not run.state.stages[1].at.checkpoints.listed
    run.leave()
    while not run.state.is_idle:
        run.hear(0)
    assert [state.at.checkpoints.listed for state in run.state.stages] == [(), ()]
    assert [state.at.session.is_torn for state in run.state.stages] == [True, True]


def test_what_is_out_of_turn_raises_and_changes_nothing() -> None:
    run = played(two_stages())
    run.begin(300)
    begun = (Began(GenerationRequest("r", (1, 2), 1)),) * 2
    for events in (begun, (Continued((1,)),) * 2, (Arrived(), None)):
        if events[1] is None:  # stage 0 waits for stage 1, and has no more to tell
            run.hear(0)
        before = deepcopy(run.state)
        with pytest.raises(AssertionError):
            run.pipeline.step(run.state, events)
        assert run.state == before


def test_a_failure_on_one_stage_empties_every_session() -> None:
    run = played(two_stages())
    run.begin(300)
    while not run.state.has_sampled:
        run.hear(0)
    run.leave((7,))
    while not run.state.is_idle:
        run.hear(0)
    assert {len(state.at.session.ids) for state in run.state.stages} == {300}
    run.begin(310)
    run.state, given = run.pipeline.step(run.state, (Broke(), Broke()))
    run.awaiting = {stage for stage, _ in given}
    while not run.state.is_idle:
        run.hear(0)
    assert [state.at.session.ids for state in run.state.stages] == [(), ()]
    assert not any(state.at.is_broken or state.at.is_lending for state in run.state.stages)
