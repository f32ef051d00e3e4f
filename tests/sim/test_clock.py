"""Virtual time against timelines counted by hand. Paces are round: a byte over the link is a nanosecond, and what a
test does not speak of takes no time.
"""

from typing import Any

import pytest

from sim.clock import Pace, ProgramPace, VirtualClock
from sim.device import SimDevice, describe_twin
from sim.queues import Queues
from sim.symbolic import SymbolicPayload
from strata.core.commands import (
    Access,
    Command,
    Copy,
    CopyPair,
    Digest,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Record,
    Stream,
    Transfer,
    Unmap,
    Wait,
)
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.programs import LayerArgs

PROMPT, COPY, VERIFIER = Stream.PROMPT, Stream.COPY, Stream.VERIFIER
NOTHING: dict[str, Any] = dict.fromkeys(("copy_ns", "launch_ns", "graph_node_ns", "map_ns", "unmap_ns"), 0)
RATES = {"link_bytes_per_us": 1000, "pack_read_bytes_per_us": 500, "memory_bytes_per_us": 2000}
PROGRAMS = {"ffn": ProgramPace(fixed_ns=10, row_ns=3)}


def make_clock(**paces: int) -> VirtualClock:
    return VirtualClock(Pace(PROGRAMS, **{**RATES, **NOTHING, **paces}))


def arena(size: int, start: int = 0) -> Access:
    return Access(Extent(start, size), "kv")


def to_device(size: int, stream: Stream = COPY) -> Copy:
    return Copy(stream, (CopyPair(HostExtent(HostSpace.STAGING, 0, size), arena(size)),))


def to_host(size: int, stream: Stream = COPY) -> Copy:
    return Copy(stream, (CopyPair(arena(size), HostExtent(HostSpace.STAGING, 0, size)),))


def charge(clock: VirtualClock, *commands: Command) -> None:
    for command in commands:
        clock.charge(command, [], pack_read_bytes=0)


def ffn(clock: VirtualClock, rows: int, stream: Stream = PROMPT, pack_read_bytes: int = 0) -> None:
    launch = Launch(stream, "ffn", None, (), ())  # type: ignore[arg-type]  # the clock is told of the rows
    clock.charge(launch, [("ffn", rows)], pack_read_bytes=pack_read_bytes)


def over(clock: VirtualClock, *streams: Stream) -> tuple[int, ...]:
    """When each stream is through, once the host has waited for everything."""
    clock.drain()
    return tuple(clock.times().over_ns[stream] for stream in streams)


def test_a_stream_does_one_thing_after_the_other_and_streams_go_side_by_side() -> None:
    clock = make_clock()
    ffn(clock, 10)
    ffn(clock, 20)
    digest = Digest(VERIFIER, arena(40), HostExtent(HostSpace.STAGING, 0, 8))
    charge(clock, to_device(100), Fill(VERIFIER, arena(60), 0), digest)
    assert over(clock, PROMPT, COPY, VERIFIER) == (40 + 70, 100, 30 + 20)
    assert clock.times().busy_ns == clock.times().over_ns and clock.times().now_ns == 110


def test_a_wait_stands_still_until_its_event_and_no_longer() -> None:
    clock = make_clock()
    charge(clock, to_device(100), Record(COPY, "copied"), to_device(50))
    ffn(clock, 10)
    charge(clock, Wait(PROMPT, "copied"))
    ffn(clock, 0)
    charge(clock, Wait(PROMPT, "copied"), Record(COPY, "copied"))
    assert over(clock, PROMPT, COPY) == (110, 150)
    times = clock.times()
    assert (times.stalled_ns[PROMPT], times.stalled_ns[COPY], times.busy_ns[PROMPT]) == (60, 0, 50)


def test_the_host_is_at_least_as_late_as_what_it_waited_for() -> None:
    clock = make_clock(launch_ns=7)
    ffn(clock, 10)
    charge(clock, Notify(PROMPT, "read"))
    assert clock.times().now_ns == 7
    clock.take("read")
    assert clock.times().now_ns == 47
    charge(clock, to_device(5))
    assert over(clock, COPY) == (52,)


def test_each_direction_of_the_link_carries_one_copy_at_a_time() -> None:
    clock = make_clock(copy_ns=2)
    charge(clock, to_device(100), to_device(10, PROMPT), to_host(30, VERIFIER))
    assert over(clock, COPY, PROMPT, VERIFIER) in {(102, 114, 32), (114, 12, 32)}


def test_a_copy_waits_for_one_copy_of_another_stream_and_not_for_all_that_it_has() -> None:
    clock = make_clock()
    charge(clock, *(to_device(100) for _ in range(5)))
    ffn(clock, 10)
    charge(clock, to_device(7, PROMPT))
    assert over(clock, PROMPT, COPY) == (107, 507)


def test_what_a_program_reads_of_the_pack_crosses_the_link_too() -> None:
    clock = make_clock()
    charge(clock, to_device(100), to_host(30, VERIFIER))
    ffn(clock, 10, pack_read_bytes=20)
    assert over(clock, PROMPT, COPY, VERIFIER) == (140, 100, 30)


def test_a_copy_that_stands_still_lets_others_use_the_link_before_it() -> None:
    clock = make_clock()
    ffn(clock, 30)
    charge(clock, Record(PROMPT, "used"), Wait(COPY, "used"), to_device(50), to_device(60, VERIFIER))
    charge(clock, to_device(60, VERIFIER), to_device(30, VERIFIER))
    assert over(clock, COPY, VERIFIER) == (170, 200)


def test_what_the_host_issues_later_comes_between_what_has_not_begun() -> None:
    clock = make_clock()
    charge(clock, *(to_device(100) for _ in range(5)))
    ffn(clock, 50)
    charge(clock, Notify(PROMPT, "routed"))
    clock.take("routed")
    assert clock.times().now_ns == 160
    charge(clock, to_device(7, PROMPT))
    assert over(clock, PROMPT, COPY) == (207, 507)


def test_a_graph_costs_one_launch_and_its_nodes() -> None:
    clock = make_clock(launch_ns=100, graph_node_ns=2)
    nodes = [("ffn", 1)] * 5
    clock.charge(GraphLaunch(VERIFIER, "window", 1), nodes, pack_read_bytes=50)
    assert clock.times().now_ns == 100
    assert over(clock, VERIFIER) == (100 + 5 * (2 + 13) + 100,)


def test_segments_take_the_hosts_time_and_no_streams() -> None:
    clock = make_clock(map_ns=56, unmap_ns=59)
    charge(clock, Map(0, Extent(0, 8)), Transfer(Extent(0, 8), "", "kv"), Unmap(Extent(0, 8)))
    assert clock.times().now_ns == 115 and not any(clock.times().over_ns.values())


def make_card(**options: Any) -> SimDevice:
    description = describe_twin(arena_bytes=64, segment_bytes=64, pack_bytes=0, staging_bytes=8)
    return SimDevice(description, {"ffn": lambda memory, args: None}, SymbolicPayload(description), **options)


def test_a_device_charges_what_was_taken_and_nothing_that_was_refused() -> None:
    clock = make_clock(launch_ns=5)
    card = make_card(clock=clock)
    launch = Launch(PROMPT, "ffn", LayerArgs(0, 4, None), (), (arena(8),))  # type: ignore[arg-type]
    card.submit([Map(0, Extent(0, 64)), Transfer(Extent(0, 64), "", "kv"), launch, Notify(PROMPT, "done")])
    with pytest.raises(Exception, match="expected owner"):
        card.submit([Launch(PROMPT, "ffn", launch.args, (), (Access(Extent(0, 8), "ring"),))])
    card.capture("window", [launch, launch])
    assert clock.times().now_ns == 5
    card.completions()
    assert clock.times().now_ns == clock.times().over_ns[PROMPT] == 27
    card.submit([GraphLaunch(PROMPT, "window", 0)])
    assert over(clock, PROMPT) == (32 + 44,)


def test_a_clock_needs_commands_that_are_over_as_they_are_submitted() -> None:
    with pytest.raises(AssertionError):
        make_card(clock=make_clock(), queues=Queues())


def test_a_copy_from_memory_that_is_not_pinned_holds_up_the_host():
    """In order on its stream all the same: behind what the stream still waits for, as far as that was issued."""
    clock = make_clock(pageable_bytes_per_us=100)
    pinned, edge = (CopyPair(HostExtent(HostSpace.PACK, start, 20), arena(20)) for start in (0, 10))
    for pair in (pinned, edge):
        clock.charge(Copy(COPY, (pair,)), [], pack_read_bytes=0, pinned_bytes=20)
    assert clock.times().now_ns == clock.times().over_ns[COPY] == 20 + 200
    ffn(clock, 30)
    charge(clock, Record(PROMPT, "read"), Wait(COPY, "read"))
    clock.charge(Copy(COPY, (edge,)), [], pack_read_bytes=0, pinned_bytes=20)
    assert clock.times().now_ns == 220 + 100 + 200
    clock.charge(Copy(COPY, (edge,)), [], pack_read_bytes=0, pinned_bytes=30)
    assert clock.times().now_ns == 520
