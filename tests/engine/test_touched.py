"""A card whose programs were all run once at start is as ready as one whose were not."""

from dataclasses import replace
from functools import partial

from strata.core.memory.policy import NO_LENDING, LendingPolicy
from strata.engine.counts import RunnerCounts
from strata.engine.runner import Runner
from tests.engine import test_elastic
from tests.engine.symbolic_card import Card, drafting_inventory, hybrid_inventory, prompt, symbolic_card


class FirstExpert(Runner):
    """Every row goes to the first expert: during a start nobody can play the router."""

    def _routed_experts(self) -> tuple[int, ...]:
        return (0,)


def card(policy: LendingPolicy, *, is_touched: bool = True) -> Card:
    make_runner = partial(FirstExpert, terminators=(1, 2), pause=lambda: None, is_touched=is_touched)
    options = test_elastic.options(policy)
    return symbolic_card(drafting_inventory(), options, arena_bytes=test_elastic.ARENA_BYTES, make_runner=make_runner)


def test_what_is_lent_from_the_start_is_out_again_behind_the_touch():
    """`lending.md` 3.2: the engine becomes ready with these regions lent."""
    served, plain = card(test_elastic.ONCE), card(test_elastic.ONCE, is_touched=False)
    assert test_elastic.is_out(served) and test_elastic.is_out(plain)
    for each in (served, plain):
        each.serve(prompt(3000, first=1))
        test_elastic.assert_all_home(each)
    facts = served.runner.read_facts()
    assert facts.moved_segments > 0
    assert facts == plain.runner.read_facts()


def test_a_touch_counts_for_nothing():
    served = card(NO_LENDING)
    assert len(served.commands) > len(card(NO_LENDING, is_touched=False).commands)
    assert served.runner.snapshot().counts == RunnerCounts()


def test_a_touch_leaves_no_conversation_behind():
    """Not where short reads make it two requests, and parking is on."""
    options = replace(
        test_elastic.options(LendingPolicy(room_min_tokens=0, short_read_tokens=64)),
        parked_bytes=1 << 20,
        window_rows=3,
    )
    make_runner = partial(FirstExpert, terminators=(1, 2), pause=lambda: None, is_touched=True)
    for inventory in (drafting_inventory(), hybrid_inventory()):
        policy = options.policy if inventory.drafter else LendingPolicy(short_read_tokens=64)
        chosen = replace(options, policy=policy, checkpoint_bytes=1 << 14)
        served = symbolic_card(inventory, chosen, arena_bytes=test_elastic.ARENA_BYTES, make_runner=make_runner)
        found = served.runner.snapshot()
        assert (found.parked.listed, found.parked.counts.num_parked) == ((), 0)
        assert (found.checkpoints.listed, found.checkpoints.num_saved) == ((), 0)
        assert served.serve(prompt(9, max_tokens=2)) == 2
