"""A drafter whose block and head were lent while a prompt was read drafts what it would have drafted anyway, bit for
bit, and as many drafts are accepted."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from strata.config.values import Mtp
from strata.core.extent import Extent
from strata.core.memory.policy import NO_LENDING, LendingPolicy
from strata.core.memory.shapes import PlanOptions
from tests.end_to_end.dictated_drafts import Drafted
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.drafting_models import write_lend_drafter
from tests.fixtures.lend_model import NUM_EXPERTS, ROOM_SLOTS

pytestmark = pytest.mark.slow

MIB = 1 << 20
ARENA_BYTES = 13 * MIB
WINDOW_ROWS = 4
MAX_TOKENS = 14
IDS = tuple((11 * i * i + 5 * i) % 290 for i in range(110))
ROOM = LendingPolicy(room_min_tokens=0)
ELASTIC = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=100)
SLOTS = PlanOptions(1_024, chunk_tokens=256, ring_slots=8, min_cache_slots=16, window_rows=WINDOW_ROWS)
WAYS = {
    "room": replace(SLOTS, policy=ROOM),
    "elastic, block and head lent": replace(SLOTS, policy=ELASTIC, segment_bytes=1 << 16),
}


@dataclass
class Talk:
    """Of each request: its reply, its logits, what was drafted for it, and how many drafts were accepted."""

    replies: list[tuple[list[int], list[bytes], list[tuple[bytes, int]], int]] = field(default_factory=list)

    @property
    def num_accepted(self) -> int:
        return sum(accepted for *_, accepted in self.replies)


@contextmanager
def card_of(path: Path, options: PlanOptions) -> Iterator[tuple[RealCard, Drafted]]:
    drafted = Drafted()
    with real_card(path, options, arena_bytes=ARENA_BYTES, mtp=Mtp(), change=drafted.change) as card:
        yield card, drafted


def talk(card: RealCard, drafted: Drafted) -> Talk:
    """A prompt, a continuation of seven tokens, and another prompt that shares nothing with them."""
    said = Talk()
    for ids in (IDS, (*IDS, *range(7)), IDS[::-1]):
        drafted.said.clear()
        reply = card.serve(ids, max_tokens=MAX_TOKENS)
        facts = card.runner.draft_facts()
        said.replies.append((reply, list(card.logits), list(drafted.said), facts.num_accepted))
    return said


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lend_drafter(tmp_path_factory.mktemp("lend") / "model.gguf")


@pytest.fixture(scope="module")
def expected(path: Path) -> Talk:
    """On a card that lends nothing."""
    plain = replace(SLOTS, policy=NO_LENDING, num_cache_slots=100, min_cache_slots=100)
    with card_of(path, plain) as (card, drafted):
        assert card.planned.plan.lendable is None
        return talk(card, drafted)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_drafted_behind_a_loan_has_the_bits_of_no_loan(path: Path, expected: Talk, way: str) -> None:
    with card_of(path, WAYS[way]) as (card, drafted):
        said = talk(card, drafted)
        counts = card.runner.snapshot().counts
        assert said == expected
        assert 0 < said.num_accepted < counts.num_drafts
        if way == "room":
            assert counts.num_rooms == 3 and counts.room_bytes > 0
        else:
            assert counts.num_segment_loans > 1 and counts.restored_bytes > 0
        check_block(card, num_experts=NUM_EXPERTS)


def check_block(card: RealCard, *, num_experts: int) -> None:
    """Every byte of the block is the pack's."""
    plan, arena = card.planned.plan, card.device._payload._arena_tensor  # type: ignore[attr-defined]
    drafter = plan.inventory.drafter
    assert drafter is not None and len(plan.pack.block) == num_experts
    for index, home in enumerate(plan.pack.block):
        slot: Extent = plan.block.part(offset_bytes=index * drafter.slot_bytes, size_bytes=drafter.blob_bytes)
        assert bytes(arena[slot.offset_bytes : slot.end_bytes].numpy()) == bytes(card.device.host(home))


def test_a_block_that_did_not_come_home_drafts_otherwise_and_the_reply_is_the_same(path: Path) -> None:
    """The drafts do depend on the block: this is what the equality above is worth."""
    said = []
    with card_of(path, replace(SLOTS, policy=ROOM)) as (card, drafted):
        assert len(card.planned.plan.room) == ROOM_SLOTS
        arena, block = card.device._payload._arena_tensor, card.planned.plan.block  # type: ignore[attr-defined]
        for is_spoiled in (False, True):
            if is_spoiled:
                arena[block.offset_bytes : block.end_bytes].zero_()
            drafted.said.clear()
            said.append((card.serve(IDS[:1], max_tokens=4), list(drafted.said)))
    (reply, drafts), (again, others) = said
    assert reply == again and drafts[0] != others[0]
