"""The transition table: what each state takes, and that everything else raises and changes nothing."""

import itertools
from dataclasses import replace

import pytest

from strata.core import programs
from strata.core.commands import Command, Fill, Launch, Stream
from strata.core.errors import Refusal
from strata.core.extent import Extent
from strata.core.lending.room import Room
from strata.core.memory.planner import plan_card
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.chunk import Addresses
from strata.core.serving.launches import Recipe
from strata.core.serving.machine import Machine
from strata.core.serving.parking import Parking, Restoring
from strata.core.serving.prefix import Session
from strata.core.serving.request import GenerationRequest
from strata.core.serving.states import Closing, Homing, Idle, Lending, Reading, Settling, State, Windowing, first_state
from strata.core.serving.steps import Arrived, Began, Broke, Continued, Ended, Orders, Routed, Started
from tests.engine.symbolic_card import dense_reads, lending_inventory, prompt


def machine() -> Machine:
    plan = plan_card(
        lending_inventory(), 1 << 19, PlanOptions(4096, ring_slots=4, min_cache_slots=2, parked_bytes=1 << 20)
    )
    assert not isinstance(plan, Refusal)
    assert plan.lendable is not None
    return Machine(Recipe(plan, dense_reads(plan.inventory)), Addresses(1 << 40, 1 << 41))


OPEN = (
    "parking",
    "restoring",
    "lending",
    "routing",
    "reading",
    "handing over",
    "closing",
    "settling",
    "windowing",
    "homing",
)
EVENTS = (Began(prompt(10)), Started(), Routed((0, 3)), Arrived(), Continued((7,)), Ended(), Broke())


def states(served: Machine) -> dict[str, State]:
    idle = first_state(served.plan)
    lending, _ = served.step(idle, EVENTS[0])
    assert isinstance(lending, Lending)
    routing, _ = served.step(lending, Arrived())
    assert isinstance(routing, Reading)
    reading, _ = served.step(replace(routing, chunk=replace(routing.chunk, layer=3)), Routed((1,)))
    closing, _ = served.step(routing, Ended())
    settling, _ = served.step(closing, Arrived())
    handing, _ = served.step(replace(routing, chunk=replace(routing.chunk, layer=4), is_routing=False), Arrived())
    windowing, _ = served.step(handing, Arrived())
    roomed = replace(windowing, at=replace(windowing.at, room=Room(Extent(0, 256), (), first_slot=0)))
    homing, _ = served.step(roomed, Continued((7,)))
    parking, restoring = on_the_way(served, idle)
    return {
        "idle": idle,
        "parking": parking,
        "restoring": restoring,
        "lending": lending,
        "routing": routing,
        "reading": reading,
        "handing over": handing,
        "closing": closing,
        "settling": settling,
        "windowing": windowing,
        "homing": homing,
    }


def on_the_way(served: Machine, idle: Idle) -> tuple[State, State]:
    """A long session meets another conversation, and then comes back."""
    long, other = prompt(101), prompt(90, first=3)
    full = replace(idle, at=replace(idle.at, session=Session(long.prompt_ids)))
    parking, _ = served.step(full, Began(other))
    assert isinstance(parking, Parking)
    parked, _ = served.step(parking, Ended())
    again, _ = served.step(replace(parked, at=replace(parked.at, session=Session(other.prompt_ids))), Began(long))
    assert isinstance(again, Parking)
    restoring, _ = served.step(again, Arrived())
    return parking, restoring


LEGAL = {
    ("idle", Began),
    ("idle", Started),
    ("idle", Broke),
    ("parking", Arrived),
    ("restoring", Arrived),
    ("lending", Arrived),
    ("routing", Routed),
    ("reading", Arrived),
    ("handing over", Arrived),
    ("closing", Arrived),
    ("settling", Arrived),
    ("windowing", Continued),
    ("homing", Arrived),
} | {(name, kind) for name in OPEN for kind in (Ended, Broke)}


def test_every_pair_of_state_and_event_is_in_the_table_or_raises():
    served = machine()
    seen = set()
    for (name, state), event in itertools.product(states(served).items(), EVENTS):
        if (name, type(event)) in LEGAL:
            served.step(state, event)
            seen.add((name, type(event)))
        else:
            with pytest.raises(AssertionError, match="is illegal in"):
                served.step(state, event)
    assert seen == LEGAL


def test_states_are_of_the_kinds_that_their_names_say():
    kinds = {name: type(state) for name, state in states(machine()).items()}
    assert kinds == {
        "idle": Idle,
        "parking": Parking,
        "restoring": Restoring,
        "lending": Lending,
        "routing": Reading,
        "reading": Reading,
        "handing over": Closing,
        "closing": Closing,
        "settling": Settling,
        "windowing": Windowing,
        "homing": Homing,
    }


def test_a_step_is_a_function_of_state_and_event_alone():
    served = machine()
    state, orders = served.step(first_state(served.plan), EVENTS[0])
    again, same = served.step(first_state(served.plan), EVENTS[0])
    assert (state, orders) == (again, same)


def test_no_two_notices_of_a_request_share_a_tag():
    served = machine()
    state, tags = first_state(served.plan), []
    state, orders = served.step(state, Began(prompt(10, max_tokens=3)))
    while not isinstance(state, Idle):
        tags += orders.awaits
        if isinstance(state, Reading) and state.is_routing:
            event = Routed((0, 5))
        elif isinstance(state, Windowing):
            event = Continued((5,)) if len(state.at.session.ids) < 11 else Ended()
        else:
            event = Arrived()
        state, orders = served.step(state, event)
    assert len(set(tags)) == len(tags) > 8


def hybrid_machine() -> Machine:
    """Layers 1 and 3 are recurrent, layer 0 has a shared expert too; reads have an arena of their own."""
    inventory = replace(lending_inventory(), state_bytes=(0, 512, 0, 256))
    plan = plan_card(inventory, 1 << 20, PlanOptions(4096, ring_slots=4, num_cache_slots=9))
    assert not isinstance(plan, Refusal)
    reads = dense_reads(inventory) | {(programs.SHARED, 0): ("blk.0",)}
    return Machine(Recipe(plan, reads), Addresses(1 << 40, 1 << 41))


def fills(orders: Orders) -> list[Fill]:
    return [command for command in orders.commands if isinstance(command, Fill) and command.target.owner == "state"]


def serve(served: Machine, state: State, request: GenerationRequest) -> tuple[Idle, list[Command]]:
    """One request whose reply is one token, with everything that was ordered for it."""
    state, orders = served.step(state, Began(request))
    commands = [*orders.commands]
    while not isinstance(state, Idle):
        is_routing = isinstance(state, Reading) and state.is_routing
        event = Routed((0, 5)) if is_routing else Ended() if isinstance(state, Windowing) else Arrived()
        state, orders = served.step(state, event)
        commands += orders.commands
    return state, commands


def test_a_recurrent_layer_is_launched_on_its_state_and_has_no_kv():
    served = hybrid_machine()
    _, commands = serve(served, first_state(served.plan), prompt(10))
    launches = [command for command in commands if isinstance(command, Launch)]
    mixers = [each for each in launches if each.program in (programs.ATTENTION, programs.RECURRENT)]
    assert [each.program for each in mixers] == [programs.ATTENTION, programs.RECURRENT] * 2
    for layer, launch in enumerate(mixers):
        owners = {access.owner for access in launch.writes}
        assert ("state" in owners, "kv" in owners) == (bool(layer % 2), not layer % 2)
        assert launch.args.state == (served.plan.state[layer] if layer % 2 else None)
    order = [each.program for each in launches[1:]]
    assert order[:3] == [programs.ATTENTION, programs.ROUTER, programs.SHARED]


def test_state_is_cleared_before_position_0_and_never_between_two_turns():
    served = hybrid_machine()
    state, commands = serve(served, first_state(served.plan), prompt(10))
    cleared = [command for command in commands if isinstance(command, Fill) and command.target.owner == "state"]
    assert [(fill.stream, fill.target.extent) for fill in cleared] == [
        (Stream.PROMPT, served.plan.state[1]),
        (Stream.PROMPT, served.plan.state[3]),
    ]
    first = next(index for index, command in enumerate(commands) if isinstance(command, Launch))
    assert max(commands.index(fill) for fill in cleared) < first
    ids = state.at.session.ids
    _, more = serve(served, state, replace(prompt(10), prompt_ids=(*ids, 1, 2, 3)))
    assert not [command for command in more if isinstance(command, Fill) and command.target.owner == "state"]


def test_state_is_cleared_for_a_prompt_of_one_token_too():
    served = hybrid_machine()
    state, _ = serve(served, first_state(served.plan), prompt(10))
    _, orders = served.step(state, Began(prompt(1)))
    assert [fill.stream for fill in fills(orders)] == [Stream.VERIFIER, Stream.VERIFIER]


def test_a_history_that_was_edited_is_read_from_0_where_state_is_recurrent():
    served = hybrid_machine()
    state, _ = serve(served, first_state(served.plan), prompt(10))
    edited = (*state.at.session.ids[:5], 30, 30)
    after, _ = served.step(state, Began(replace(prompt(10), prompt_ids=edited)))
    assert after.at.session.ids == ()


def test_a_read_given_up_leaves_nothing_to_extend_where_state_is_recurrent():
    served = hybrid_machine()
    state, _ = serve(served, first_state(served.plan), prompt(10))
    longer = replace(prompt(10), prompt_ids=(*state.at.session.ids, 1, 2, 3))
    reading, _ = served.step(state, Began(longer))
    assert isinstance(reading, Reading) and reading.at.session == state.at.session
    closing, _ = served.step(reading, Ended())
    assert closing.at.session == replace(state.at.session, is_torn=True)
    idle, _ = served.step(closing, Arrived())
    again, _ = served.step(idle, Began(longer))
    assert again.at.session.ids == ()
