"""Which worlds a planted bug is looked for in, by what was reached before."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from fuzz.campaign import Tally, run_seed
from fuzz.draw import Drawn, draw_world, geometry_that_lends
from fuzz.guide import ENDS_EVERY, OTHERS_EVERY, TOLD_BY, Guide, features_of
from fuzz.reach import Reach
from fuzz.scenes import Scene

PLAIN = Drawn(geometry_that_lends(), Scene.NONE, Random(0))
SWAPPING = Drawn(replace(PLAIN.geometry, num_swaps=2), Scene.NONE, Random(0))


def play(guide: Guide, drawn: Drawn, *, reaches: bool = False, at_its_end: bool = False) -> tuple[bool, bool]:
    """Whether the world is wanted, and its end."""
    guide.begins()
    if not guide.wants(drawn):
        return False, False
    if reaches and not at_its_end:
        guide.reach._mark()
    wants_end = guide.wants_end()
    if reaches and at_its_end and wants_end:
        guide.reach._mark()
    return True, wants_end


def told(num_worlds: int = TOLD_BY, **how: bool) -> Guide:
    guide = Guide(Reach())
    for _ in range(num_worlds):
        assert play(guide, SWAPPING, reaches=True, **how) == (True, True)
    return guide


def test_features_tell_worlds_apart() -> None:
    assert features_of(SWAPPING) - features_of(PLAIN) == {"swaps"}
    every = frozenset().union(*(features_of(draw_world(seed)) for seed in range(300)))
    assert {"stages", "room", "elastic", "budget", "recurrent", "slab", "scene leave"} <= every


def test_until_a_few_worlds_reached_the_line_all_are_wanted() -> None:
    guide = told(TOLD_BY - 1)
    assert all(play(guide, PLAIN)[0] for _ in range(20))


def test_then_one_in_eight_of_those_that_lack_what_all_had() -> None:
    guide = told()
    assert sum(play(guide, PLAIN)[0] for _ in range(10 * OTHERS_EVERY)) == 10
    assert all(play(guide, SWAPPING)[0] for _ in range(20))


def test_one_that_reaches_the_line_without_it_teaches_that_it_is_not_needed() -> None:
    guide = told()
    while not play(guide, PLAIN, reaches=True)[0]:
        pass
    assert all(play(guide, PLAIN)[0] for _ in range(20))


def test_a_world_that_does_not_come_there_is_mostly_left_without_its_end() -> None:
    guide = told()
    assert sum(play(guide, SWAPPING)[1] for _ in range(10 * ENDS_EVERY)) == 10


@pytest.mark.parametrize("num_worlds", [0, 1])
def test_ends_are_wanted_where_nothing_is_known_and_where_ends_reach_the_line(num_worlds: int) -> None:
    guide = told(num_worlds, at_its_end=True)
    assert all(play(guide, SWAPPING) == (True, True) for _ in range(20))


def test_a_mark_while_modules_are_imported_tells_nothing() -> None:
    reach = Reach()
    reach._mark()
    guide = Guide(reach)
    assert all(play(guide, drawn) == (True, True) for drawn in (PLAIN, SWAPPING) * 20)


def test_a_mark_while_a_world_is_drawn_is_that_worlds() -> None:
    guide = Guide(Reach())
    guide.begins()
    guide.wants(PLAIN)
    guide.begins()
    guide.reach._mark()  # the planner's, at the next draw
    guide.wants(SWAPPING)
    guide.begins()
    assert (guide.num_told, guide.common) == (1, features_of(SWAPPING))


def test_what_is_not_wanted_is_in_no_tally() -> None:
    class Nothing:
        begins: Callable[[], None] = staticmethod(lambda: None)

        def wants(self, drawn: Drawn) -> bool:
            return False

        def wants_end(self) -> bool:
            raise AssertionError("of a world that is not played")

    tally = Tally()
    assert run_seed(1, tally, chooser=Nothing()) is None
    assert (tally.runs, tally.steps) == (0, 0)
