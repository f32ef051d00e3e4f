"""Every way of lending, on a model where each really occurs: no bit of a reply changes, and every byte comes home."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from strata.config.values import Mtp
from strata.core.extent import Extent, HostExtent
from strata.core.memory.policy import NO_LENDING, LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.engine.updates import ReadFacts
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.lend_model import NUM_LAYERS, ROOM_SLOTS

CONTEXT = 2_048
IDS = tuple((11 * i * i + 5 * i) % 290 for i in range(1_300))
MIB = 1 << 20
ARENA_BYTES = 13 * MIB
PLAIN = PlanOptions(CONTEXT, chunk_tokens=512, ring_slots=8, num_cache_slots=100, min_cache_slots=100)
ELASTIC = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=256)


@dataclass(frozen=True)
class Way:
    """How a card lends, and what must have happened in its reads."""

    options: PlanOptions
    chunks: tuple[int, int]  # of the first prompt and of the last
    ring_slots: int
    has_room: bool = False
    has_segments: bool = False
    has_slots: bool = True


def lending(policy: LendingPolicy = NO_LENDING, **rest: object) -> PlanOptions:
    values = {"min_cache_slots": 16, "segment_bytes": 1 << 16} | rest
    return PlanOptions(CONTEXT, policy=policy, **values)  # type: ignore[arg-type]


ROOM = LendingPolicy(room_min_tokens=0)
MASTER_AND_ROOM = LendingPolicy(room_min_tokens=0, is_elastic=True)
ALL = replace(ELASTIC, room_min_tokens=0, repeat_min_tokens=1_024)
WAYS = {
    "cache slots": Way(lending(ring_slots=8), (1_536, 1_536), 8),
    "room alone": Way(
        replace(PLAIN, policy=ROOM, ring_slots=96, chunk_tokens=256),
        (256, 256),
        96 + ROOM_SLOTS,
        has_room=True,
        has_slots=False,
    ),
    "room over cache slots": Way(
        lending(ROOM, ring_slots=8, chunk_tokens=1_024), (1_024, 1_024), 8 + ROOM_SLOTS, has_room=True
    ),
    "elastic": Way(lending(ELASTIC, ring_slots=240), (1_536, 1_536), 240, has_segments=True),
    "elastic, the geometry of the start": Way(
        lending(replace(ELASTIC, retains_startup=True), ring_slots=240), (2_048, 1_536), 240, has_segments=True
    ),
    "master, and the room beside it": Way(
        lending(MASTER_AND_ROOM, ring_slots=12, segment_bytes=4_096),
        (1_536, 1_536),
        12 + ROOM_SLOTS,
        has_room=True,
        has_segments=True,
    ),
    "all together": Way(lending(ALL, ring_slots=240), (1_536, 1_536), 240, has_segments=True),
}


def talk(card: RealCard) -> tuple[list[object], list[ReadFacts]]:
    """A long prompt, a continuation of 61 tokens, and another long prompt."""
    said: list[object] = []
    facts = []
    for ids in (IDS, (*IDS, *range(61)), IDS[::-1]):
        said += [card.serve(ids), list(card.logits)]
        facts.append(card.runner.read_facts())
    return said, facts


LONG = frozenset({"master, and the room beside it", "elastic, the geometry of the start", "room over cache slots"})
"""Beside these, the others show each mechanism by itself and all together."""


@pytest.fixture(scope="module")
def expected(lend_model: Path) -> list[object]:
    with real_card(lend_model, PLAIN, arena_bytes=ARENA_BYTES) as card:
        assert card.planned.plan.lendable is None
        said, _ = talk(card)
    return said


def bytes_at(card: RealCard, extent: Extent) -> bytes:
    arena = card.device._payload._arena_tensor  # type: ignore[attr-defined]
    return bytes(arena[extent.offset_bytes : extent.end_bytes].numpy())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in LONG else name for name in WAYS]
)
def test_no_bit_changes_and_every_byte_comes_home(lend_model: Path, expected: list[object], name: str):
    way = WAYS[name]
    with real_card(lend_model, way.options, arena_bytes=ARENA_BYTES, mtp=Mtp()) as card:
        plan = card.planned.plan
        said, facts = talk(card)
        assert said == expected
        assert (facts[0].chunk_tokens, facts[2].chunk_tokens) == way.chunks
        assert (facts[2].lent_slots > 0) is way.has_slots
        assert facts[1].read_from == len(IDS)
        assert (facts[0].moved_segments > 0) is way.has_segments
        assert facts[0].ring_slots == way.ring_slots
        assert (facts[0].room_bytes > 0) is way.has_room
        homes: list[tuple[Extent, HostExtent]] = [
            (slot.extent, plan.pack.blobs[slot.layer][slot.expert]) for slot in plan.slots
        ]
        homes += [(plan.weights[name], plan.pack.weights[name]) for name in plan.weights]
        drafter = plan.inventory.drafter
        assert drafter is not None
        homes += [
            (plan.block.part(offset_bytes=i * drafter.slot_bytes, size_bytes=drafter.blob_bytes), home)
            for i, home in enumerate(plan.pack.block)
        ]
        assert len(homes) > NUM_LAYERS
        for extent, home in homes:
            assert bytes_at(card, extent)[: home.size_bytes] == bytes(card.device.host(home))
