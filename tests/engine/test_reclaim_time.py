"""How long a loan takes to come home, by the host's clock: from the order until the host knows."""

from dataclasses import replace

import pytest

from sim.clock import NS_PER_US, Pace, ProgramPace, VirtualClock
from strata.core.commands import Notify
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.engine.runner import Runner
from tests.engine.symbolic_card import PROGRAMS, Card, drafting_inventory, lending_inventory, prompt, symbolic_card

NS_PER_MS = 1000 * NS_PER_US
PACE = Pace(dict.fromkeys(PROGRAMS, ProgramPace(NS_PER_US, 1)))


def timed_card(clock: VirtualClock, *, has_room: bool = False) -> Card:
    inventory = drafting_inventory() if has_room else lending_inventory()
    policy = LendingPolicy(room_min_tokens=0 if has_room else -1)
    options = PlanOptions(4096, min_cache_slots=4, policy=policy)

    def make(device, recipe):  # type: ignore[no-untyped-def]
        return Runner(device, recipe, (1, 2), pause=lambda: None, clock=lambda: clock.times().now_ns / 1e9)

    arena_bytes = 1 << 20 if has_room else 1 << 19
    return symbolic_card(inventory, options, arena_bytes=arena_bytes, clock=clock, make_runner=make)


@pytest.mark.parametrize("has_room", [False, True])
def test_it_is_at_least_what_its_bytes_take_over_the_link(has_room: bool):
    clock = VirtualClock(PACE)
    served = timed_card(clock, has_room=has_room)
    served.serve(prompt(1500, max_tokens=3))
    facts = served.runner.read_facts()
    home_bytes = facts.refilled_bytes + facts.room_bytes
    assert home_bytes > 0 and (facts.room_bytes > 0) == has_room
    link_ms = home_bytes / PACE.link_bytes_per_us / 1e3
    assert link_ms <= facts.reclaim_ms < clock.times().now_ns / NS_PER_MS
    assert served.runner.snapshot().counts.reclaim_s == pytest.approx(facts.reclaim_ms / 1e3)


def test_a_request_that_lends_nothing_takes_no_time_and_gives_no_notice_of_it():
    clock = VirtualClock(PACE)
    served = timed_card(clock)
    served.serve(prompt(300, max_tokens=2))
    before = served.runner.snapshot().counts.reclaim_s
    del served.commands[:]
    served.serve(prompt(300, max_tokens=2))
    assert served.runner.read_facts() == replace(served.runner.read_facts(), lent_slots=0, reclaim_ms=0.0)
    assert served.runner.snapshot().counts.reclaim_s == before
    assert not [each for each in served.commands if isinstance(each, Notify) and each.tag.startswith("home ")]


def test_each_read_is_timed_by_itself():
    served = timed_card(VirtualClock(PACE))
    times = []
    for first in range(3):
        served.serve(prompt(600, first=first))
        times.append(served.runner.read_facts().reclaim_ms)
    assert all(time > 0 for time in times)
    assert served.runner.snapshot().counts.reclaim_s == pytest.approx(sum(times) / 1e3)
