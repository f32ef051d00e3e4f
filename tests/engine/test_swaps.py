"""Blobs that are exchanged while replies are decoded, judged by the twin: in order, whole, and whatever fails."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.clock import VirtualClock
from sim.errors import ContentMismatch, TableError, TwinError, UndefinedRead
from strata.core import programs
from strata.core.commands import Access, Command, Copy, GraphLaunch, Record, Stream, Wait
from strata.core.errors import DeviceError
from strata.core.extent import Extent, HostExtent
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.residency import Residency
from strata.core.memory.shapes import PlanOptions, Slot
from strata.core.serving import swapping
from strata.core.serving.launches import Recipe
from strata.core.serving.steps import Orders
from strata.engine.graphs import start_graphs
from strata.engine.runner import HasSampled
from tests.engine.every_command import SHARDS, fail_once, indexes_of, kinds_of
from tests.engine.symbolic_card import (
    Card,
    dense_reads,
    drafting_inventory,
    lending_inventory,
    prompt,
    small_inventory,
    symbolic_card,
)
from tests.engine.test_virtual_time import ARENA_BYTES, BLOB_BYTES, NUM_LAYERS, pace, scaled_inventory

OPTIONS = PlanOptions(4096, min_cache_slots=4, ring_slots=4, num_swaps=3, swap_windows=2)
HOT = frozenset({(0, 37), (0, 38), (2, 39), (3, 39)})
"""None of them has a slot at first."""


def card(options: PlanOptions = OPTIONS, **rest: object) -> Card:
    served = symbolic_card(lending_inventory(), options, arena_bytes=1 << 19, **rest)  # type: ignore[arg-type]
    served.hot = HOT
    return served


def slots(served: Card) -> tuple[Slot, ...]:
    return served.runner._state.at.cache.slots


def blobs(served: Card) -> set[tuple[int, int]]:
    return {(slot.layer, slot.expert) for slot in slots(served)}


def is_swap(command: Command) -> bool:
    """A copy of blobs into the cache; behind a read that lent nothing there is no other."""
    return isinstance(command, Copy) and any(
        isinstance(pair.target, Access) and pair.target.owner == "cache" for pair in command.pairs
    )


def words_of(commands: list[Command]) -> list[str]:
    """The commands of swaps, and the windows they lie between."""
    words = []
    for command in commands:
        match command:
            case GraphLaunch():
                words.append("window")
            case Copy(publishes=None) if is_swap(command):
                words.append("copy")
            case Copy(pairs=pairs) if command.publishes is not None:
                words.append("table")
            case Copy(pairs=pairs) if any(isinstance(p.target, HostExtent) for p in pairs) and len(pairs) == 2:
                words.append("reads")
            case Record(event=event) | Wait(event=event) if event in (swapping.CLEARED, swapping.SWAPPED):
                words.append(f"{type(command).__name__.lower()} {event}")
    return words


def test_the_hottest_blobs_take_the_slots_of_others():
    served = card()
    before = slots(served)
    assert not HOT & blobs(served)
    assert served.serve(prompt(1, max_tokens=30)) == 30
    assert blobs(served) >= HOT
    after = slots(served)
    assert [slot.extent for slot in after] == [slot.extent for slot in before]
    assert len({(slot.layer, slot.expert) for slot in after}) == len(before)
    assert sum(a != b for a, b in zip(before, after, strict=True)) == len(HOT)


def test_a_swap_is_cleared_copied_beside_a_window_and_landed_behind_it():
    served = card()
    start = len(served.commands)
    served.serve(prompt(1, max_tokens=6))
    swap = ["table", "record cleared", "wait cleared", "copy", "record swapped"]
    landing = ["wait swapped", "table"]
    assert words_of(served.commands[start:]) == [
        *("window", "window", "reads", *swap, "window", *landing, "window", "reads", *swap, "window", *landing),
        "window",
        "reads",
    ]
    copies = [command for command in served.commands[start:] if is_swap(command)]
    assert {command.stream for command in copies} == {Stream.COPY} and [len(c.pairs) for c in copies] == [3, 1]


def test_a_reply_that_ends_beside_a_swap_lands_it_first():
    served = card()
    start = len(served.commands)
    served.serve(prompt(1, max_tokens=3))
    assert words_of(served.commands[start:])[-3:] == ["window", "wait swapped", "table"]
    assert len(HOT & blobs(served)) == 3
    at = served.runner._state.at
    assert (at.cache.moving, at.cache.landing) == ((), ())


def test_no_host_waits_for_a_swap_beside_its_window():
    """Only the window behind it brings a notice of the copies."""
    served = card()
    served.runner.begin(prompt(1, max_tokens=9))
    awaited = []
    for _ in range(4):
        awaited.append({tag.rsplit(" ", 1)[0] for tag in served.runner._awaits})
        served.play()
        served.runner.resume(*served.runner.advance(is_cancelled=False).token_ids)  # type: ignore[union-attr]
    assert awaited == [{"verifier"}, {"verifier"}, {"verifier"}, {"verifier", "copy"}]


def test_windows_of_several_replies_make_one_round():
    served = card(replace(OPTIONS, swap_windows=5))
    for first in range(5):
        assert not HOT & blobs(served)
        served.serve(prompt(1, max_tokens=1, first=first))
    assert served.runner._state.at.cache.is_fresh
    served.serve(prompt(1, max_tokens=2, first=5))
    assert len(HOT & blobs(served)) == 3


def test_without_the_option_nothing_is_counted_and_nothing_changes():
    served = card(replace(OPTIONS, num_swaps=0))
    window = served.plan.verifier.window
    assert (window.usage.size_bytes, served.plan.staging.usage.size_bytes) == (0, 0)
    before, start = slots(served), len(served.commands)
    served.serve(prompt(1, max_tokens=30))
    assert slots(served) == before and words_of(served.commands[start:]) == ["window"] * 30


def test_a_model_without_experts_counts_nothing():
    plan = plan_card(small_inventory(blob_bytes=(0, 0)), 1 << 20, OPTIONS)
    assert isinstance(plan, Plan) and plan.staging.usage.size_bytes == 0
    assert not any(swapping.brings_reads(plan, Residency((), num_windows=number)) for number in range(4))


def test_where_everything_is_resident_there_is_nothing_to_do():
    served = card()
    whole = symbolic_card(lending_inventory(), OPTIONS, arena_bytes=1 << 21)
    assert whole.plan.num_missing_pairs == 0 < served.plan.num_missing_pairs
    whole.hot = HOT
    whole.serve(prompt(1, max_tokens=20))
    assert not whole.runner._state.at.cache.moving and slots(whole) == whole.plan.slots


def test_a_swapped_blob_is_lent_and_refilled_like_any_other():
    served = card()
    served.serve(prompt(1, max_tokens=30))
    own = slots(served)
    served.serve(prompt(900, first=3))
    facts = served.runner.read_facts()
    assert facts.lent_slots > 0 and facts.refilled_bytes > 0
    assert slots(served) == own
    refilled = {
        pair.target.content
        for command in served.commands
        if is_swap(command)
        for pair in command.pairs
        if isinstance(pair.target, Access)
    }
    assert {f"blob {slot.layer} {slot.expert}" for slot in own[-facts.lent_slots :]} <= refilled


def test_no_swap_begins_while_anything_is_lent():
    """The block is on its way home while the first window runs, and reads come with that window."""
    policy = LendingPolicy(room_min_tokens=0, is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=256)
    options = PlanOptions(
        4096, min_cache_slots=4, ring_slots=4, window_rows=3, policy=policy, segment_bytes=1 << 16, num_swaps=3,
        swap_windows=1,
    )  # fmt: skip
    served = symbolic_card(drafting_inventory(), options, arena_bytes=12 << 17)
    served.hot = HOT
    for first, num_tokens in ((1, 700), (2, 300), (3, 20)):
        served.runner.begin(prompt(num_tokens, max_tokens=9, first=first))
        for _ in range(3000):
            at = served.runner._state.at
            assert not (at.is_lending and (at.cache.moving or at.cache.landing))
            served.play(num_standing=1)
            outcome = served.runner.advance(is_cancelled=False)
            if hasattr(outcome, "token_ids"):
                break
        for _ in range(6):
            served.runner.resume(*served.runner._sampled)
            served.play(num_standing=1)
            served.runner.advance(is_cancelled=False)
        served.runner.end()
    assert blobs(served) != {(slot.layer, slot.expert) for slot in served.plan.slots}


def counters_of(served: Card, graph: str) -> set[Extent]:
    """Those extents in which reads of experts are counted that the graph's experts read or write."""
    window = served.plan.verifier.window
    captured = dict(start_graphs(Recipe(served.plan, dense_reads(served.plan.inventory))))[graph]
    launches = [each for each in captured if each.program == programs.EXPERTS]
    named = {side.extent for each in launches for side in (*each.reads, *each.writes) if isinstance(side, Access)}
    told = {side for each in launches for side in (each.args.result, each.args.usage) if side and side.size_bytes}
    assert launches and told == named & {window.result, window.usage}
    return named & {window.result, window.usage}


def test_only_windows_of_a_reply_count_what_they_read():
    served = card(replace(OPTIONS, window_rows=3, policy=LendingPolicy(short_read_tokens=64)))
    window = served.plan.verifier.window
    for rows in (1, 2, 3):
        assert counters_of(served, f"read {rows}") == set()
        assert counters_of(served, f"window {rows}") == {window.result, window.usage}
    before = served.runner.snapshot().counts
    served.serve(prompt(40), cancel_after_steps=3)
    counts = served.runner.snapshot().counts
    assert served.runner.read_facts().window_rows == 3 and served.runner._state.at.cache.num_windows == 0
    assert (counts.window_reads_hit, counts.expert_reads_hit) == (before.window_reads_hit, before.expert_reads_hit)


REQUESTS = st.tuples(st.integers(1, 700), st.integers(1, 12), st.none() | st.integers(0, 30))


@settings(max_examples=40)
@given(
    requests=st.lists(REQUESTS, min_size=1, max_size=5),
    num_swaps=st.sampled_from((1, 3, 16)),
    swap_windows=st.integers(1, 4),
    short_read_tokens=st.sampled_from((0, 64)),
    seed=st.integers(0, 99),
)
def test_any_requests_pass_every_check_of_the_twin(requests, num_swaps, swap_windows, short_read_tokens, seed):
    policy = LendingPolicy(short_read_tokens=short_read_tokens)
    served = card(replace(OPTIONS, num_swaps=num_swaps, swap_windows=swap_windows, policy=policy), seed=seed)
    served.hot = None
    for first, (num_tokens, max_tokens, cancel) in enumerate(requests):
        served.serve(prompt(num_tokens, max_tokens=max_tokens, first=first), cancel_after_steps=cancel)
    assert served.serve(prompt(300, max_tokens=12, first=9)) == 12
    assert blobs(served) != {(slot.layer, slot.expert) for slot in served.plan.slots} or num_swaps == 1


@pytest.mark.slow
@SHARDS
@pytest.mark.parametrize("kind", ["refused", "failed on its way"])
def test_whichever_command_of_a_swap_fails_every_blob_is_where_the_books_say(kind: str, shard: int):
    """Every command of a reply with two swaps; then a reply reads through the table, and another read lends."""
    reference = card()
    first = len(reference.commands)
    reference.serve(prompt(1, max_tokens=7))
    for fail_at in indexes_of(len(reference.commands), first + shard):
        served = card(faults=fail_once(fail_at, kind))
        try:
            served.serve(prompt(1, max_tokens=7))
        except DeviceError as error:
            if isinstance(error, TwinError) and not isinstance(error, UndefinedRead | TableError):
                raise
            served.runner.recover()
        cache = served.runner._state.at.cache
        assert (cache.moving, cache.landing) == ((), ()) and len(blobs(served)) == len(cache.slots)
        served.hot = None
        assert served.serve(prompt(1, max_tokens=9, first=2)) == 9
        assert served.serve(prompt(500, max_tokens=9, first=3)) == 9
    assert {"Copy", "Fill", "Record", "Wait", "GraphLaunch", "Notify"} <= kinds_of(reference.commands[first:])


@pytest.mark.parametrize("again", range(4))
def test_a_mending_that_fails_is_repeated_until_the_moved_blobs_are_there(again: int):
    """The copies of a swap fail, and then a command of the mending."""
    probe = card()
    first = len(probe.commands)
    probe.serve(prompt(1, max_tokens=3))
    copy = next(index for index, command in enumerate(probe.commands) if index >= first and is_swap(command))
    planned = [fail_once(copy, "failed on its way")]
    served = card(faults=lambda index, command: planned[-1](index, command))
    with pytest.raises(DeviceError):
        served.serve(prompt(1, max_tokens=6))
    planned.append(fail_once(len(served.commands) + 3 + 2 * again, "failed on its way"))
    served.runner.recover()
    assert len(served.commands) > len(probe.commands) and len(HOT & blobs(served)) == 3
    assert served.serve(prompt(1, max_tokens=9, first=2)) == 9


def test_the_twin_sees_a_swap_whose_entry_was_not_cleared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(swapping, "_publish", lambda plan, places, at, cache: (replace(at, cache=cache), Orders()))
    with pytest.raises(ContentMismatch, match="blob"):
        card().serve(prompt(1, max_tokens=9))


def window_times(*, num_swaps: int, blob_bytes: int) -> tuple[list[int], int]:
    """When each of 40 windows had answered, in virtual nanoseconds, and the number of blobs exchanged."""
    clock = VirtualClock(pace(window_ns=10_000_000))
    inventory = replace(scaled_inventory(), blob_bytes=(blob_bytes,) * NUM_LAYERS, drafter=None)
    options = PlanOptions(4096, num_cache_slots=128, ring_slots=4, num_swaps=num_swaps, swap_windows=4)
    served = symbolic_card(inventory, options, arena_bytes=ARENA_BYTES, clock=clock)
    served.hot = frozenset((layer, 99 + layer) for layer in range(NUM_LAYERS))
    served.runner.begin(prompt(1, max_tokens=41))
    times = []
    for _ in range(40):
        served.play()
        outcome = served.runner.advance(is_cancelled=False)
        assert isinstance(outcome, HasSampled)
        times.append(clock.times().now_ns)
        served.runner.resume(*outcome.token_ids)
    return times, served.runner.snapshot().counts.num_swaps


@pytest.mark.slow
def test_in_virtual_time_a_swap_costs_two_tables_and_no_copy():
    """16 blobs of 2.5 MiB are 0.8 ms of an H200's link, beside a window of more than 10 ms."""
    plain, none = window_times(num_swaps=0, blob_bytes=BLOB_BYTES)
    swapping, num_swaps = window_times(num_swaps=16, blob_bytes=BLOB_BYTES)
    copy_ns = BLOB_BYTES * 1000 // pace().link_bytes_per_us
    assert (none, num_swaps) == (0, NUM_LAYERS)
    assert 0 <= swapping[-1] - plain[-1] < copy_ns


@pytest.mark.slow
def test_in_virtual_time_copies_longer_than_a_window_hold_up_the_one_behind_it():
    """The table that names them waits on the card, and nothing on the host."""
    plain, _ = window_times(num_swaps=0, blob_bytes=16 * BLOB_BYTES)
    swapping, num_swaps = window_times(num_swaps=16, blob_bytes=16 * BLOB_BYTES)
    copies_ns = num_swaps * 16 * BLOB_BYTES * 1000 // pace().link_bytes_per_us
    assert num_swaps == NUM_LAYERS and 0 < swapping[-1] - plain[-1] < copies_ns
