"""Replies of the engine with drafters of which it is known what they draft: text, counts and sessions."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from strata.config.values import Mtp
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.engine.reply import Reply
from strata.engine.thread import run_inline
from strata.engine.ticket import RequestTicket
from strata.engine.updates import Finished, Text
from strata.model.text_stream import TextStream
from tests.end_to_end.real_card import GREEDY, RealCard, real_card
from tests.fixtures.drafting_models import LETTERS, write_cycle_drafter, write_distribution_drafter
from tests.fixtures.models import CycleModel
from tests.fixtures.vocabulary import IM_END

pytestmark = pytest.mark.slow

CONTEXT = 64
OPTIONS = PlanOptions(CONTEXT, chunk_tokens=16, ring_slots=3, num_cache_slots=6, min_cache_slots=2)
PROMPT = (*b"what comes behind this?", ord("\n"))
WRONG = tuple(letter for index, letter in enumerate(LETTERS) if index % 7 in (1, 2, 5))
"""Behind which a draft is wrong: with no period that a window could fall in step with."""


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> CycleModel:
    return write_cycle_drafter(tmp_path_factory.mktemp("right") / "model.gguf", context=CONTEXT)


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> CycleModel:
    """A hybrid, so that state follows too."""
    path = tmp_path_factory.mktemp("half") / "model.gguf"
    return write_cycle_drafter(path, arch="qwen35moe", wrong_behind=WRONG, context=CONTEXT)


@contextmanager
def talking(model: CycleModel | Path, window_rows: int) -> Iterator[RealCard]:
    path = model if isinstance(model, Path) else model.path
    options = replace(OPTIONS, window_rows=window_rows)
    with real_card(path, options, mtp=Mtp(), terminators=(IM_END,), arena_bytes=32 << 20) as card:
        yield card


def reply_of(
    card: RealCard,
    model: CycleModel,
    ids: tuple[int, ...],
    *,
    max_tokens: int = 30,
    stop: tuple[str, ...] = (),
    sampling: SamplingParams = GREEDY,
) -> tuple[str, Finished]:
    """As the steward serves it."""
    ticket = RequestTicket(GenerationRequest("r", ids, max_tokens, sampling, stop))
    stream = TextStream(lambda token_id: model.vocabulary.text_of([token_id]), stop)

    async def serve() -> tuple[str, Finished]:
        reply = Reply(ticket, stream, frozenset(card.terminators), card.runner, run_inline, trio.current_time)
        finished = await reply.run()
        assert finished is not None
        ticket.close(finished)
        return "".join([update.text async for update in ticket.updates() if isinstance(update, Text)]), finished

    return trio.run(serve)


def counted(finished: Finished) -> tuple[int, int]:
    """Tokens of prompt and reply. How many were cached depends on whether something drafts."""
    return finished.usage.prompt_tokens, finished.usage.completion_tokens


@pytest.mark.parametrize("window_rows", [2, 5, 8])
def test_drafts_that_are_right_are_all_accepted(right: CycleModel, window_rows: int) -> None:
    with talking(right, window_rows) as card:
        text, finished = reply_of(card, right, PROMPT, max_tokens=33)
        assert text.encode() == right.reply_bytes(PROMPT[-1], 33)
        full_windows = 32 // window_rows
        expected = full_windows * (window_rows - 1) + max(32 % window_rows - 1, 0)
        assert (finished.timings.draft_n, finished.timings.draft_n_accepted) == (expected, expected)


@pytest.mark.parametrize("window_rows", [2, 4])
def test_some_drafts_are_taken_back_where_some_are_wrong(half: CycleModel, window_rows: int) -> None:
    with talking(half, window_rows) as card:
        text, finished = reply_of(card, half, PROMPT, max_tokens=33)
        assert text.encode() == half.reply_bytes(PROMPT[-1], 33)
        share = finished.timings.draft_n_accepted / finished.timings.draft_n
        assert 0.2 < share < 0.7


@pytest.mark.parametrize("name", ["right", "half"])
def test_a_stop_string_ends_a_reply_inside_a_window(request: pytest.FixtureRequest, name: str) -> None:
    """And what the window sampled behind it is in no session: the same continuation has the same bits."""
    model: CycleModel = request.getfixturevalue(name)
    with talking(model, 1) as one, talking(model, 5) as wide:
        for stop in ("f", "ef", "def", "cdefghijk", "z012"):
            said = []
            for card in (one, wide):
                text, finished = reply_of(card, model, PROMPT, stop=(stop,))
                assert text == LETTERS.decode()[: LETTERS.decode().index(stop)]
                session = card.runner._state.at.session.ids
                longer = (*session, ord("n"), ord("q"))
                said.append((text, finished.reason, counted(finished), session, card.serve(longer), list(card.logits)))
                # Where state can be rewound, one token is read again for the drafter.
                assert card.cached_tokens == len(session) - (card is wide and name == "right")
            assert said[0] == said[1]
            assert said[0][1] == "stop"


def test_the_token_that_ends_a_reply_ends_it_inside_a_window(right: CycleModel) -> None:
    with talking(right, 5) as card:
        near_the_end = (*PROMPT[:-1], LETTERS[-3])
        text, finished = reply_of(card, right, near_the_end)
        assert text.encode() == LETTERS[-2:]
        assert (finished.reason, finished.usage.completion_tokens) == ("stop", 3)


@pytest.mark.parametrize(("name", "window_rows"), [("right", 8), ("half", 3)])
def test_replies_up_to_the_end_of_the_context_are_those_without_drafts(
    request: pytest.FixtureRequest, name: str, window_rows: int
) -> None:
    """The drafter writes no cell past its K/V, which its program would refuse."""
    model: CycleModel = request.getfixturevalue(name)
    with talking(model, window_rows) as wide, talking(model, 1) as one:
        for num_left in range(1, window_rows + 3):
            ids = (LETTERS * 2)[: CONTEXT - num_left - 1] + b"\n"
            replies = [reply_of(card, model, tuple(ids), max_tokens=num_left) for card in (wide, one)]
            (text, finished), (expected, plain) = replies
            assert (text, finished.reason, counted(finished)) == (expected, "length", counted(plain))
            assert finished.usage.prompt_tokens + finished.usage.completion_tokens == CONTEXT
            assert finished.timings.draft_n == 0 or num_left > 2


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_drafts_are_accepted_at_every_temperature(tmp_path: Path, temperature: float) -> None:
    """Of a model that is not sure what comes next, though its drafter always says the likeliest."""
    model = write_cycle_drafter(tmp_path / "model.gguf", margin=6.0, context=CONTEXT, reaches_end=False)
    sampling = SamplingParams(temperature=temperature, seed=3, repetition_penalty=1.1)
    with talking(model, 1) as card:
        expected, _ = reply_of(card, model, PROMPT, max_tokens=36, sampling=sampling)
    with talking(model, 4) as card:
        text, finished = reply_of(card, model, PROMPT, max_tokens=36, sampling=sampling)
    assert text == expected and text.encode() != model.reply_bytes(PROMPT[-1], 36)
    assert 0 < finished.timings.draft_n_accepted < finished.timings.draft_n


@pytest.mark.parametrize("num_replies", [12, pytest.param(500, marks=pytest.mark.soak)])
def test_the_distribution_of_replies_with_drafts_is_the_models(tmp_path: Path, num_replies: int) -> None:
    """Chi-square over six tokens, five degrees of freedom: 25.7 is exceeded once in ten thousand times."""
    probabilities = {65: 0.4, 66: 0.25, 67: 0.15, 68: 0.1, 69: 0.06, 70: 0.04}
    path = write_distribution_drafter(tmp_path / "model.gguf", probabilities)
    seen = dict.fromkeys(probabilities, 0)
    with talking(path, 4) as card:
        for seed in range(num_replies):
            for token_id in card.serve(PROMPT, max_tokens=40, sampling=SamplingParams(seed=seed)):
                seen[token_id] += 1
        counts = card.runner.snapshot().counts
    assert 0.15 < counts.num_drafts_accepted / counts.num_drafts < 0.45
    total = sum(seen.values())
    assert total == num_replies * 40
    assert sum((seen[t] - total * p) ** 2 / (total * p) for t, p in probabilities.items()) < 25.7
