"""The room, judged by the twin: the drafter's block is ring while a prompt is read, and what it was before the next."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import Command, Copy, Map, Stream, Transfer, Unmap, size_of
from strata.core.errors import DeviceError, Refusal
from strata.core.events import Failed
from strata.core.extent import Extent
from strata.core.inventory import DrafterInventory
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions, room_slots
from strata.core.serving.states import Closing, Windowing
from tests.engine.every_command import SHARDS, indexes_of, kinds_of
from tests.engine.symbolic_card import Card, drafting_inventory, prompt, symbolic_card

ARENA_BYTES = 5 << 18
NUM_ROOM_SLOTS = 46


def card(
    room_min: int = 0,
    *,
    ring_slots: int | None = 4,
    min_cache_slots: int = 4,
    num_cache_slots: int | None = None,
    chunk_tokens: int | None = None,
    **rest: object,
) -> Card:
    options = PlanOptions(
        4096,
        min_cache_slots=min_cache_slots,
        num_cache_slots=num_cache_slots,
        ring_slots=ring_slots,
        chunk_tokens=chunk_tokens,
        policy=LendingPolicy(room_min_tokens=room_min),
    )
    return symbolic_card(drafting_inventory(), options, arena_bytes=ARENA_BYTES, **rest)  # type: ignore[arg-type]


def block_contents(served: Card) -> list[tuple[int, int, str | None]]:
    """What the twin says lies in the block, by name."""
    vram, block = served.device._shadow.vram, served.plan.block
    drafter = served.plan.inventory.drafter
    assert drafter is not None
    experts = [
        (block.offset_bytes + i * drafter.slot_bytes, block.offset_bytes + i * drafter.slot_bytes + drafter.blob_bytes)
        for i in range(drafter.num_experts)
    ]
    return [
        (start, end, content and content.name)
        for first, last in experts
        for start, end, content in vram.content_rows(Extent(first, last - first))
    ]


def openings(served: Card) -> list[Transfer]:
    return [
        command
        for command in served.commands
        if isinstance(command, Transfer) and command.extent == served.plan.block and command.taker == "prompt"
    ]


def home_bytes(served: Card) -> int:
    """Copied into the block since the last look at the commands."""
    return sum(
        size_of(pair.target)
        for command in served.commands
        if isinstance(command, Copy)
        for pair in command.pairs
        if not hasattr(pair.target, "space")
        and served.plan.block.contains(pair.target.extent)
        and pair.target.content is not None
        and pair.target.content.startswith("blob 4 ")
    )


def ring_slots_of(served: Card) -> int:
    return served.runner.read_facts().ring_slots


def test_the_block_holds_as_many_slots_as_whole_strides_fit():
    served = card()
    stride = served.plan.inventory.stride_bytes
    assert len(served.plan.room) == room_slots(served.plan.block.size_bytes, stride) == NUM_ROOM_SLOTS
    assert [slot.offset_bytes for slot in served.plan.room] == [
        served.plan.block.offset_bytes + i * stride for i in range(NUM_ROOM_SLOTS)
    ]
    assert served.plan.block.contains(served.plan.room[-1])


@pytest.mark.parametrize(("blob_bytes", "is_refused"), [(7936, True), (8192, False)])
def test_a_block_of_less_than_a_ring_slot_is_refused(blob_bytes, is_refused):
    """An expert of the block is smaller than a blob of the trunk here, and there is one of it."""
    inventory = replace(drafting_inventory(), drafter=DrafterInventory(1, blob_bytes, ()))
    options = PlanOptions(4096, min_cache_slots=4, policy=LendingPolicy(room_min_tokens=0))
    plan = plan_card(inventory, ARENA_BYTES, options)
    if is_refused:
        assert plan == Refusal(
            "room refused: the drafter's block has 7,936 B, a ring slot 8,192 B; unset STRATA_MTP_ROOM_MIN"
        )
    else:
        assert isinstance(plan, Plan) and len(plan.room) == 1


@pytest.mark.parametrize("max_tokens", [1, 3])
@pytest.mark.parametrize("num_tokens", [2, 300, 2600])
def test_a_read_with_the_room_leaves_the_block_as_it_was(num_tokens, max_tokens):
    """Also where the reply ends with the window that does not wait for the block."""
    served = card()
    before, owners = block_contents(served), served.device.card_map()
    assert all(name is not None for _, _, name in before)
    served.serve(prompt(num_tokens, max_tokens=max_tokens))
    assert len(openings(served)) == 1
    assert ring_slots_of(served) == 4 + NUM_ROOM_SLOTS
    assert (block_contents(served), served.device.card_map()) == (before, owners)


def test_the_room_never_maps_nor_moves_anything():
    served = card()
    del served.commands[:]
    served.serve(prompt(2600))
    assert openings(served) and not any(isinstance(command, Map | Unmap) for command in served.commands)


@pytest.mark.parametrize(
    ("num_tokens", "ring_slots", "dirty"),
    [(2600, 4, {NUM_ROOM_SLOTS}), (60, 20, range(1, NUM_ROOM_SLOTS)), (60, 70, {0})],
    ids=["all", "some", "none"],
)
def test_only_dirty_slots_are_copied_home_and_each_once(num_tokens, ring_slots, dirty):
    """A streaming read of several chunks writes all of them; a short one leaves most or all of the block as it was."""
    served = card(ring_slots=ring_slots)
    del served.commands[:]
    served.serve(prompt(num_tokens))
    drafter = served.plan.inventory.drafter
    facts = served.runner.read_facts()
    num_dirty = min(NUM_ROOM_SLOTS, max(0, facts.ring_entries - ring_slots))
    assert num_dirty in dirty
    covered = num_dirty * served.plan.inventory.stride_bytes
    wanted = sum(
        max(0, min(covered, i * drafter.slot_bytes + drafter.blob_bytes) - i * drafter.slot_bytes)
        for i in range(drafter.num_experts)
    )
    assert home_bytes(served) == facts.room_bytes == wanted


def test_a_continuation_opens_the_room_and_copies_nothing_back():
    served = card()
    served.serve(prompt(200, max_tokens=1))
    del served.commands[:]
    served.serve(prompt(200, max_tokens=2))  # all but its last token is in the session
    assert len(openings(served)) == 1
    assert home_bytes(served) == 0


@pytest.mark.parametrize(("fresh_tokens", "is_open"), [(1023, False), (1024, True), (1025, True)])
def test_at_least_min_tokens_includes_equality(fresh_tokens, is_open):
    served = card(1024)
    served.serve(prompt(fresh_tokens))
    assert bool(openings(served)) is is_open


def test_the_threshold_counts_fresh_tokens_and_not_the_prompt():
    served = card(1024)
    served.serve(prompt(2000, max_tokens=1))
    assert len(openings(served)) == 1
    served.serve(prompt(2061, max_tokens=1))
    assert served.runner.read_facts().read_from == 2000
    assert len(openings(served)) == 1


def test_unset_means_that_nothing_runs():
    """Invariant 25."""
    options = PlanOptions(4096, min_cache_slots=4, ring_slots=4)  # as of a version that knows no room
    plain = symbolic_card(drafting_inventory(), options, arena_bytes=ARENA_BYTES)
    unset, below, lent = card(-1), card(2601), card(2600)
    for served in (plain, unset, below, lent):
        served.serve(prompt(2600))
    assert unset.commands == below.commands == plain.commands != lent.commands
    assert not openings(unset) and ring_slots_of(unset) == 4


def test_chunk_and_rule_are_planned_as_if_there_were_no_room():
    without, with_room = card(-1, ring_slots=None), card(0, ring_slots=None)
    for served in (without, with_room):
        served.serve(prompt(2600))
    facts, roomed = without.runner.read_facts(), with_room.runner.read_facts()
    assert (facts.chunk_tokens, facts.lent_slots) == (roomed.chunk_tokens, roomed.lent_slots)
    assert roomed.ring_slots == facts.ring_slots + NUM_ROOM_SLOTS


@pytest.mark.parametrize("num_cache_slots", [30, None], ids=["no other loan", "slots lent"])
def test_slots_go_home_while_the_last_chunk_still_runs(num_cache_slots):
    """All of them: nothing of the block takes the link beside the first window."""
    served = card(chunk_tokens=1280, min_cache_slots=num_cache_slots or 4, num_cache_slots=num_cache_slots)
    assert (served.plan.lendable is None) == (num_cache_slots is not None)
    del served.commands[:]
    served.runner.begin(prompt(2561, max_tokens=1))
    while not isinstance(served.runner._state, Closing):
        served.play()
        served.runner.advance(is_cancelled=False)
    room = served.runner._state.at.room
    assert room.returned == room.dirty(room.num_entries) and len(room.returned) == NUM_ROOM_SLOTS


def test_the_block_is_the_drafters_again_before_the_second_window():
    served = card()
    served.runner.begin(prompt(300, max_tokens=3))
    while not isinstance(served.runner._state, Windowing):
        served.play()
        served.runner.advance(is_cancelled=False)
    ledger = served.runner._state.at.ledger
    assert ledger.is_owner("prompt", served.plan.block)
    served.play()
    served.runner.resume(served.runner.advance(is_cancelled=False).token_id)
    assert served.runner._state.at.ledger.is_owner("block", served.plan.block)
    assert served.runner._state.at.room is None


@given(num_tokens=st.integers(2, 2600), cancel=st.integers(0, 30), ring_slots=st.integers(1, 9))
def test_a_cancelled_read_leaves_the_block_as_it_was(num_tokens, cancel, ring_slots):
    served = card(ring_slots=ring_slots)
    before = block_contents(served)
    served.serve(prompt(num_tokens), cancel_after_steps=cancel)
    assert block_contents(served) == before
    assert served.serve(prompt(300, max_tokens=3, first=1)) == 3
    assert block_contents(served) == before


@pytest.mark.slow
@SHARDS
@pytest.mark.parametrize("is_refused", [True, False])
def test_whatever_fails_the_block_comes_home(is_refused, shard):
    """Every command of a read, of the way home and of two windows fails in its turn."""
    commands = _commands_of_a_request()
    hit = []
    for index in indexes_of(len(commands), shard):
        failing: list[int] = []

        def fault(number, command, failing=failing):
            if failing and number == failing[0]:
                hit.append(command)
                if is_refused or not isinstance(command, Copy):
                    raise DeviceError("planted", command)
                return Failed("planted", command)
            return None

        served = card(faults=fault)
        before = block_contents(served)
        failing.append(len(served.commands) + index)
        try:
            served.serve(prompt(1100, max_tokens=3))
        except DeviceError:
            failing.clear()
            served.runner.recover()
        assert block_contents(served) == before, index
        assert served.runner._state.at.room is None
        assert served.serve(prompt(300, max_tokens=2, first=1)) == 2
        assert block_contents(served) == before, index
    assert {"Copy", "Launch", "GraphLaunch", "Transfer", "Record", "Wait", "Notify"} <= kinds_of(commands)
    assert len(hit) == len(indexes_of(len(commands), shard))


def _commands_of_a_request() -> list[Command]:
    served = card()
    start = len(served.commands)
    served.serve(prompt(1100, max_tokens=3))
    return served.commands[start:]


def test_dma_home_is_on_the_copy_stream_alone():
    served = card()
    del served.commands[:]
    served.serve(prompt(2600))
    streams = {
        command.stream
        for command in served.commands
        if isinstance(command, Copy)
        for pair in command.pairs
        if not hasattr(pair.target, "space") and served.plan.block.contains(pair.target.extent)
    }
    assert streams == {Stream.COPY}
