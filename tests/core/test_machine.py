"""The transition table: what each state takes, and that everything else raises and changes nothing."""

import itertools
from dataclasses import replace

import pytest

from strata.core.errors import Refusal
from strata.core.memory.planner import plan_card
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.chunk import Addresses
from strata.core.serving.launches import Recipe
from strata.core.serving.machine import (
    Closing,
    Idle,
    Lending,
    Machine,
    Reading,
    Settling,
    State,
    Windowing,
    first_state,
)
from strata.core.serving.steps import Arrived, Began, Broke, Continued, Ended, Routed, Started
from tests.engine.symbolic_card import dense_reads, lending_inventory, prompt


def machine() -> Machine:
    plan = plan_card(lending_inventory(), 1 << 19, PlanOptions(4096, ring_slots=4, min_cache_slots=2))
    assert not isinstance(plan, Refusal)
    assert plan.lendable is not None
    return Machine(Recipe(plan, dense_reads(plan.inventory)), Addresses(1 << 40, 1 << 41))


EVENTS = (Began(prompt(10)), Started(), Routed((0, 3)), Arrived(), Continued(7), Ended(), Broke())


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
    return {
        "idle": idle,
        "lending": lending,
        "routing": routing,
        "reading": reading,
        "handing over": handing,
        "closing": closing,
        "settling": settling,
        "windowing": windowing,
    }


LEGAL = {
    ("idle", Began),
    ("idle", Started),
    ("idle", Broke),
    ("lending", Arrived),
    ("routing", Routed),
    ("reading", Arrived),
    ("handing over", Arrived),
    ("closing", Arrived),
    ("settling", Arrived),
    ("windowing", Continued),
} | {
    (name, kind)
    for name in ("lending", "routing", "reading", "handing over", "closing", "settling", "windowing")
    for kind in (Ended, Broke)
}


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
        "lending": Lending,
        "routing": Reading,
        "reading": Reading,
        "handing over": Closing,
        "closing": Closing,
        "settling": Settling,
        "windowing": Windowing,
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
            event = Continued(5) if len(state.at.session.ids) < 11 else Ended()
        else:
            event = Arrived()
        state, orders = served.step(state, event)
    assert len(set(tags)) == len(tags) > 8
