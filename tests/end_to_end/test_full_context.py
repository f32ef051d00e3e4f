"""A reply that fills the context to its last position is drafted for until there are no cells to draft in."""

from pathlib import Path

import pytest

from strata.core.config.values import Mtp
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import GenerationRequest
from strata.engine.runner import HasSampled
from tests.end_to_end.real_card import GREEDY, real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

CONTEXT = 32
IDS = tuple(range(20))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "model.gguf", arch="qwen3moe", nextn=1)


def reply(path: Path, *, window_rows: int) -> tuple[list[int], int]:
    """Every token that the context has a position for, and how many were drafted."""
    mtp = Mtp() if window_rows > 1 else None
    with real_card(path, PlanOptions(CONTEXT, window_rows=window_rows), mtp=mtp) as card:
        card.runner.begin(GenerationRequest("r", IDS, CONTEXT - len(IDS), GREEDY))
        token_ids: list[int] = []
        while True:
            outcome = card.runner.advance(is_cancelled=False)
            if isinstance(outcome, HasSampled):
                token_ids += outcome.token_ids
                if len(token_ids) == CONTEXT - len(IDS):
                    card.runner.end()
                    return token_ids, card.runner.draft_facts().num_drafts
                card.runner.resume(*outcome.token_ids)


def test_a_reply_to_the_end_of_the_context_is_that_without_drafts(path: Path) -> None:
    expected, _ = reply(path, window_rows=1)
    for window_rows in (2, 5, 6, 8):
        token_ids, num_drafts = reply(path, window_rows=window_rows)
        assert token_ids == expected, window_rows
        assert num_drafts > 0, window_rows
