"""A request over several stages: which stage's machine goes on with what has come, and when. Pure, like the machines.

A *stage* is one card with its own plan, cache, ring, books and address table, and a run of the model's layers. Each has
a machine of its own that lends, reads and refills by itself; nothing here looks into it.

    stage 0   read chunk 0 | read chunk 1 | ...   | window 1 |          | window 2
    stage 1                | read chunk 0 | chunk 1 | ...    | window 1 |             rows pass borders in between

A step of a machine that begins a pass is not taken before its rows are there, and stage 0 begins none while two are
under way. So the next chunk, or the next window of a prompt, enters while the last one is still in a later stage; the
token that a window samples is what the next one feeds, so of a reply one window is under way.

What all stages must do alike waits for all of them: a conversation is parked or back once it is so everywhere, and a
window has sampled once it is over on every stage (`lending.md` 4.1). At rest, what a client that left or a failure has
left in some stages only is given up in the others: a session, and a checkpoint in it, stands where all layers stand at
one position (5, invariant 42).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from strata.core.serving.border import MAX_PASSES
from strata.core.serving.checkpoints import NO_CHECKPOINTS
from strata.core.serving.machine import Machine
from strata.core.serving.parking import Parking, Restoring
from strata.core.serving.prefix import Session, can_rewind
from strata.core.serving.states import Idle, Reading, ShortReading, State, Windowing, first_state
from strata.core.serving.steps import Arrived, Broke, Continued, Ended, Orders, Routed, ServingEvent

Events = tuple[ServingEvent | None, ...]


class Move(NamedTuple):
    """What `stage` does in `state` at `event`."""

    stage: int
    state: State
    event: ServingEvent
    after: State
    orders: Orders


@dataclass(frozen=True, slots=True)
class Pipelined:
    """`came`: what each stage has still to take in, None while it awaits something or is idle. `is_leaving`: the reply
    is over, the client has left, or a command failed. `early`: moves that begin a pass, found to be too early."""

    stages: tuple[State, ...]
    came: Events
    is_leaving: bool = False
    early: tuple[Move, ...] = ()

    @property
    def is_idle(self) -> bool:
        return all(isinstance(state, Idle) for state in self.stages)

    @property
    def has_sampled(self) -> bool:
        """The window is over on every stage; its tokens are in the last one's staging."""
        over = zip(self.stages, self.came, strict=True)
        return all(isinstance(state, Windowing) and isinstance(event, Arrived) for state, event in over)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`machines`: stage by stage, each with the plans of all."""

    machines: tuple[Machine, ...]

    def first_state(self) -> Pipelined:
        """Each stage has as many checkpoints as the one that has room for the fewest, of those that have state."""
        states = [first_state(machine.plan) for machine in self.machines]
        kept = [at.at.checkpoints for at, m in zip(states, self.machines, strict=True) if not _can_rewind(m)]
        fewest = min(kept, key=lambda checkpoints: checkpoints.num_slots, default=NO_CHECKPOINTS)
        stages = tuple(replace(state, at=replace(state.at, checkpoints=fewest)) for state in states)
        return Pipelined(stages, (None,) * len(stages))

    def step(self, state: Pipelined, events: Events) -> tuple[Pipelined, tuple[tuple[int, Orders], ...]]:
        """`events`: what each stage learns, None for nothing. Gives orders, each with its stage. Began, Continued,
        Ended and Broke come for all at once; Ended behind a window says which of its tokens were taken. Raises
        AssertionError for what is illegal."""
        ends, has_sampled = any(isinstance(event, Ended | Broke) for event in events), state.has_sampled
        came = list(state.came)
        for stage, event in enumerate(events):
            if event is not None and (has_sampled or not isinstance(event, Ended)):
                assert came[stage] is None or has_sampled or isinstance(event, Broke), (event, state)
                came[stage] = event
        state = replace(state, came=tuple(came), is_leaving=state.is_leaving or ends)
        given: list[tuple[int, Orders]] = []
        early = list(state.early)
        while (move := self._next(state, early)) is not None:
            at = move.stage
            stages = (*state.stages[:at], move.after, *state.stages[at + 1 :])
            state = replace(state, stages=stages, came=(*state.came[:at], None, *state.came[at + 1 :]))
            given.append((at, move.orders))
        state = replace(state, early=tuple(move for move in early if move.state is state.stages[move.stage]))
        return self._agreed(state) if state.is_idle else state, tuple(given)

    def _next(self, state: Pipelined, early: list[Move]) -> Move | None:
        """A stage that can go on. What it would do is asked first, once: a step is taken or it has not been."""
        for stage, machine in enumerate(self.machines):
            at, event = state.stages[stage], self._due(state, stage)
            if event is not None:
                move = next((move for move in early if move.state is at and move.event == event), None)
                if move is None:
                    move = Move(stage, at, event, *machine.step(at, event))
                    early.append(move)
                if move.after.at.num_passes == at.at.num_passes or self._may_begin(state, stage):
                    return move
        return None

    def _due(self, state: Pipelined, stage: int) -> ServingEvent | None:
        """What `stage` takes in next; None where it, or all stages, must wait."""
        at, event = state.stages[stage], state.came[stage]
        if state.is_leaving and isinstance(event, Arrived | Routed | Continued):
            event = Ended(event.token_ids) if isinstance(event, Continued) else Ended()
        if isinstance(at, Parking | Restoring) and not isinstance(event, Broke):
            alike = zip(state.stages, state.came, strict=True)
            return None if any(type(other) is type(at) and came is None for other, came in alike) else event
        return None if isinstance(at, Windowing) and isinstance(event, Arrived) else event

    def _may_begin(self, state: Pipelined, stage: int) -> bool:
        """Behind the rows of the stage before, or, on the first, not too far ahead of the last."""
        num_ahead = 0 if stage else MAX_PASSES
        return state.stages[stage].at.num_passes < self._num_over(state, stage - 1) + num_ahead

    def _num_over(self, state: Pipelined, stage: int) -> int:
        """Passes that `stage` has put behind it."""
        at, is_open = state.stages[stage], state.came[stage] is None
        if isinstance(at, Reading):
            is_open = is_open or len(at.told) > 1 or at.chunk.layer < self.machines[stage].plan.inventory.num_layers
        return at.at.num_passes - (is_open and isinstance(at, Reading | ShortReading | Windowing))

    def _agreed(self, state: Pipelined) -> Pipelined:
        """All are at rest: what some stages have and others have not is given up."""
        each = [stage.at for stage in state.stages]
        ids = min((at.session.ids for at in each), key=len)
        is_cut = any(len(at.session.ids) > len(ids) for at in each) and not all(map(_can_rewind, self.machines))
        session = Session(ids, is_torn=is_cut or any(at.session.is_torn for at in each))
        stages = []
        for at in each:
            parked = tuple(one for one in at.parked.listed if all(one in other.parked.listed for other in each))
            kept = tuple(one for one in at.checkpoints.listed if all(one in other.checkpoints.listed for other in each))
            at = replace(at, parked=replace(at.parked, listed=parked), checkpoints=replace(at.checkpoints, listed=kept))
            stages.append(Idle(replace(at, session=session, num_passes=0)))
        return Pipelined(tuple(stages), (None,) * len(stages))


def _can_rewind(machine: Machine) -> bool:
    return can_rewind(machine.plan.inventory.state_kinds)
