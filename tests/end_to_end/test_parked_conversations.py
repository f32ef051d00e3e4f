"""A conversation that was parked goes on with the ids and logits bits of the same request on a card just started."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from strata.core.commands import Command, Copy
from strata.core.errors import DeviceError
from strata.core.events import Failed
from strata.core.extent import HostExtent, HostSpace
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.parking import parked_bytes
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

OPTIONS = PlanOptions(256, chunk_tokens=16, ring_slots=3, num_cache_slots=5, parked_bytes=1 << 20)
FIRST, SECOND, THIRD = (tuple((11 * i * i + 5 * i + 37 * k) % 300 for i in range(100)) for k in range(3))
Answer = tuple[list[int], list[bytes]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "model.gguf", arch="mixtral")


@pytest.fixture
def warm(path: Path) -> Iterator[RealCard]:
    with real_card(path, OPTIONS) as card:
        yield card


class Cold:
    """Answers of cards that were just started, each computed once."""

    def __init__(self, path: Path) -> None:
        self._path, self._answers = path, dict[tuple[int, ...], Answer]()

    def __call__(self, ids: tuple[int, ...]) -> Answer:
        if ids not in self._answers:
            with real_card(self._path, replace(OPTIONS, parked_bytes=0)) as card:
                self._answers[ids] = (card.serve(ids), list(card.logits))
        return self._answers[ids]


@pytest.fixture(scope="module")
def cold(path: Path) -> Cold:
    return Cold(path)


def answer(card: RealCard, ids: tuple[int, ...]) -> Answer:
    return card.serve(ids), list(card.logits)


def counts(card: RealCard) -> tuple[int, int, int]:
    told = card.runner.snapshot().parked.counts
    return told.num_parked, told.num_restored, told.num_evicted


def test_two_conversations_alternate_and_neither_is_read_twice(warm: RealCard, cold: Cold):
    histories = [FIRST[:70], SECOND[:75]]
    for turn in range(6):
        one = turn % 2
        assert answer(warm, histories[one]) == cold(histories[one])
        if turn >= 2:
            assert warm.cached_tokens == len(histories[one]) - 11  # ten are new, and the last reply was never fed
        histories[one] = (*histories[one], *cold(histories[one])[0], *THIRD[turn : turn + 10])
    assert counts(warm)[:2] == (5, 4)


def test_the_prefix_that_both_share_is_not_copied_back(warm: RealCard, cold: Cold):
    other = (*FIRST[:30], *SECOND[:70])
    for ids in (FIRST, other, FIRST):
        assert answer(warm, ids) == cold(ids)
    facts = warm.runner.read_facts()
    assert (facts.read_from, facts.unparked_tokens) == (99, 69)
    plan = warm.planned.plan
    assert facts.unparked_bytes == 69 * sum(layer.size_bytes for layer in plan.kv) // 256
    assert facts.parked_bytes == 102 * sum(layer.size_bytes for layer in plan.kv) // 256


def test_three_conversations_with_room_for_one_are_answered_as_from_the_start(path: Path, cold: Cold):
    with real_card(path, OPTIONS) as card:
        one_bytes = parked_bytes(card.planned.plan, 110)
    with real_card(path, replace(OPTIONS, parked_bytes=one_bytes)) as card:
        for _ in range(2):
            for ids in (FIRST, SECOND, THIRD, SECOND):
                assert answer(card, ids) == cold(ids)
        parked, restored, evicted = counts(card)
        assert parked >= 2 and restored > 0 and evicted > 0
        assert card.runner.snapshot().parked.used_bytes <= one_bytes


def test_a_history_that_was_edited_is_read_from_the_edit_and_can_be_taken_up_again(warm: RealCard, cold: Cold):
    edited = (*FIRST[:20], 7, *FIRST[21:])
    for ids, cached in ((FIRST, 0), (edited, 20), (FIRST, 99), (edited, 99), (FIRST[:50], 49)):
        assert answer(warm, ids) == cold(ids)
        assert warm.cached_tokens == cached


def test_a_reread_has_nothing_cached_and_says_the_same(path: Path, cold: Cold):
    with real_card(path, replace(OPTIONS, is_reread=True)) as card:
        longer = (*FIRST, *cold(FIRST)[0], 5)
        for ids, cached in ((FIRST, 0), (SECOND, 0), (FIRST, 0), (longer, 102)):
            assert answer(card, ids) == cold(ids)
            assert card.cached_tokens == cached
        told = card.runner.snapshot().parked.counts
        assert (told.num_hits, told.num_restored) == (1, 0)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_cancel_on_the_way_leaves_what_is_true(warm: RealCard, cold: Cold, steps: int):
    """After as many steps: the live session is being parked, the other one restored, the first window is under way."""
    warm.serve(FIRST)
    warm.serve(SECOND)
    assert warm.serve(FIRST, cancel_after_steps=steps) == []
    for ids in (SECOND, FIRST, THIRD, FIRST, SECOND):
        assert answer(warm, ids) == cold(ids)


def test_whichever_copy_fails_the_next_answers_are_those_of_a_new_card(path: Path, cold: Cold):
    """A copy that could not be brought back is dropped: the same request again is cold, and not a failure again. One
    that was not complete is not listed; what was parked before stays."""
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

    for is_refused in (False, True):
        del hit[:]
        for fail_at in (1, 2):
            with real_card(path, OPTIONS, faults=faults) as card:
                card.serve(FIRST)
                card.serve(SECOND)
                failing.update({"in": fail_at, "is_refused": is_refused})
                with pytest.raises(DeviceError, match="planted"):
                    card.serve(FIRST)
                card.runner.recover()
                assert answer(card, FIRST) == cold(FIRST)
                assert card.cached_tokens == (0 if hit[-1] == "restored" else 99)
                assert answer(card, SECOND) == cold(SECOND)
                assert answer(card, FIRST) == cold(FIRST)
                assert card.cached_tokens == 99
        assert hit == ["parked", "restored"]


def way_of(command: Copy) -> str:
    for pair in command.pairs:
        for side, way in ((pair.target, "parked"), (pair.source, "restored")):
            if isinstance(side, HostExtent) and side.space is HostSpace.PARKED:
                return way
    return ""
