"""`--draft-p-min` on a card: `python -m pytest -m gpu tests/cuda/test_likely_drafts_on_card.py`."""

import pytest

from strata.config.values import Mtp
from strata.core.memory.shapes import PlanOptions
from strata.core.units import MIB
from tests.cuda.test_programs_on_card import WHY_NO_CARD, bits, model_on_card
from tests.recipes.strata_tiny_chat import MODEL, first_questions

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(WHY_NO_CARD is not None, reason=str(WHY_NO_CARD))]

NUM_TOKENS = 64


def test_fewer_drafts_are_made_the_text_is_the_same_and_no_fewer_of_them_are_right() -> None:
    said, shares, drafted = [], [], []
    for least in (0.0, 0.5):
        options = PlanOptions(4096, window_rows=4, least_probability=least)
        with model_on_card(MODEL, options, mtp=Mtp(), arena_bytes=64 * MIB) as card:
            said.append([(card.serve(ids, max_tokens=NUM_TOKENS), bits(card)) for ids in first_questions(8)])
            counts = card.runner.snapshot().counts
        shares.append(counts.num_drafts_accepted / counts.num_drafts)
        drafted.append(counts.num_drafts)
        print(f"least {least}: {counts.num_drafts_accepted} of {counts.num_drafts} drafts")
    assert said[0] == said[1]
    assert 0 < drafted[1] < drafted[0]
    assert shares[1] >= shares[0]
