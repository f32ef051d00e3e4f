"""What is drafted behind a prefix that was taken over is what a card just started drafts, bit for bit, and as many
drafts are accepted (case B8): behind a live end, a checkpoint, a parked conversation, a reply that was cut or given up,
also where the token behind the prefix is another one than before."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from strata.config.values import Mtp
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.core.serving.standing import forgetful
from strata.core.serving.states import Windowing
from strata.engine.runner import HasClosed, HasSampled
from strata.engine.updates import DraftFacts
from tests.end_to_end.dictated_drafts import Drafted
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.drafting_models import write_random_drafter

pytestmark = pytest.mark.slow

MIB = 1 << 20
END = 7
OPTIONS = PlanOptions(512, chunk_tokens=16, ring_slots=3, min_cache_slots=4, checkpoint_bytes=MIB, parked_bytes=MIB)
WAYS = {
    "chunks": LendingPolicy(),
    "windows": LendingPolicy(short_read_tokens=64),
    "room": LendingPolicy(room_min_tokens=0),
}
MAX_TOKENS = 12
SAMPLING = SamplingParams(temperature=0.7, seed=3)


def turn(name: int, num_tokens: int) -> tuple[int, ...]:
    """The last of its tokens ends it."""
    return (*((11 * i * i + 5 * i + 37 * name) % 290 + 10 for i in range(num_tokens - 1)), END)


HISTORY = (*turn(0, 20), *turn(1, 30))


@dataclass(frozen=True)
class Said:
    """Of one request: its reply and the bits of its logits, what was drafted, and what became of it."""

    reply: list[int]
    logits: list[bytes]
    drafted: list[tuple[bytes, int]]
    facts: DraftFacts


@dataclass
class Talker:
    card: RealCard
    drafted: Drafted

    def say(self, ids: tuple[int, ...]) -> Said:
        self.drafted.said.clear()
        reply = self.card.serve(ids, max_tokens=MAX_TOKENS, sampling=SAMPLING)
        return Said(reply, list(self.card.logits), list(self.drafted.said), self.card.runner.draft_facts())

    def cut(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """Reply until a window gives several tokens, and take all of them but the last, as where a stop string ends."""
        runner, taken = self.card.runner, []
        runner.begin(GenerationRequest("r", ids, 40, SAMPLING))
        while True:
            outcome = runner.advance(is_cancelled=False)
            if isinstance(outcome, HasSampled) and len(outcome.token_ids) > 1:
                runner.end(num_taken=len(outcome.token_ids) - 1)
                return (*taken, *outcome.token_ids[:-1])
            if isinstance(outcome, HasSampled):
                taken += outcome.token_ids
                runner.resume(*outcome.token_ids)

    def leave(self, ids: tuple[int, ...], *, num_windows: int) -> tuple[int, ...]:
        """A client that goes while window `num_windows` runs; what the session holds then."""
        runner = self.card.runner
        runner.begin(GenerationRequest("r", ids, 40, SAMPLING))
        while True:
            num_windows -= isinstance(runner._state, Windowing)
            outcome = runner.advance(is_cancelled=num_windows == 0)
            if isinstance(outcome, HasClosed):
                return runner._state.at.session.ids
            if isinstance(outcome, HasSampled):
                runner.resume(*outcome.token_ids)


@contextmanager
def talker(path: Path, options: PlanOptions) -> Iterator[Talker]:
    drafted = Drafted()
    with real_card(path, options, mtp=Mtp(), terminators=(END,), change=drafted.change) as card:
        yield Talker(card, drafted)


@dataclass(frozen=True)
class Model:
    path: Path
    is_hybrid: bool
    cold: Callable[[tuple[int, ...], int], Said]


RARE_FAMILIES = [pytest.param(name, marks=pytest.mark.soak) for name in ("qwen3next", "glm4moe")]


@pytest.fixture(scope="module", params=["qwen35moe", "qwen3moe", *RARE_FAMILIES])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """`cold`: what a card that holds nothing says to a prompt with so many rows a window, each computed once."""
    path = write_random_drafter(tmp_path_factory.mktemp("models") / "model.gguf", arch=request.param, seed=2)
    said: dict[tuple[tuple[int, ...], int], Said] = {}
    cards: dict[int, Talker] = {}

    def cold(ids: tuple[int, ...], rows: int) -> Said:
        if rows not in cards:
            options = replace(OPTIONS, window_rows=rows, checkpoint_bytes=0, parked_bytes=0)
            cards[rows] = stack.enter_context(talker(path, options))
        if (ids, rows) not in said:
            runner = cards[rows].card.runner
            runner._state = replace(runner._state, at=forgetful(runner._state.at, runner._recipe.plan))
            said[ids, rows] = cards[rows].say(ids)
            assert cards[rows].card.cached_tokens == 0
        return said[ids, rows]

    with ExitStack() as stack:
        yield Model(path, request.param in ("qwen35moe", "qwen3next"), cold)
    assert any(each.facts.num_accepted for each in said.values())


CASES = [(3, "windows"), (4, "room")]
RARE = [(rows, way) for rows in (1, 2, 3, 4) for way in WAYS if (rows, way) not in CASES]


@pytest.mark.parametrize(("rows", "way"), [*CASES, *(pytest.param(*case, marks=pytest.mark.soak) for case in RARE)])
def test_a_warm_turn_drafts_what_a_cold_one_drafts(model: Model, rows: int, way: str) -> None:
    with talker(model.path, replace(OPTIONS, window_rows=rows, policy=WAYS[way])) as warm:

        def agrees(ids: tuple[int, ...], *, cached: int) -> Said:
            said = warm.say(ids)
            assert said == model.cold(ids, rows)
            assert warm.card.cached_tokens == cached - (0 if model.is_hybrid or rows == 1 else 1)
            return said

        first = agrees((*HISTORY, 9, 11), cached=1 if not model.is_hybrid and rows > 1 else 0)
        # Behind the live end: what was sampled last follows, or another token.
        held = (*HISTORY, 9, 11, *first.reply[:-1])
        second = agrees((*held, first.reply[-1], *turn(2, 9)), cached=len(held))
        held = (*held, first.reply[-1], *turn(2, 9), *second.reply[:-1])
        agrees((*held, (second.reply[-1] + 1) % 290, 12), cached=len(held))
        # All but the last token is held.
        held = warm.card.runner._state.at.session.ids
        agrees((*held, 13), cached=len(held))
        # Two continuations of what a checkpoint stands behind, which differ in the next token.
        for token in (21, 22):
            agrees((*HISTORY, token, 23, 24), cached=len(HISTORY))
        agrees((*HISTORY, 25), cached=len(HISTORY))
        assert (warm.card.runner.snapshot().checkpoints.num_restored == 3) == model.is_hybrid


@pytest.mark.parametrize("way", ["chunks", pytest.param("windows", marks=pytest.mark.soak)])
def test_a_parked_conversation_is_drafted_for_as_if_it_were_read(model: Model, way: str) -> None:
    with talker(model.path, replace(OPTIONS, window_rows=3, policy=WAYS[way])) as warm:
        one = (*HISTORY, *turn(3, 40))
        first = warm.say(one)
        held = (*one, *first.reply[:-1])
        assert warm.say((8, *one[1:])) == model.cold((8, *one[1:]), 3)
        for following in ((first.reply[-1], 15), (300, 15)):
            assert warm.say((*held, *following)) == model.cold((*held, *following), 3)
            assert warm.say((9, *one[1:])) == model.cold((9, *one[1:]), 3)
        assert warm.card.runner.snapshot().parked.counts.num_restored >= 2


@pytest.mark.parametrize("way", ["windows", pytest.param("chunks", marks=pytest.mark.soak)])
def test_a_reply_that_was_cut_or_given_up_leaves_a_drafter_that_knows_as_much(model: Model, way: str) -> None:
    prompt, rows = (*HISTORY, 9, 11), 4
    with talker(model.path, replace(OPTIONS, window_rows=rows, policy=WAYS[way])) as warm:
        taken = warm.cut(prompt)
        following = (*prompt, *taken, 30, 31)
        assert warm.say(following) == model.cold(following, rows)
        assert warm.card.cached_tokens > len(prompt)
        for num_windows in (1, 3):
            held = warm.leave(prompt, num_windows=num_windows)
            assert len(held) >= len(prompt)
            assert warm.say((*held, 40, 41)) == model.cold((*held, 40, 41), rows)
        warm.card.serve((*HISTORY, *turn(4, 30), 9), max_tokens=MAX_TOKENS, cancel_after_steps=4)
        assert warm.say((*HISTORY, *turn(4, 30), 9)) == model.cold((*HISTORY, *turn(4, 30), 9), rows)
