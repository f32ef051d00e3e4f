"""A reply with drafts is the reply without, token for token and bit for bit of its logits, however many drafts there
are and wherever they are wrong; recurrent state follows the rows that stood."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from strata.config.values import Mtp
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import SamplingParams
from strata.device import Program
from tests.end_to_end.dictated_drafts import Drafted, Prophet, StateLog
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

VOCAB = 320
OPTIONS = PlanOptions(192, chunk_tokens=16, ring_slots=3, num_cache_slots=6, min_cache_slots=2)
"""Six of sixteen blobs are resident, so windows of any width miss."""
PROMPT = tuple((11 * i * i + 5 * i) % 300 for i in range(20))
MAX_TOKENS = 16
BIAS = ((7, 1.5), (41, -3.0), (250, 2.0))
SAMPLINGS = (
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=0.0, repetition_penalty=1.4, presence_penalty=0.8, frequency_penalty=0.6),
    SamplingParams(temperature=0.7, seed=5, repetition_penalty=1.2, frequency_penalty=0.5, logit_bias=BIAS),
    SamplingParams(temperature=1.0, seed=9, presence_penalty=1.0, top_p=0.9, logit_bias=BIAS),
)


def often(index: int) -> bool:
    """Windows of one right row up to all of them."""
    return index % 7 not in (0, 3)


@dataclass
class Drafting:
    card: RealCard
    prophet: Prophet
    states: StateLog

    def talk(self, sampling: SamplingParams, ids: tuple[int, ...] = (), max_tokens: int = MAX_TOKENS) -> object:
        """All that a reply is. `ids`: prompt and reply as they are to be, for the prophet."""
        self.prophet.ids = ids
        self.states.clear()
        said = self.card.serve(PROMPT, max_tokens=max_tokens, sampling=sampling)
        return said, list(self.card.logits)


@contextmanager
def drafting(
    path: Path, window_rows: int, *, terminators: tuple[int, ...] = (), options: PlanOptions = OPTIONS
) -> Iterator[Drafting]:
    prophet, states = Prophet(often, VOCAB), StateLog()

    def change(programs: dict[str, Program]) -> dict[str, Program]:
        return states.change(prophet.change(programs))

    options = replace(options, window_rows=window_rows)
    with real_card(path, options, mtp=Mtp(), change=change, terminators=terminators) as card:
        yield Drafting(card, prophet, states)


@dataclass(frozen=True)
class Expected:
    path: Path
    replies: tuple[tuple[list[int], list[bytes]], ...]
    states: tuple[dict[int, dict[int, str]], ...]


@pytest.fixture(scope="module", params=["qwen3moe", "qwen35moe"])
def expected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return without_drafts(tmp_path_factory.mktemp("models") / "model.gguf", request.param)


def without_drafts(path: Path, arch: str) -> Expected:
    """With a drafter that has nothing to draft."""
    write_random_model(path, arch=arch, nextn=1, seed=4)
    replies, states = [], []
    with drafting(path, 1) as one:
        for sampling in SAMPLINGS:
            replies.append(one.talk(sampling))
            states.append({layer: dict(rows) for layer, rows in one.states.digests.items()})
        assert one.card.runner.snapshot().counts.num_drafts == 0
    return Expected(path, tuple(replies), tuple(states))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "window_rows", [2, 4, 8, *(pytest.param(rows, marks=pytest.mark.soak) for rows in (3, 5, 6, 7))]
)
def test_replies_with_drafts_have_the_ids_and_logits_of_those_without(expected: Expected, window_rows: int) -> None:
    check_replies(expected, window_rows)


@pytest.mark.parametrize("arch", ["qwen3next", "glm4moe", "qwen35"])
def test_replies_of_other_families_are_equal_too(tmp_path: Path, arch: str) -> None:
    check_replies(without_drafts(tmp_path / "model.gguf", arch), 4)


@pytest.mark.soak
def test_replies_are_equal_while_blobs_are_exchanged_between_windows_of_several_rows(expected: Expected) -> None:
    assert check_replies(expected, 4, replace(OPTIONS, num_swaps=2, swap_windows=1)) > 2


def check_replies(expected: Expected, window_rows: int, options: PlanOptions = OPTIONS) -> int:
    """At every temperature, with penalties, bias and misses; the state after each commit is that of single rows. Gives
    the number of blobs exchanged."""
    with drafting(expected.path, window_rows, options=options) as wide:
        for sampling, reply, states in zip(SAMPLINGS, expected.replies, expected.states, strict=True):
            before = wide.card.runner.snapshot().counts
            assert wide.talk(sampling, (*PROMPT, *reply[0])) == reply
            counts = wide.card.runner.snapshot().counts
            accepted = counts.num_drafts_accepted - before.num_drafts_accepted
            rolled_back = counts.num_drafts - before.num_drafts - accepted
            assert accepted > 3 and rolled_back > 0
            has_missed = counts.expert_reads_missed > before.expert_reads_missed
            assert has_missed is (wide.card.planned.plan.num_missing_pairs > 0)
            assert wide.states.digests.keys() == states.keys()
            for layer, digests in wide.states.digests.items():
                assert len(digests) > 3
                assert digests.items() <= states[layer].items()
        assert bool(wide.states.num_commits) is any(extent.size_bytes for extent in wide.card.planned.plan.state)
        return wide.card.runner.snapshot().counts.num_swaps


@pytest.mark.parametrize("window_rows", [4, pytest.param(8, marks=pytest.mark.soak)])
def test_replies_are_equal_where_unlikely_drafts_have_no_row(expected: Expected, window_rows: int) -> None:
    """Also where the drafts that are left out would have stood."""
    options = replace(OPTIONS, least_probability=0.5)
    with drafting(expected.path, window_rows, options=options) as some, drafting(expected.path, window_rows) as all_:
        some.prophet.is_sure = lambda index: index % 5 != 2
        for sampling, reply, states in zip(SAMPLINGS, expected.replies, expected.states, strict=True):
            ids = (*PROMPT, *reply[0])
            assert some.talk(sampling, ids) == all_.talk(sampling, ids) == reply
            for layer, digests in some.states.digests.items():
                assert digests.items() <= states[layer].items()
            fewer, more = some.card.runner.draft_facts(), all_.card.runner.draft_facts()
            assert 0 < fewer.num_accepted < fewer.num_drafts < more.num_drafts


def test_what_the_drafter_finds_likely_is_the_softmax_of_its_logits(expected: Expected) -> None:
    drafted = Drafted()
    with real_card(expected.path, replace(OPTIONS, window_rows=4), mtp=Mtp(), change=drafted.change) as card:
        card.serve(PROMPT, max_tokens=8)
    assert len(drafted.said) > 3
    for (logits, token), probability in zip(drafted.said, drafted.probabilities, strict=True):
        row = torch.frombuffer(bytearray(logits), dtype=torch.float32).double()
        assert probability == pytest.approx(float(row.softmax(0)[token]), rel=1e-9) and token == int(row.argmax())


def test_a_reply_that_ends_inside_a_window_is_the_beginning_of_the_longer_one(expected: Expected) -> None:
    ids, logits = expected.replies[2]
    with drafting(expected.path, 5) as wide:
        for max_tokens in (1, 2, 3, 4, 6, 9):
            said = wide.talk(SAMPLINGS[2], (*PROMPT, *ids), max_tokens)
            assert said == (ids[:max_tokens], logits[:max_tokens])
            assert wide.card.runner._state.at.session.ids == (*PROMPT, *ids[: max_tokens - 1])
            for layer, digests in wide.states.digests.items():
                last = max(digests)
                assert last == max_tokens and digests[last] == expected.states[2][layer][last]


def test_terminators_and_min_tokens_end_a_reply_where_they_do_without_drafts(expected: Expected) -> None:
    ids = expected.replies[2][0]
    terminators = (ids[9], ids[14])
    num_ends = 0
    for min_tokens in (0, 4):
        sampling = replace(SAMPLINGS[2], min_tokens=min_tokens)
        with drafting(expected.path, 1, terminators=terminators) as one:
            reply = one.talk(sampling)
            states = {layer: dict(rows) for layer, rows in one.states.digests.items()}
        with drafting(expected.path, 8, terminators=terminators) as wide:
            said = wide.talk(sampling, (*PROMPT, *reply[0], *ids))  # type: ignore[index]
            assert said == reply
            assert wide.card.runner.snapshot().counts.num_drafts_accepted > 0
            for layer, digests in wide.states.digests.items():
                assert digests.items() <= states[layer].items()
                assert max(digests) == max(states[layer])
        num_ends += len(reply[0]) < MAX_TOKENS  # type: ignore[index]
    assert num_ends == 2


def test_a_session_that_goes_on_or_is_rewound_is_replied_to_as_without_drafts(expected: Expected) -> None:
    """Where state can be rewound, one token is read again for the drafter."""
    reply = expected.replies[2][0]
    prompts = ((*PROMPT, *reply, 5, 6, 7), (*PROMPT[:12], 9, *PROMPT[5:9]), (*PROMPT[:12], 9, *PROMPT[5:9], 3))
    with drafting(expected.path, 1) as one:
        one.talk(SAMPLINGS[2])
        said = [(one.card.serve(ids, max_tokens=9, sampling=SAMPLINGS[2]), list(one.card.logits)) for ids in prompts]
        cached_tokens = one.card.cached_tokens
    with drafting(expected.path, 5) as wide:
        assert wide.talk(SAMPLINGS[2], (*PROMPT, *reply)) == expected.replies[2]
        for ids, (token_ids, logits) in zip(prompts, said, strict=True):
            wide.prophet.ids = (*ids, *token_ids)
            assert (wide.card.serve(ids, max_tokens=9, sampling=SAMPLINGS[2]), wide.card.logits) == (token_ids, logits)
            facts = wide.card.runner.draft_facts()
            assert 0 < facts.num_accepted < facts.num_drafts
        has_state = any(extent.size_bytes for extent in wide.card.planned.plan.state)
        assert wide.card.cached_tokens == cached_tokens - (0 if has_state else 1)
