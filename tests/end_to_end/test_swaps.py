"""Blobs that are exchanged while replies are decoded, over real bytes: no bit of a reply depends on it, windows find
more of what they read on the card, and each slot holds the bytes that the books say."""

from dataclasses import replace
from pathlib import Path

import pytest

from strata.core.commands import Command, Copy, Stream
from strata.core.errors import DeviceError
from strata.core.events import Failed
from strata.core.memory.shapes import PlanOptions
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow
SOAK = pytest.mark.soak

STAYING = PlanOptions(256, num_cache_slots=16, ring_slots=4, chunk_tokens=32)
SWAPPING = replace(STAYING, num_swaps=4, swap_windows=2)
LENDING = PlanOptions(256, min_cache_slots=3, max_chunk_tokens=256, num_swaps=4, swap_windows=2)
IDS = tuple((7 * i * i + 3 * i) % 300 for i in range(60))
PROMPTS = (IDS[:1], IDS[20:], (5, 6, 7))
FAMILIES = {
    "mixtral": {"arch": "mixtral"},
    "qwen3moe mixed": {"arch": "qwen3moe", "expert_quants": ("Q4_0", "Q8_0", "F16")},
    "qwen35moe": {"arch": "qwen35moe"},
}


def model(folder: Path, family: str = "mixtral") -> Path:
    return write_random_model(folder / "model.gguf", experts=32, **FAMILIES[family])  # type: ignore[arg-type]


def assert_slots_hold_what_the_books_say(card: RealCard) -> None:
    """And the table says where."""
    plan, cache = card.planned.plan, card.runner._state.at.cache
    assert (cache.moving, cache.landing) == ((), ())
    arena = card.device._payload._arena_tensor  # type: ignore[attr-defined]
    words = bytes(arena[plan.table.offset_bytes : plan.table.end_bytes].numpy())
    addresses = memoryview(words).cast("q")
    for slot in cache.slots:
        home = bytes(card.device.host(plan.pack.blobs[slot.layer][slot.expert]))
        at = slot.extent.offset_bytes
        assert bytes(arena[at : at + len(home)].numpy()) == home, slot
        address = addresses[slot.layer * plan.inventory.num_experts + slot.expert]
        assert address == card.device.describe().arena_address + at
    assert len({(slot.layer, slot.expert) for slot in cache.slots}) == len(cache.slots) == len(plan.slots)


def replies(card: RealCard, *, max_tokens: int = 12) -> list[tuple[list[int], list[bytes]]]:
    return [(card.serve(prompt, max_tokens=max_tokens), list(card.logits)) for prompt in PROMPTS]


@pytest.mark.parametrize("family", ["mixtral", *(pytest.param(name, marks=SOAK) for name in list(FAMILIES)[1:])])
def test_replies_and_logits_have_the_same_bits_with_swaps_and_without(tmp_path: Path, family: str):
    path = model(tmp_path, family)
    with real_card(path, STAYING, arena_bytes=2 << 20) as card:
        expected = replies(card)
    for options in (SWAPPING, LENDING)[: 1 + (family == "mixtral")]:
        with real_card(path, options, arena_bytes=2 << 20) as card:
            before = card.runner._state.at.cache.slots
            assert replies(card) == expected
            counts = card.runner.snapshot().counts
            assert counts.num_swaps > 8 and card.runner._state.at.cache.slots != before
            assert (counts.num_loans > 0) == (options is LENDING)
            assert_slots_hold_what_the_books_say(card)


def test_windows_find_more_on_the_card_when_some_blobs_are_read_often(tmp_path: Path):
    """A reply of one sentence over and over again, as greedy ones of random weights become."""
    path, rates = model(tmp_path), {}
    for options in (STAYING, SWAPPING):
        with real_card(path, options, arena_bytes=2 << 20) as card:
            card.serve(IDS[:9], max_tokens=40)
            before = card.runner.snapshot().counts
            card.serve((*IDS[:9], 1), max_tokens=20)
            after = card.runner.snapshot().counts
        hits, misses = (
            getattr(after, name) - getattr(before, name) for name in ("window_reads_hit", "window_reads_missed")
        )
        rates[options.num_swaps] = hits / (hits + misses)
    assert rates[4] > rates[0] + 0.1, rates


@pytest.mark.parametrize(
    "word", ["copies", *(pytest.param(word, marks=SOAK) for word in ("cleared table", "landing table", "counts"))]
)
def test_a_failure_around_a_swap_leaves_every_blob_in_its_slot(tmp_path: Path, word: str):
    """The command of that kind fails on its way, the third time there is one."""
    path, seen = model(tmp_path), list[Command]()

    def faults(index: int, command: Command) -> Failed | None:
        if word_of(command) != word:
            return None
        seen.append(command)
        return Failed("planted", command) if len(seen) == 3 else None

    with real_card(path, SWAPPING, arena_bytes=2 << 20) as card:
        expected = replies(card)
    with real_card(path, SWAPPING, arena_bytes=2 << 20, faults=faults) as card:
        with pytest.raises(DeviceError):
            replies(card)
        card.runner.recover()
        assert_slots_hold_what_the_books_say(card)
        assert replies(card) == expected
        assert_slots_hold_what_the_books_say(card)


def word_of(command: Command) -> str:
    """What a command is to swaps."""
    if not isinstance(command, Copy):
        return ""
    if command.publishes is not None:
        return "cleared table" if len(command.publishes.entries) < 16 else "landing table"
    if command.stream is Stream.COPY and getattr(command.pairs[0].target, "owner", "") == "cache":
        return "copies"
    return "counts" if len(command.pairs) == 2 and command.stream is Stream.VERIFIER else ""
