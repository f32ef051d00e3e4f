"""Nothing adds up over many requests: the card is byte for byte what it was after every round, with every loan on."""

import pytest

from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.states import Idle
from tests.engine.symbolic_card import Card, drafting_inventory, prompt, symbolic_card

NUM_ROUNDS = 40
CONTEXT_TOKENS = 4096
ALL = LendingPolicy(room_min_tokens=0, is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=1024)
NEAR_CONTEXT = CONTEXT_TOKENS - 16


def allocations(served: Card) -> tuple[object, ...]:
    """Everything that could grow: owners and segments by the twin and by the books, notices apart."""
    at, statistics = served.runner._state.at, served.device.statistics()
    return (
        served.device.card_map(),
        at.ledger,
        at.backing,
        at.is_lending,
        at.ordered,
        statistics.mapped_bytes,
        len(served.device._graphs),
    )


@pytest.mark.slow
def test_forty_rounds_of_short_and_near_context_prompts_leave_the_card_as_it_was():
    options = PlanOptions(
        CONTEXT_TOKENS, min_cache_slots=4, ring_slots=4, policy=ALL, segment_bytes=1 << 16, window_rows=4
    )
    served = symbolic_card(drafting_inventory(), options, arena_bytes=15 << 16)
    served.serve(prompt(7, max_tokens=2))
    expected, moved, rooms, lent = None, set(), 0, 0
    for number in range(NUM_ROUNDS):
        for num_tokens in (7 + number, NEAR_CONTEXT - number, 61):
            served.serve(prompt(num_tokens, max_tokens=4, first=number % 29))
            facts = served.runner.read_facts()
            moved.add(facts.moved_segments)
            rooms += facts.room_slots > 0
            lent += facts.lent_slots > 0
        assert isinstance(served.runner._state, Idle)
        found = allocations(served)
        expected = expected or found
        assert found == expected, number
    assert len(moved) == 2 and max(moved) > 0
    assert rooms > 0 and lent > 0
    assert served.runner.snapshot().counts.num_drafts > 0
