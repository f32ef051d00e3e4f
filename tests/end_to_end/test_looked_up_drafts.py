"""Drafts without a drafter: a reply with drafts looked up in the conversation is the reply without, token for token and
bit for bit of its logits; recurrent state follows the rows that stood."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import SamplingParams
from tests.end_to_end.dictated_drafts import StateLog
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

OPTIONS = PlanOptions(192, chunk_tokens=16, ring_slots=3, num_cache_slots=6, min_cache_slots=2)
"""Six of sixteen blobs are resident, so windows of any width miss."""
PROMPT = (*range(40, 46), 90, *range(40, 46), 91, *range(60, 66))
MAX_TOKENS = 24
FEW = ((40, 9.0), (41, 9.0), (42, 8.0))
"""The reply consists of these, so that it often says again what was said, and often something else."""
SAMPLINGS = (
    SamplingParams(temperature=0.0, logit_bias=FEW),
    SamplingParams(
        temperature=0.0, repetition_penalty=1.4, presence_penalty=0.8, frequency_penalty=0.6, logit_bias=FEW
    ),
    SamplingParams(temperature=0.7, seed=5, repetition_penalty=1.2, frequency_penalty=0.5, logit_bias=FEW),
    SamplingParams(temperature=1.0, seed=9, presence_penalty=1.0, top_p=0.9, logit_bias=FEW),
)


@dataclass
class Looking:
    card: RealCard
    states: StateLog

    def talk(self, sampling: SamplingParams, max_tokens: int = MAX_TOKENS) -> tuple[list[int], list[bytes]]:
        self.states.clear()
        said = self.card.serve(PROMPT, max_tokens=max_tokens, sampling=sampling)
        return said, list(self.card.logits)


@contextmanager
def looking_up(path: Path, window_rows: int) -> Iterator[Looking]:
    states = StateLog()
    options = replace(OPTIONS, window_rows=window_rows)
    with real_card(path, options, change=states.change) as card:
        assert card.planned.plan.draft is None
        yield Looking(card, states)


@dataclass(frozen=True)
class Expected:
    path: Path
    replies: tuple[tuple[list[int], list[bytes]], ...]
    states: tuple[dict[int, dict[int, str]], ...]


@pytest.fixture(scope="module", params=["qwen3moe", "qwen35moe"])
def expected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    path = write_random_model(tmp_path_factory.mktemp("models") / "model.gguf", arch=request.param, seed=4)
    replies, states = [], []
    with looking_up(path, 1) as one:
        for sampling in SAMPLINGS:
            replies.append(one.talk(sampling))
            states.append({layer: dict(rows) for layer, rows in one.states.digests.items()})
        assert one.card.runner.snapshot().counts.num_drafts == 0
    return Expected(path, tuple(replies), tuple(states))


@pytest.mark.parametrize(
    "window_rows", [2, 4, 8, *(pytest.param(rows, marks=pytest.mark.soak) for rows in (3, 5, 6, 7))]
)
def test_replies_with_looked_up_drafts_have_the_ids_and_logits_of_those_without(
    expected: Expected, window_rows: int
) -> None:
    num_accepted = num_rolled_back = 0
    with looking_up(expected.path, window_rows) as wide:
        for sampling, reply, states in zip(SAMPLINGS, expected.replies, expected.states, strict=True):
            assert wide.talk(sampling) == reply
            facts = wide.card.runner.draft_facts()
            num_accepted += facts.num_accepted
            num_rolled_back += facts.num_drafts - facts.num_accepted
            for layer, digests in wide.states.digests.items():
                assert digests.items() <= states[layer].items()
                assert max(digests) == max(states[layer])
        assert num_accepted > 5 and num_rolled_back > 5
        assert bool(wide.states.num_commits) is any(extent.size_bytes for extent in wide.card.planned.plan.state)


def test_a_reply_that_ends_inside_a_window_is_the_beginning_of_the_longer_one(expected: Expected) -> None:
    ids, logits = expected.replies[2]
    with looking_up(expected.path, 5) as wide:
        for max_tokens in (1, 2, 3, 7, 12):
            assert wide.talk(SAMPLINGS[2], max_tokens) == (ids[:max_tokens], logits[:max_tokens])
            assert wide.card.runner._state.at.session.ids == (*PROMPT, *ids[: max_tokens - 1])
