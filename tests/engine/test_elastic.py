"""The elastic loan, judged by the twin: segments of verifier, block and head go behind the arena and come home."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import Command, Copy, GraphLaunch, Map, Transfer, Unmap
from strata.core.errors import DeviceError, Refusal
from strata.core.events import Failed
from strata.core.memory.fixed import carve_fixed
from strata.core.memory.planner import plan_card
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.states import Idle, Reading
from tests.engine.every_command import SHARDS, indexes_of, kinds_of
from tests.engine.symbolic_card import Card, drafting_inventory, prompt, symbolic_card
from tests.engine.test_room import block_contents

ARENA_BYTES = 15 << 16
SEGMENT_BYTES = 1 << 16
SMALL_SEGMENT_BYTES = 1 << 10
ALL = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=256)
MASTER = LendingPolicy(is_elastic=True)
ONCE = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True)


def options(policy: LendingPolicy, *, segment_bytes: int = SEGMENT_BYTES, **rest: object) -> PlanOptions:
    return PlanOptions(4096, min_cache_slots=4, ring_slots=4, policy=policy, segment_bytes=segment_bytes, **rest)  # type: ignore[arg-type]


def card(policy: LendingPolicy = ALL, **rest: object) -> Card:
    segment_bytes = SEGMENT_BYTES if policy.lends_head else SMALL_SEGMENT_BYTES  # the verifier of this model is small
    chosen = options(policy, segment_bytes=segment_bytes)
    return symbolic_card(drafting_inventory(), chosen, arena_bytes=ARENA_BYTES, **rest)  # type: ignore[arg-type]


def owners_at_home(served: Card) -> list[tuple[int, int, str]]:
    return [(region.extent.offset_bytes, region.extent.size_bytes, region.name) for region in served.plan.regions]


def assert_all_home(served: Card) -> None:
    """Owners, segments and contents are those of a card that never lent."""
    at, zone = served.runner._state.at, served.plan.zone
    assert zone is not None
    assert isinstance(served.runner._state, Idle) and not at.is_lending
    rows = [(row.offset_bytes, row.size_bytes, row.owner) for row in served.device.card_map() if row.owner]
    assert rows == owners_at_home(served)
    assert at.backing.places == tuple(zone.home(i) for i in range(zone.num_segments))
    assert all(name == f"blob 4 {i}" for i, (_, _, name) in enumerate(block_contents(served)))
    head = served.plan.weights["output.weight"]
    runs = served.device._shadow.vram.content_rows(head)
    assert [content and content.name for _, _, content in runs] == ["weight output.weight"]


def is_out(served: Card) -> bool:
    return served.runner._state.at.segments is not None


def moves(served: Card) -> list[Command]:
    return [command for command in served.commands if isinstance(command, Map | Unmap)]


def test_the_server_is_ready_with_the_regions_lent():
    served = card()
    assert is_out(served) and isinstance(served.runner._state, Idle)
    assert served.plan.zone is not None and served.plan.zone.num_segments >= 5
    ledger = served.runner._state.at.ledger
    assert ledger.is_owner("prompt", served.plan.zone.all_behind)
    assert ledger.is_owner("", served.plan.zone.parts[0].extent)


def test_nothing_of_the_lent_regions_is_loaded_before_the_first_restore():
    served = card()
    zone = served.plan.zone
    assert zone is not None
    written = [
        pair.target.content
        for command in served.commands
        if isinstance(command, Copy)
        for pair in command.pairs
        if not hasattr(pair.target, "space") and pair.target.extent.end_bytes <= zone.size_bytes
    ]
    assert not [content for content in written if content is not None]


@pytest.mark.parametrize("policy", [ALL, MASTER, ONCE], ids=["all", "master", "once"])
@pytest.mark.parametrize("max_tokens", [1, 3])
@pytest.mark.parametrize("num_tokens", [1, 7, 70, 257, 3000])
def test_the_first_request_restores_once_before_its_first_window(policy, num_tokens, max_tokens):
    served = card(policy)
    del served.commands[:]
    served.serve(prompt(num_tokens, max_tokens=max_tokens))
    zone = served.plan.zone
    assert zone is not None
    assert len(moves(served)) == 2 * zone.num_segments
    first_window = next(i for i, command in enumerate(served.commands) if isinstance(command, GraphLaunch))
    assert not [command for command in served.commands[first_window:] if isinstance(command, Map | Unmap)]
    assert_all_home(served)


def test_the_first_read_is_planned_with_the_segments():
    served = card()
    served.serve(prompt(3000))
    first = served.runner.read_facts()
    plain = symbolic_card(drafting_inventory(), options(LendingPolicy()), arena_bytes=ARENA_BYTES)
    plain.serve(prompt(3000))
    assert first.chunk_tokens > plain.runner.read_facts().chunk_tokens


def test_a_first_read_keeps_the_geometry_of_the_start_where_it_is_retained():
    policy = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True, retains_startup=True)
    served = card(policy)
    served.serve(prompt(300))
    assert served.runner.read_facts().chunk_tokens == served.plan.prompt.chunk_tokens > 512
    planned_again = card(ONCE)
    planned_again.serve(prompt(300))
    assert planned_again.runner.read_facts().chunk_tokens == 512


@pytest.mark.parametrize(("fresh", "is_taken"), [(255, False), (256, True), (257, True)])
def test_later_prompts_take_it_again_from_the_threshold_on(fresh, is_taken):
    served = card()
    served.serve(prompt(7))
    del served.commands[:]
    served.serve(prompt(fresh, first=1))
    zone = served.plan.zone
    assert zone is not None
    assert len(moves(served)) == (4 * zone.num_segments if is_taken else 0)
    assert_all_home(served)


def test_without_repeat_it_is_taken_once():
    served = card(ONCE)
    served.serve(prompt(3000))
    del served.commands[:]
    served.serve(prompt(3000, first=1))
    assert moves(served) == []
    assert served.runner.read_facts().lent_slots > 0


def test_regions_go_in_order_and_come_home_in_reverse():
    """Invariant 28: verifier, drafter, prompt path, head, then grow."""
    served = card()
    served.serve(prompt(7))
    del served.commands[:]
    served.serve(prompt(3000, first=1))
    names = [
        command.giver or command.taker
        for command in served.commands
        if isinstance(command, Transfer) and "" in (command.giver, command.taker)
    ]
    parts = [part.name for part in served.plan.zone.parts]
    assert parts == ["verifier", "block", "draft head", "head"][: len(parts)]
    kinds = [
        ("lend", command.taker) if isinstance(command, Transfer) else type(command).__name__
        for command in served.commands
        if isinstance(command, Transfer | Map | Unmap)
    ]
    out = names[: len(parts) + 1]
    assert out == [*parts, "prompt"]
    assert names[len(out) :] == ["prompt", *reversed(parts)]
    last_unmap = max(i for i, kind in enumerate(kinds[: len(kinds) // 2]) if kind == "Unmap")
    first_map = kinds.index("Map")
    assert last_unmap < first_map


def test_reduced_residency_is_published_before_the_first_unmap():
    """Invariant 33."""
    served = card()
    served.serve(prompt(7))
    del served.commands[:]
    served.serve(prompt(4000, first=1))
    assert served.runner.read_facts().lent_slots > 0
    published = next(i for i, c in enumerate(served.commands) if isinstance(c, Copy) and c.publishes is not None)
    assert published < next(i for i, c in enumerate(served.commands) if isinstance(c, Unmap))


def test_no_window_is_launched_while_anything_it_reads_is_away():
    """Invariant 31, for a prompt of one token too: the twin would refuse the stale graph."""
    served = card()
    assert served.serve(prompt(1, max_tokens=4)) == 4
    assert_all_home(served)


def test_a_room_does_not_open_while_the_block_is_away_and_does_otherwise():
    policy = LendingPolicy(
        room_min_tokens=0, is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=1024
    )
    served = card(policy)
    served.serve(prompt(3000))
    assert served.runner.read_facts().ring_slots == 4
    served.serve(prompt(600, first=1))  # below the threshold of the repeat
    assert served.runner.read_facts().ring_slots == 4 + len(served.plan.room)
    assert_all_home(served)


def test_a_master_alone_leaves_the_block_to_the_room():
    served = card(LendingPolicy(room_min_tokens=0, is_elastic=True))
    served.serve(prompt(3000))
    assert served.runner.read_facts().ring_slots == 4 + len(served.plan.room)
    assert_all_home(served)


def test_a_zone_of_less_than_a_segment_is_refused_and_a_larger_card_is_no_remedy():
    inventory, chosen = drafting_inventory(), options(MASTER, segment_bytes=1 << 20)
    (verifier,) = (region for region in carve_fixed(inventory, chosen).regions if region.name == "verifier")
    assert plan_card(inventory, 1 << 21, chosen) == Refusal(
        f"elastic loan refused: verifier take {verifier.extent.size_bytes:,} B, a segment has 1,048,576 B and only "
        "whole ones are moved; lower the segment size, or lend block and head too"
    )


def test_a_card_that_cannot_lend_slots_is_refused():
    plan = plan_card(drafting_inventory(), 1 << 20, PlanOptions(4096, policy=ALL, segment_bytes=SEGMENT_BYTES))
    assert isinstance(plan, Refusal)
    assert "elastic loan refused: reads must borrow cache slots" in plan.reason


@given(num_tokens=st.integers(1, 3000), cancel=st.integers(0, 30), again=st.integers(1, 600))
def test_a_cancelled_first_read_brings_everything_home(num_tokens, cancel, again):
    served = card()
    served.serve(prompt(num_tokens, max_tokens=2), cancel_after_steps=cancel)
    assert_all_home(served)
    assert served.serve(prompt(again, max_tokens=2, first=1)) == 2
    assert_all_home(served)


@pytest.mark.slow
@SHARDS
@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
def test_whatever_fails_of_a_read_everything_comes_home(is_first, is_refused, shard):
    """Every command of a first and of a later read fails in its turn, each map and unmap among them."""
    fail_each_command(260, is_first=is_first, is_refused=is_refused, shard=shard)


@pytest.mark.soak
@SHARDS
@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
def test_whatever_fails_of_a_streaming_read_everything_comes_home(is_first, is_refused, shard):
    fail_each_command(1100, is_first=is_first, is_refused=is_refused, shard=shard)


def fail_each_command(num_tokens: int, *, is_first: bool, is_refused: bool, shard: int) -> None:
    commands = _commands_of_a_request(num_tokens, is_first=is_first)
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

        served = _served(is_first=is_first, faults=fault)
        failing.append(len(served.commands) + index)
        try:
            served.serve(prompt(num_tokens, max_tokens=3, first=2))
        except DeviceError:
            failing.clear()
            served.runner.recover()
        assert_all_home(served)
        assert served.serve(prompt(300, max_tokens=2, first=1)) == 2
        assert_all_home(served)
    kinds = {"Copy", "Launch", "GraphLaunch", "Transfer", "Map", "Unmap", "Record", "Wait", "Notify"}
    assert kinds <= kinds_of(commands)
    assert len(hit) == len(indexes_of(len(commands), shard))


def _served(*, is_first: bool, **rest: object) -> Card:
    served = card(**rest)
    if not is_first:
        served.serve(prompt(7))
    return served


def _commands_of_a_request(num_tokens: int, *, is_first: bool) -> list[Command]:
    served = _served(is_first=is_first)
    start = len(served.commands)
    served.serve(prompt(num_tokens, max_tokens=3, first=2))
    return served.commands[start:]


def test_two_failures_on_the_way_home_still_end_at_home():
    """A map home that fails, and fails once more when it is repeated."""
    left = [0]

    def fault(number, command):
        if left[0] and isinstance(command, Map):
            left[0] -= 1
            raise DeviceError("planted", command)
        return

    served = card(faults=fault)
    served.runner.begin(prompt(300, max_tokens=2))
    while isinstance(served.runner._state, Reading):
        served.play()
        served.runner.advance(is_cancelled=False)
    left[0] = 2
    with pytest.raises(DeviceError):
        served.runner.advance(is_cancelled=False)
    served.runner.recover()
    assert left[0] == 0
    assert_all_home(served)
