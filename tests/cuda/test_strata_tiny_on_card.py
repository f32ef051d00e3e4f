"""The room with a real drafter, on a card: `python -m pytest -m gpu tests/cuda/test_strata_tiny_on_card.py`."""

import pytest

from strata.config.values import Mtp
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.units import MIB
from tests.cuda.model_on_fake import ModelOnCard, block_is_home
from tests.cuda.test_programs_on_card import WHY_NO_CARD, bits, model_on_card
from tests.recipes.strata_tiny_chat import MODEL, first_questions, long_chat

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(WHY_NO_CARD is not None, reason=str(WHY_NO_CARD))]

CONTEXT, NUM_TOKENS = 4096, 64
ROOM = LendingPolicy(room_min_tokens=0, is_verified=True)
PLAIN = PlanOptions(CONTEXT, window_rows=3)
LENDING = PlanOptions(CONTEXT, window_rows=3, min_cache_slots=16, policy=ROOM)


def asked(card: ModelOnCard, ids: tuple[int, ...]) -> tuple[tuple[int, ...], list[object]]:
    """The reply, and all that another card must say too: its bits, and what became of its drafts."""
    reply = card.serve(ids, max_tokens=NUM_TOKENS)
    assert block_is_home(card)
    return tuple(reply), [reply, bits(card), card.runner.draft_facts()]


def test_a_drafter_whose_block_was_lent_drafts_as_well_as_one_that_was_not() -> None:
    """Behind a long prompt, its continuation and another question."""
    prompt, (question, other), seen = long_chat(1500), first_questions(2), []
    for options, arena_bytes in ((PLAIN, 64 * MIB), (LENDING, 20 * MIB)):
        with model_on_card(MODEL, options, mtp=Mtp(), arena_bytes=arena_bytes) as card:
            reply, first = asked(card, prompt)
            _, second = asked(card, (*prompt, *reply, *question))
            _, third = asked(card, other)
            counts = card.runner.snapshot().counts
        assert (counts.num_rooms, counts.room_bytes > 0) == ((3, True) if options is LENDING else (0, False))
        assert counts.num_drafts_accepted > 0
        seen.append((first, second, third))
    assert seen[0] == seen[1]


def test_drafts_change_no_token_and_most_first_ones_are_right() -> None:
    prompts, replies = first_questions(16), {}
    for rows in (1, 2, 3):
        options, mtp = PlanOptions(CONTEXT, window_rows=rows), Mtp() if rows > 1 else None
        with model_on_card(MODEL, options, mtp=mtp, arena_bytes=64 * MIB) as card:
            replies[rows] = [card.serve(ids, max_tokens=NUM_TOKENS) for ids in prompts]
            counts = card.runner.snapshot().counts
        num_windows = len(prompts) * NUM_TOKENS - counts.num_drafts_accepted
        print(f"{rows} rows: {counts.num_drafts_accepted} of {counts.num_drafts} drafts, {num_windows} windows")
        if rows == 2:
            assert counts.num_drafts_accepted >= 0.6 * counts.num_drafts > 0
        if rows == 3:
            assert len(prompts) * NUM_TOKENS >= 1.3 * num_windows
    assert replies[1] == replies[2] == replies[3]
