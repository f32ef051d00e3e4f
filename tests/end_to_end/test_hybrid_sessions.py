"""A session of a model with recurrent layers: extended it has the bits of a cold read, anything else is read from 0."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from strata.core.errors import DeviceError
from strata.core.memory.shapes import PlanOptions
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

OPTIONS = PlanOptions(256, chunk_tokens=16, ring_slots=3, num_cache_slots=5)
IDS = tuple((11 * i * i + 5 * i) % 300 for i in range(100))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "model.gguf", arch="qwen35moe")


@pytest.fixture(scope="module")
def warm(path: Path) -> Iterator[RealCard]:
    with real_card(path, OPTIONS) as card:
        yield card


def cold(path: Path, ids: tuple[int, ...], *, max_tokens: int = 3) -> tuple[list[int], list[bytes]]:
    with real_card(path, OPTIONS) as card:
        return card.serve(ids, max_tokens=max_tokens), list(card.logits)


def test_a_second_turn_reads_only_what_is_new(path: Path, warm: RealCard):
    reply = warm.serve(IDS[:40], max_tokens=6)
    second = IDS[:40] + tuple(reply) + IDS[50:70]
    answer = (warm.serve(second), list(warm.logits))
    assert warm.cached_tokens == 40 + 5
    assert answer == cold(path, second)


@pytest.mark.parametrize("num_tokens", [1, 2, 17])
def test_the_same_request_again_is_read_anew(path: Path, warm: RealCard, num_tokens: int):
    expected = cold(path, IDS[:num_tokens])
    for _ in range(2):
        assert (warm.serve(IDS[:num_tokens]), warm.logits) == expected
        assert warm.cached_tokens == 0


def test_a_history_that_was_edited_is_read_anew(path: Path, warm: RealCard):
    warm.serve(IDS[:60])
    edited = (*IDS[:30], 7, *IDS[31:60])
    assert (warm.serve(edited), warm.logits) == cold(path, edited)
    assert warm.cached_tokens == 0


@pytest.mark.parametrize("steps", range(8))
def test_a_read_that_was_cancelled_leaves_nothing_to_extend(path: Path, warm: RealCard, steps: int):
    reply = warm.serve(IDS[:50], max_tokens=2)
    longer = IDS[:50] + tuple(reply) + IDS[60:]
    warm.serve(longer, cancel_after_steps=steps)
    assert (warm.serve(longer), warm.logits) == cold(path, longer)
    assert warm.cached_tokens == 0


def test_what_a_failed_request_leaves_is_never_extended(path: Path):
    failing = {"in": -1}

    def faults(index: int, command: object) -> None:
        failing["in"] -= 1
        if failing["in"] == 0:
            raise DeviceError("planted", command)

    expected = cold(path, IDS)
    with real_card(path, OPTIONS, faults=faults) as card:
        for fail_at in range(1, 180, 11):
            reply = card.serve(IDS[:50], max_tokens=2)
            failing["in"] = fail_at
            with pytest.raises(DeviceError, match="planted"):
                card.serve(IDS[:50] + tuple(reply) + IDS[60:], max_tokens=40)
            card.runner.recover()
            assert (card.serve(IDS), card.logits) == expected
            assert card.cached_tokens == 0


def test_conversations_that_alternate_come_back_with_their_state(path: Path):
    """Each turn parks the other conversation and restores this one, cells and recurrent state; an edited history of
    either is read anew."""
    turns = {0: IDS[:70], 1: tuple(reversed(IDS))[:75]}
    with real_card(path, replace(OPTIONS, parked_bytes=1 << 20)) as card:
        for turn in range(6):
            who = turn % 2
            answer = (card.serve(turns[who]), list(card.logits))
            assert answer == cold(path, turns[who])
            assert (card.cached_tokens > 0) == (turn >= 2)
            turns[who] = turns[who] + tuple(answer[0]) + IDS[turn : turn + 5]
        counts = card.runner.snapshot().parked.counts
        assert counts.num_restored >= 4
        edited = (*turns[0][:40], 7, *turns[0][41:])
        assert (card.serve(edited), card.logits) == cold(path, edited)
        assert card.cached_tokens == 0
