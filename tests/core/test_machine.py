"""The transition table: what each state takes, and that everything else raises and changes nothing."""

import itertools
from dataclasses import replace

import pytest

from strata.core.errors import Refusal
from strata.core.memory.planner import PlanOptions, plan_card
from strata.core.serving.chunk import Addresses
from strata.core.serving.launches import Recipe
from strata.core.serving.machine import Closing, Idle, Machine, Reading, Windowing
from strata.core.serving.prefix import Session
from strata.core.serving.steps import Arrived, Began, Broke, Continued, Ended, Routed
from tests.engine.symbolic_card import dense_reads, prompt, small_inventory


def machine() -> Machine:
    plan = plan_card(small_inventory(), 1 << 20, PlanOptions(4096, ring_slots=4, num_cache_slots=4))
    assert not isinstance(plan, Refusal)
    return Machine(Recipe(plan, dense_reads(plan.inventory)), Addresses(1 << 40, 1 << 41))


EVENTS = (Began(prompt(10)), Routed((0, 3)), Arrived(), Continued(7), Ended(), Broke())


def states(served: Machine) -> dict[str, object]:
    routing, _ = served.step(Idle(), EVENTS[0])
    assert isinstance(routing, Reading)
    reading, _ = served.step(routing, Routed((1,)))
    closing, _ = served.step(routing, Ended())
    handing, _ = served.step(Reading(9, Session(), prompt(10), _after_last_layer(routing), is_routing=False), Arrived())
    windowing, _ = served.step(handing, Arrived())
    return {
        "idle": Idle(),
        "routing": routing,
        "reading": reading,
        "handing over": handing,
        "closing": closing,
        "windowing": windowing,
    }


def _after_last_layer(state: Reading):
    return replace(state.chunk, layer=4)


LEGAL = {
    ("idle", Began),
    ("routing", Routed),
    ("routing", Ended),
    ("routing", Broke),
    ("reading", Arrived),
    ("reading", Ended),
    ("reading", Broke),
    ("handing over", Arrived),
    ("handing over", Ended),
    ("handing over", Broke),
    ("closing", Arrived),
    ("closing", Ended),
    ("closing", Broke),
    ("windowing", Continued),
    ("windowing", Ended),
    ("windowing", Broke),
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
        "routing": Reading,
        "reading": Reading,
        "handing over": Closing,
        "closing": Closing,
        "windowing": Windowing,
    }


def test_a_step_is_a_function_of_state_and_event_alone():
    served = machine()
    state, orders = served.step(Idle(), EVENTS[0])
    again, same = served.step(Idle(), EVENTS[0])
    assert (state, orders) == (again, same)


def test_no_two_notices_of_a_request_share_a_tag():
    served, state, tags = machine(), Idle(), []
    state, orders = served.step(state, Began(prompt(10, max_tokens=3)))
    while not isinstance(state, Idle):
        tags += orders.awaits
        if isinstance(state, Reading) and state.is_routing:
            event = Routed((0, 5))
        elif isinstance(state, Windowing):
            event = Continued(5) if len(state.session.ids) < 11 else Ended()
        else:
            event = Arrived()
        state, orders = served.step(state, event)
    assert len(set(tags)) == len(tags) > 8
