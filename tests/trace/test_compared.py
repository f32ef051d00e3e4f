"""What is told of several replays: nothing that one of them has alone goes unseen."""

import pytest

from strata.core.commands import Notify, Stream
from strata.trace.compared import OrderFound
from strata.trace.marks import Difference, Step, first_difference, marks_by_step
from strata.trace.replay import Deviation, Replayed

STEP = Step(3, "prompt", 0)


def found(*deviations: Deviation) -> OrderFound:
    return OrderFound("given", Replayed(5, 4, deviations, (), {}), 1, difference=None, wrong_run=None)


def refusal(kind: str) -> Deviation:
    return Deviation(3, Notify(Stream.PROMPT, "done"), recorded="OrderError", found=kind, message="")


def test_an_order_that_the_card_refused_is_not_equal():
    assert found().is_equal
    assert found(refusal("")).is_equal  # the twin had refused it, a card takes it
    assert not found(refusal("DeviceError")).is_equal


def test_a_mark_that_only_one_replay_has_is_a_difference():
    assert first_difference({STEP: 7}, {STEP: 7}) is None
    assert first_difference({STEP: 7}, {}) == Difference(STEP, 7, None)
    assert first_difference({}, {STEP: 7}) == Difference(STEP, None, 7)
    assert first_difference({}, {STEP: 7}, before_line=3) is None


def test_a_lane_may_be_short_and_never_long():
    assert marks_by_step({"prompt": [3, 5]}, {"prompt": [7], "copy": []}) == {STEP: 7}
    for marks in ({"prompt": [7, 8, 9]}, {"copy": [1]}):
        with pytest.raises(AssertionError):
            marks_by_step({"prompt": [3, 5]}, marks)
