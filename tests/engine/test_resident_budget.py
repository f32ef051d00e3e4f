"""Windows that stage blobs of memory that is not pinned, judged by the twin: in order, layer by layer, whatever
fails in between."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.core import programs
from strata.core.commands import Access, Command, Copy, GraphLaunch, Launch, Notify, Stream
from strata.core.errors import DeviceError
from strata.core.extent import HostExtent, HostSpace
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.states import Idle
from strata.engine.runner import HasSampled
from tests.engine.every_command import SHARDS, fail_once, indexes_of, kinds_of
from tests.engine.symbolic_card import Card, drafting_inventory, lending_inventory, prompt, symbolic_card

OPTIONS = PlanOptions(4096, min_cache_slots=4, ring_slots=4, pinned_bytes=100_000)
ROOM = LendingPolicy(room_min_tokens=0, short_read_tokens=64)
ALL = LendingPolicy(
    room_min_tokens=0, is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=256, short_read_tokens=64
)


def card(options: PlanOptions = OPTIONS, **rest: Any) -> Card:
    inventory = drafting_inventory() if options.policy.room_min_tokens == 0 else lending_inventory()
    model = replace(inventory, num_experts_used=6)
    arena_bytes = 1 << 19 if inventory.drafter is None else 1 << 20
    segment_bytes = 1 << 14 if options.policy.is_elastic else 0
    return symbolic_card(model, replace(options, segment_bytes=segment_bytes), arena_bytes=arena_bytes, **rest)


def words_of(served: Card, start: int) -> list[str]:
    """What a window asks for, as far as it is about experts."""
    words = []
    for command in served.commands[start:]:
        match command:
            case GraphLaunch(graph=graph):
                words.append(graph)
            case Launch(program=program) if program in (programs.ROUTER, programs.EXPERTS, programs.SAMPLE):
                words.append(program)
            case Notify():
                words.append("told")
            case Copy(pairs=pairs) if any(_is_counts(served, pair.target) for pair in pairs):
                words.append("counts")
            case Copy(pairs=pairs) if any(_is_staged(served, pair.target) for pair in pairs):
                words.append("staged")
    return words


def _is_counts(served: Card, side: Access | HostExtent) -> bool:
    return side == served.plan.staging.router_counts


def _is_staged(served: Card, side: Access | HostExtent) -> bool:
    return isinstance(side, Access) and side.extent == served.plan.verifier.addresses


def test_a_window_asks_at_each_layer_whose_blobs_may_be_missing_and_stages_what_was_chosen():
    served = card()
    assert all(served.plan.staged[layer] for layer in (0, 2, 3)) and not served.plan.staged[1]
    served.play()
    start = len(served.commands)
    served.runner.begin(prompt(1))
    layer = ["router", "counts", "told", "staged", "experts"]
    assert words_of(served, start) == [*layer, *layer, *layer, "sample", "told"]


def test_staged_blobs_lie_where_the_row_says_and_are_no_others():
    served = card(seed=3)
    served.play()
    counts = served.payload.host(served.plan.staging.router_counts).cast("i")
    chosen = {expert for expert, rows in enumerate(counts) if rows}
    start = len(served.commands)
    served.runner.begin(prompt(1))
    for command in served.commands[start:]:
        if isinstance(command, Launch) and command.program == programs.EXPERTS:
            layer = command.args.layer
            blobs = [read for read in command.reads if isinstance(read, Access) and read.content is not None]
            expected = sorted(chosen & served.plan.staged[layer])
            assert [blob.content for blob in blobs] == [f"blob {layer} {expert}" for expert in expected]
            assert command.args.addresses == served.plan.verifier.addresses
    copied = [
        pair
        for command in served.commands[start:]
        if isinstance(command, Copy) and command.stream is Stream.VERIFIER
        for pair in command.pairs
        if isinstance(pair.source, HostExtent) and pair.source.space is HostSpace.PACK
    ]
    assert copied and not any(served.plan.pack.is_pinned(pair.source) for pair in copied)
    assert served.runner.snapshot().counts.staged_reads == len(copied)


def test_layers_whose_blobs_are_all_pinned_or_resident_ask_nothing():
    served = card(replace(OPTIONS, pinned_bytes=430_000))
    (asking,) = [layer for layer, experts in enumerate(served.plan.staged) if experts]
    assert asking == 3
    served.play()
    start = len(served.commands)
    served.runner.begin(prompt(1))
    asks = ["router", "counts", "told", "staged", "experts"]
    assert words_of(served, start) == ["router", "experts", "router", "experts", *asks, "sample", "told"]


@settings(max_examples=30)
@given(
    num_tokens=st.integers(1, 900),
    cancel=st.none() | st.integers(0, 40),
    window_rows=st.integers(1, 4),
    policy=st.sampled_from((LendingPolicy(), LendingPolicy(short_read_tokens=64), ROOM, ALL)),
    pinned_bytes=st.integers(0, 600_000),
    seed=st.integers(0, 99),
)
def test_requests_pass_every_check_whatever_is_pinned_and_lent(
    num_tokens, cancel, window_rows, policy, pinned_bytes, seed
):
    options = replace(OPTIONS, policy=policy, window_rows=window_rows, pinned_bytes=pinned_bytes)
    served = card(options, seed=seed)
    served.serve(prompt(num_tokens, max_tokens=4), cancel_after_steps=cancel)
    assert served.serve(prompt(40, max_tokens=4, first=1)) == 4
    assert served.serve(prompt(700, max_tokens=3, first=2)) == 3
    assert not served.runner._state.at.is_lending and isinstance(served.runner._state, Idle)


@SHARDS
@pytest.mark.parametrize("policy", [ROOM, pytest.param(ALL, marks=pytest.mark.soak)], ids=["room", "all"])
@pytest.mark.parametrize("kind", ["refused", "failed"])
def test_a_failure_in_any_command_ends_with_all_at_rest_and_the_next_request_answered(
    kind: str, policy: LendingPolicy, shard: int
):
    options = replace(OPTIONS, policy=policy, window_rows=2)
    start = len(card(options).commands)
    whole = card(options)
    request = prompt(300, max_tokens=3)
    whole.serve(request)
    commands = whole.commands[start:]
    assert {"Copy", "Launch", "GraphLaunch", "Notify", "Transfer"} <= kinds_of(commands)
    for index in indexes_of(len(commands), shard):
        served = card(options, faults=fail_once(start + index, kind))
        with pytest.raises(DeviceError):
            served.serve(request)
        served.runner.recover()
        assert isinstance(served.runner._state, Idle) and not served.runner._state.at.is_lending
        assert served.serve(prompt(20, max_tokens=3, first=1)) == 3


def test_a_staging_copy_that_fails_breaks_its_request_and_no_other():
    cards: list[Card] = []
    seen: list[int] = []

    def faults(index: int, command: Command) -> None:
        is_staging = isinstance(command, Copy) and any(
            _is_staged(each, pair.target) for each in cards for pair in command.pairs
        )
        if is_staging:
            seen.append(index)
        if is_staging and len(seen) == 2:
            raise DeviceError("planted", command)

    served = card(faults=faults)
    cards.append(served)
    with pytest.raises(DeviceError, match="planted"):
        served.serve(prompt(1))
    served.runner.recover()
    assert served.serve(prompt(1, first=3)) == 2


def test_reads_of_staged_blobs_count_as_missed():
    """The card finds them in a slot of its own; they crossed the link all the same."""
    served = card()
    served.play()
    served.runner.begin(prompt(1))
    num_staged = served.runner.snapshot().counts.staged_reads
    served.play()
    words = served.payload.host(served.plan.staging.result).cast("q")
    words[programs.HIT_WORD], words[programs.MISSED_WORD] = num_staged + 5, 7
    assert isinstance(served.runner.advance(is_cancelled=False), HasSampled)
    counts = served.runner.snapshot().counts
    assert num_staged > 0 and (counts.window_reads_hit, counts.window_reads_missed) == (0, 0)
    served.runner.end()
    counts = served.runner.snapshot().counts
    assert (counts.window_reads_hit, counts.window_reads_missed) == (5, 7 + num_staged)
    assert (counts.expert_reads_hit, counts.expert_reads_missed) == (5, 7 + num_staged)
