"""A warm request has the ids and logits bits of the same request on a card that was just started."""

from collections.abc import Iterator
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
    return write_random_model(tmp_path_factory.mktemp("models") / "model.gguf", arch="mixtral")


@pytest.fixture(scope="module")
def warm(path: Path) -> Iterator[RealCard]:
    with real_card(path, OPTIONS) as card:
        yield card


def cold(path: Path, ids: tuple[int, ...], *, max_tokens: int = 3) -> tuple[list[int], list[bytes]]:
    with real_card(path, OPTIONS) as card:
        return card.serve(ids, max_tokens=max_tokens), list(card.logits)


@pytest.mark.parametrize("num_tokens", [1, 2, 15, 16, 17, 33, 64])
def test_the_same_request_again_reads_one_token_and_says_the_same(path: Path, warm: RealCard, num_tokens: int):
    expected = cold(path, IDS[:num_tokens])
    for turn in range(3):
        assert (warm.serve(IDS[:num_tokens]), warm.logits) == expected
        if turn:
            assert warm.cached_tokens == num_tokens - 1


def test_a_second_turn_reads_only_what_is_new(path: Path, warm: RealCard):
    reply = warm.serve(IDS[:40], max_tokens=6)
    second = IDS[:40] + tuple(reply) + IDS[50:70]
    answer = (warm.serve(second), list(warm.logits))
    assert warm.cached_tokens == 40 + 5  # the last sampled token was never fed
    assert answer == cold(path, second)


def test_a_history_that_was_edited_is_read_from_the_edit_on(path: Path, warm: RealCard):
    warm.serve(IDS[:60])
    edited = (*IDS[:30], 7, *IDS[31:60])
    assert (warm.serve(edited), warm.logits) == cold(path, edited)
    assert warm.cached_tokens == 30
    assert (warm.serve(IDS[:60]), warm.logits) == cold(path, IDS[:60])
    assert warm.cached_tokens == 30


@pytest.mark.parametrize("steps", range(8))
def test_what_a_cancelled_read_leaves_is_whole_chunks_or_nothing(path: Path, warm: RealCard, steps: int):
    warm.serve(IDS[:50])
    other = (*IDS[:20], *reversed(IDS))
    warm.serve(other, cancel_after_steps=steps)
    assert (warm.serve(other), warm.logits) == cold(path, other)
    assert (warm.cached_tokens - 20) % 16 == 0
    assert (warm.serve(IDS[:50]), warm.logits) == cold(path, IDS[:50])


def test_what_a_failed_request_leaves_is_still_true(path: Path):
    failing = {"in": -1}

    def faults(index: int, command: object) -> None:
        failing["in"] -= 1
        if failing["in"] == 0:
            raise DeviceError("planted", command)

    other = (*IDS[:20], *reversed(IDS))
    expected = cold(path, other)
    with real_card(path, OPTIONS, faults=faults) as card:
        for fail_at in range(1, 180, 7):
            card.serve(IDS[:50])
            failing["in"] = fail_at
            with pytest.raises(DeviceError, match="planted"):
                card.serve(other, max_tokens=40)
            card.runner.recover()
            assert (card.serve(other), card.logits) == expected
