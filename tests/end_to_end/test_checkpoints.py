"""A hybrid conversation that was edited goes on from a checkpoint, with ids and logits bits of a card just started."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from strata.core.commands import Command, Copy
from strata.core.errors import DeviceError
from strata.core.events import Failed
from strata.core.extent import HostExtent, HostSpace
from strata.core.memory.shapes import PlanOptions
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

MIB = 1 << 20
OPTIONS = PlanOptions(256, chunk_tokens=16, ring_slots=3, num_cache_slots=5, checkpoint_bytes=MIB)
END = 7
Answer = tuple[list[int], list[bytes]]


def turn(name: int, num_tokens: int) -> tuple[int, ...]:
    """The last of its tokens ends it."""
    return (*((11 * i * i + 5 * i + 37 * name) % 290 + 10 for i in range(num_tokens - 1)), END)


SYSTEM, USER, REPLY = turn(0, 20), turn(1, 30), turn(2, 25)
HEAD = (3, 4, 5)  # what a template writes ahead of a reply
HISTORY = (*SYSTEM, *USER, *HEAD, *REPLY)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "model.gguf", arch="qwen35moe")


@pytest.fixture
def warm(path: Path) -> Iterator[RealCard]:
    with real_card(path, OPTIONS, terminators=(END,)) as card:
        yield card


@pytest.fixture(scope="module")
def cold(path: Path) -> Callable[[tuple[int, ...]], Answer]:
    """Answers of cards that were just started, without a slot or a cut, each computed once."""
    answers: dict[tuple[int, ...], Answer] = {}

    def answer_of(ids: tuple[int, ...]) -> Answer:
        if ids not in answers:
            with real_card(path, replace(OPTIONS, checkpoint_bytes=0), terminators=(END,)) as card:
                answers[ids] = answer(card, ids)
        return answers[ids]

    return answer_of


def answer(card: RealCard, ids: tuple[int, ...]) -> Answer:
    return card.serve(ids), list(card.logits)


def positions(card: RealCard) -> list[int]:
    return [each.position for each in card.runner.snapshot().checkpoints.listed]


def test_an_edited_turn_is_read_from_the_end_of_the_turn_before(warm: RealCard, cold):
    first = (*HISTORY, *turn(3, 20), *HEAD)
    edited = (*HISTORY, *turn(4, 28), *HEAD)
    for ids, cached in ((first, 0), (edited, len(HISTORY)), (first, len(HISTORY))):
        assert answer(warm, ids) == cold(ids)
        assert (warm.cached_tokens, warm.runner.read_facts().checkpoint_tokens) == (cached, cached)
    assert sorted(positions(warm)) == [20, 50, 78, 98]


def test_the_same_request_again_reads_from_the_checkpoint_before_its_last_token(warm: RealCard, cold):
    """Case B1: cursor and state go back together, also where nothing but the last token is left to read."""
    for ids, cached in ((HISTORY, 50), ((*SYSTEM, *USER, 9), 50), (SYSTEM, 0), ((*SYSTEM, 9), 20)):
        for again in (False, True):
            assert answer(warm, ids) == cold(ids)
            assert not again or warm.cached_tokens == cached


def test_reasoning_that_the_template_drops_costs_no_more_than_its_turn(warm: RealCard, cold):
    """Case B7: the next turn has the reply without what was thought, so it parts with the cells behind the question."""
    prompt = (*SYSTEM, *USER, *HEAD)
    reply = tuple(answer(warm, prompt)[0])
    following = (*prompt, *reply[2:], END, *turn(5, 20), *HEAD)
    assert answer(warm, following) == cold(following)
    assert warm.cached_tokens == len(SYSTEM) + len(USER)


def test_a_chat_that_only_grows_reads_what_is_new(warm: RealCard, cold):
    """Case B6, and then turn 3 of 6 is edited: read again from the last checkpoint before it."""
    ids: tuple[int, ...] = SYSTEM
    for name in range(6):
        start = len(ids)
        ids = (*ids, *turn(name, 15), *HEAD)
        assert answer(warm, ids) == cold(ids)
        assert warm.cached_tokens == (start - 2 if name else 0)  # two were never fed
        ids = (*ids, *cold(ids)[0], END)
    edited = (*ids[:70], 300, *ids[71:])
    assert answer(warm, edited) == cold(edited)
    assert warm.cached_tokens == max(at for at in range(1, 71) if ids[at - 1] == END) > 40


def test_a_budget_of_one_keeps_the_last_cut_and_stops_nowhere_else(path: Path, cold):
    with real_card(path, OPTIONS, terminators=(END,)) as card:
        state_bytes = sum(card.planned.plan.inventory.state_bytes)
    with real_card(path, replace(OPTIONS, checkpoint_bytes=state_bytes + 255), terminators=(END,)) as card:
        first, edited = (*HISTORY, *HEAD, 8), (*HISTORY, *HEAD, 9)
        assert answer(card, first) == cold(first)
        told = card.runner.snapshot().checkpoints
        assert (told.num_slots, positions(card), told.num_saved) == (1, [78], 1)
        assert answer(card, edited) == cold(edited)
        assert card.cached_tokens == 78
        longer = (*HISTORY, *turn(3, 20), *HEAD)
        assert answer(card, longer) == cold(longer)
        told = card.runner.snapshot().checkpoints
        assert (positions(card), told.num_evicted, told.num_restored) == ([98], 1, 2)


def test_a_reread_has_nothing_cached_and_says_the_same(path: Path, cold):
    with real_card(path, replace(OPTIONS, is_reread=True), terminators=(END,)) as card:
        first, edited = (*HISTORY, *HEAD), (*HISTORY, 9, *HEAD)
        longer = (*first, *cold(first)[0], 8)
        for ids, cached in ((first, 0), (edited, 0), (first, 0), (longer, len(first) + 2)):
            assert answer(card, ids) == cold(ids)
            assert card.cached_tokens == cached
        assert card.runner.snapshot().checkpoints.num_restored == 0


def test_a_parked_conversation_that_has_more_wins_over_a_checkpoint(path: Path, cold):
    one, other = (*HISTORY, *turn(3, 70), *HEAD), (*HISTORY, *turn(4, 70), *HEAD)
    with real_card(path, replace(OPTIONS, parked_bytes=MIB), terminators=(END,)) as card:
        for ids, cached, resumed in ((one, 0, 0), (other, 78, 78), ((*one, *cold(one)[0], 9), len(one) + 2, 0)):
            assert answer(card, ids) == cold(ids)
            assert (card.cached_tokens, card.runner.read_facts().checkpoint_tokens) == (cached, resumed)
        assert positions(card) == []  # cells of the first were written over


@pytest.mark.parametrize("steps", [0, 1, 5, 9, 14, 19])
def test_a_read_that_was_cancelled_leaves_its_checkpoints_and_nothing_else(warm: RealCard, cold, steps: int):
    warm.serve((*HISTORY, *HEAD))
    edited = (*SYSTEM, *turn(6, 40), *turn(7, 40), *HEAD)
    assert warm.serve(edited, cancel_after_steps=steps) == []
    assert positions(warm)[0] == 20 or steps == 0
    for ids in (edited, (*HISTORY, *HEAD)):
        assert answer(warm, ids) == cold(ids)
        assert warm.cached_tokens >= 20


def test_whichever_copy_of_a_checkpoint_fails_the_next_answers_are_those_of_a_new_card(path: Path, cold):
    """Cases B5 and lesson A6: the same request again is a cold success and not a second failure."""
    failing = {"in": -1, "is_refused": False}
    hit: list[str] = []

    def faults(index: int, command: Command) -> Failed | None:
        if isinstance(command, Copy) and (way := way_of(command)):
            failing["in"] -= 1
            if failing["in"] == 0:
                hit.append(way)
                if failing["is_refused"]:
                    raise DeviceError("planted", command)
                return Failed("planted", command)
        return None

    first, edited = (*HISTORY, *HEAD), (*HISTORY[:-5], *turn(3, 20), *HEAD)
    for is_refused in (False, True):
        for fail_at in (1, 2):  # the state back, the one behind the edited turn
            with real_card(path, OPTIONS, faults=faults, terminators=(END,)) as card:
                card.serve(first)
                failing.update({"in": fail_at, "is_refused": is_refused})
                with pytest.raises(DeviceError, match="planted"):
                    card.serve(edited)
                card.runner.recover()
                assert positions(card) == []
                for ids, cached in ((edited, 0), (first, 50), (edited, 50)):
                    assert answer(card, ids) == cold(ids)
                    assert card.cached_tokens == cached
    assert hit == ["used", "kept"] * 2


def way_of(command: Copy) -> str:
    for pair in command.pairs:
        for side, way in ((pair.target, "kept"), (pair.source, "used")):
            if isinstance(side, HostExtent) and side.space is HostSpace.PARKED:
                return way
    return ""
