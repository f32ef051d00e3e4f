"""What every body of `strata.device.Device` does, right programs only. Each test runs on each body of conftest."""

import random

import pytest

from strata.core.commands import (
    Access,
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
    TableRead,
    TableVersion,
    Transfer,
    Unmap,
    Wait,
)
from strata.core.errors import DeviceError
from strata.core.events import Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from tests.device.bench import OWNER, PROGRAMS, AddArgs, Bench, GatherArgs, ReachArgs, naive_digest, pack_bytes
from tests.device.conftest import DeviceFactory


@pytest.fixture
def bench(make_device: DeviceFactory) -> Bench:
    return Bench(make_device(PROGRAMS))


def add_launch(bench: Bench, left: int, right: int, out: int, size: int) -> Launch:
    accesses = [bench.at(offset, size) for offset in (left, right, out)]
    args = AddArgs(*(access.extent for access in accesses))
    return Launch(Stream.VERIFIER, "add", args, (accesses[0], accesses[1]), (accesses[2],))


def test_bytes_come_back_as_they_went(bench: Bench) -> None:
    data = random.Random(1).randbytes(3000)
    bench.put(1024, data)
    assert bench.get(1024, len(data)) == data


def test_an_extent_may_cross_segments(bench: Bench) -> None:
    offset, data = bench.segment_bytes - 1000, random.Random(2).randbytes(2000)
    bench.put(offset, data)
    bench.run(add_launch(bench, offset, offset, 2 * bench.segment_bytes - 500, 2000))
    assert bench.get(2 * bench.segment_bytes - 500, 2000) == bytes(2 * byte % 256 for byte in data)


def test_a_group_copies_every_pair_from_the_pack(bench: Bench) -> None:
    places = [(256 * index, 1000 + 300 * index) for index in range(16)]
    pairs = tuple(CopyPair(HostExtent(HostSpace.PACK, source, 256), bench.at(target, 256)) for target, source in places)
    bench.run(Copy(Stream.COPY, pairs))
    for target, source in places:
        assert bench.get(target, 256) == pack_bytes(source, 256)


def test_parked_bytes_come_back_in_pieces_and_elsewhere(bench: Bench) -> None:
    """A conversation leaves the card in two pieces, others use its bytes, and half of each piece comes home."""
    data, crossing = random.Random(3).randbytes(6000), bench.segment_bytes - 1500
    bench.put(crossing, data)
    away = [HostExtent(HostSpace.PARKED, offset, 3000) for offset in (17 * 1024 - 100, 1024)]
    first, second = bench.at(crossing, 3000), bench.at(crossing + 3000, 3000)
    bench.run(Copy(Stream.VERIFIER, (CopyPair(first, away[0]), CopyPair(second, away[1]))))
    bench.put(crossing, bytes(6000))
    home = tuple(
        CopyPair(place.part(offset_bytes=1000, size_bytes=2000), bench.at(target, 2000))
        for place, target in zip(away, (crossing + 1000, crossing + 4000), strict=True)
    )
    bench.run(Copy(Stream.VERIFIER, home))
    assert bench.get(crossing, 6000) == bytes(1000) + data[1000:3000] + bytes(1000) + data[4000:]
    assert bytes(bench.device.host(away[1])) == data[3000:]


def test_a_copy_beyond_parked_memory_is_refused(bench: Bench) -> None:
    bench.put(0, bytes(64))
    beyond = HostExtent(HostSpace.PARKED, bench.description.parked_bytes - 63, 64)
    with pytest.raises(DeviceError):
        bench.device.submit([Copy(Stream.VERIFIER, (CopyPair(bench.at(0, 64), beyond),))])


def test_fill_sets_exactly_its_extent(bench: Bench) -> None:
    bench.put(0, bytes(range(64)))
    bench.run(Fill(Stream.PROMPT, bench.at(5, 9), 0xA5))
    assert bench.get(0, 64) == bytes(range(5)) + b"\xa5" * 9 + bytes(range(14, 64))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 255, 4099])
def test_the_digest_is_what_its_definition_says(bench: Bench, size: int) -> None:
    data, target = random.Random(size).randbytes(size), HostExtent(HostSpace.STAGING, 8192, 8)
    if size:
        bench.put(512, data)
    bench.run(Digest(Stream.VERIFIER, bench.at(512, size), target))
    assert int.from_bytes(bytes(bench.device.host(target)), "little") == naive_digest(data)


def test_streams_are_ordered_by_record_and_wait(bench: Bench) -> None:
    source = HostExtent(HostSpace.PACK, 0, 512)
    bench.device.submit(
        [
            Copy(Stream.COPY, (CopyPair(source, bench.at(0, 512)),)),
            Record(Stream.COPY, "copied"),
            Wait(Stream.VERIFIER, "copied"),
            add_launch(bench, 0, 0, 512, 512),
            Record(Stream.VERIFIER, "added"),
            Wait(Stream.COPY, "added"),
            Fill(Stream.COPY, bench.at(0, 512), 0),
        ]
    )
    bench.finish()
    assert bench.get(512, 512) == bytes(2 * byte % 256 for byte in pack_bytes(0, 512))
    assert bench.get(0, 512) == bytes(512)


def test_waiting_for_an_event_that_was_never_recorded_is_refused(bench: Bench) -> None:
    command = Wait(Stream.PROMPT, "never")
    with pytest.raises(DeviceError) as caught:
        bench.device.submit([command])
    assert caught.value.command == command


def test_notifies_of_a_stream_come_in_order(bench: Bench) -> None:
    bench.device.submit([Notify(Stream.PROMPT, "first"), Fill(Stream.PROMPT, bench.at(0, 64), 1)])
    bench.device.submit([Notify(Stream.PROMPT, "second")])
    assert bench.finish(Stream.PROMPT) == [Reached("first"), Reached("second")]
    assert list(bench.device.completions()) == []


def upload(bench: Bench, version: int, addresses: list[int], entries: tuple[Access, ...]) -> None:
    """Publish `addresses` at the start of the arena."""
    staging = HostExtent(HostSpace.STAGING, 0, 8 * len(addresses))
    bench.device.host(staging)[:] = b"".join(address.to_bytes(8, "little") for address in addresses)
    pair = CopyPair(staging, bench.at(0, staging.size_bytes))
    bench.run(Copy(Stream.VERIFIER, (pair,), TableVersion(version, entries)))


def gather_launch(bench: Bench, version: int, rows: int, size: int) -> Launch:
    args = GatherArgs(Extent(0, 8 * rows), size, Extent(8192, rows * size))
    return Launch(Stream.VERIFIER, "gather", args, (TableRead(version),), (bench.at(8192, rows * size),))


def test_a_program_reads_through_addresses_wherever_the_bytes_are(bench: Bench) -> None:
    slot = bench.at(bench.segment_bytes + 256, 96)
    bench.put(slot.extent.offset_bytes, bytes(range(96)))
    slot_address = bench.description.arena_address + slot.extent.offset_bytes
    pack_address = bench.description.pack_address + 777
    upload(bench, 1, [slot_address, pack_address], (slot,))
    before = bench.device.statistics().pack_read_bytes
    bench.run(gather_launch(bench, 1, 2, 96))
    assert bench.get(8192, 192) == bytes(range(96)) + pack_bytes(777, 96)
    assert bench.device.statistics().pack_read_bytes - before == 96


def test_bytes_read_from_the_pack_are_counted_once_a_launch_and_address(bench: Bench) -> None:
    address = bench.description.pack_address
    upload(bench, 1, [address, address, address + 64], ())
    before = bench.device.statistics().pack_read_bytes
    bench.run(*[gather_launch(bench, 1, 3, 64)] * 2)
    assert bench.device.statistics().pack_read_bytes - before == 2 * 2 * 64


def test_a_new_version_moves_the_reader(bench: Bench) -> None:
    upload(bench, 1, [bench.description.pack_address], ())
    bench.run(gather_launch(bench, 1, 1, 64))
    upload(bench, 2, [bench.description.pack_address + 1000], ())
    bench.run(gather_launch(bench, 2, 1, 64))
    assert bench.get(8192, 64) == pack_bytes(1000, 64)


def test_a_graph_does_what_its_launches_do_each_time(bench: Bench) -> None:
    bench.put(0, bytes(range(64)))
    bench.run(Fill(Stream.VERIFIER, bench.at(64, 64), 1))
    bench.device.capture("twice", [add_launch(bench, 0, 64, 128, 64), add_launch(bench, 128, 64, 0, 64)])
    before = bench.device.statistics()
    bench.run(*[GraphLaunch(Stream.VERIFIER, "twice", 0)] * 3)
    after = bench.device.statistics()
    assert bench.get(0, 64) == bytes(value + 6 for value in range(64))
    assert after.num_launches - before.num_launches == after.num_graph_launches - before.num_graph_launches == 3


def test_a_graph_reads_the_table_version_that_its_launch_names(bench: Bench) -> None:
    upload(bench, 1, [bench.description.pack_address], ())
    bench.device.capture("window", [gather_launch(bench, 0, 1, 64)])
    bench.run(GraphLaunch(Stream.VERIFIER, "window", 1))
    assert bench.get(8192, 64) == pack_bytes(0, 64)
    upload(bench, 2, [bench.description.pack_address + 4096], ())
    bench.run(GraphLaunch(Stream.VERIFIER, "window", 2))
    assert bench.get(8192, 64) == pack_bytes(4096, 64)


def test_a_segment_moves_away_and_home_and_graphs_still_run(bench: Bench) -> None:
    segment = Extent(3 * bench.segment_bytes, bench.segment_bytes)
    behind = Extent(5 * bench.segment_bytes, bench.segment_bytes)
    bench.device.capture("add", [add_launch(bench, segment.offset_bytes, 0, 128, 64)])
    bench.run(
        Transfer(segment, OWNER, ""), Unmap(segment), Map(3, behind), Transfer(behind, "", OWNER),
        Fill(Stream.PROMPT, bench.at(behind.offset_bytes, 64), 9),
    )  # fmt: skip
    assert bench.get(behind.offset_bytes, 64) == b"\x09" * 64
    bench.run(Transfer(behind, OWNER, ""), Unmap(behind), Map(3, segment), Transfer(segment, "", OWNER))
    bench.put(segment.offset_bytes, bytes(range(64)))
    bench.run(Fill(Stream.VERIFIER, bench.at(0, 64), 3), GraphLaunch(Stream.VERIFIER, "add", 0))
    assert bench.get(128, 64) == bytes(value + 3 for value in range(64))


def test_a_segment_moves_behind_the_arena_and_is_read_there_by_address(bench: Bench) -> None:
    size = bench.segment_bytes
    home, behind = Extent(3 * size, size), Extent(bench.description.arena_bytes + size, size)
    assert bench.description.range_bytes == bench.description.arena_bytes + 2 * size
    bench.run(Transfer(home, OWNER, ""), Unmap(home), Map(3, behind), Transfer(behind, "", OWNER))
    slot = bench.at(behind.end_bytes - 96, 96)
    bench.put(slot.extent.offset_bytes, bytes(range(96)))
    upload(bench, 1, [bench.description.arena_address + slot.extent.offset_bytes], (slot,))
    bench.run(gather_launch(bench, 1, 1, 96))
    assert bench.get(8192, 96) == bytes(range(96))
    assert bench.device.statistics().mapped_bytes == 4 * size


def test_addresses_behind_the_arena_are_no_memory(bench: Bench) -> None:
    size, arena_bytes = bench.segment_bytes, bench.description.arena_bytes
    for command in (
        Map(arena_bytes // size, Extent(arena_bytes, size)),
        Map(5, Extent(bench.description.range_bytes, size)),
        Fill(Stream.PROMPT, bench.at(arena_bytes, 1), 0),
    ):
        with pytest.raises(DeviceError) as caught:
            bench.device.submit([command])
        assert caught.value.command == command


def test_bytes_that_pass_on_in_place_stay_as_they_are(bench: Bench) -> None:
    data, extent = random.Random(3).randbytes(300), Extent(512, 300)
    bench.put(512, data)
    bench.run(Transfer(extent, OWNER, "drafter", in_place=True))
    staging = HostExtent(HostSpace.STAGING, 0, 300)
    bench.run(Copy(Stream.COPY, (CopyPair(Access(extent, "drafter"), staging),)))
    assert bytes(bench.device.host(staging)) == data


def test_statistics_count_what_was_done(bench: Bench) -> None:
    before = bench.device.statistics()
    assert (before.mapped_bytes, before.num_maps) == (4 * bench.segment_bytes, 4)
    bench.put(0, bytes(100))
    bench.get(0, 50)
    bench.run(Unmap(Extent(0, bench.segment_bytes)), add_launch(bench, *[bench.segment_bytes] * 3, 0))
    after = bench.device.statistics()
    assert after.copied_to_device_bytes - before.copied_to_device_bytes == 100
    assert after.copied_to_host_bytes - before.copied_to_host_bytes == 50
    assert after.mapped_bytes == 3 * bench.segment_bytes
    assert (after.num_maps, after.num_launches - before.num_launches) == (4, 1)
    assert after.num_commands > before.num_commands


@pytest.mark.parametrize(
    "args",
    [
        lambda b: ReachArgs(read=Extent(100, 29)),
        lambda b: ReachArgs(write=Extent(0, 8)),
        lambda b: ReachArgs(view=(b.description.arena_address + 124, 8)),
        lambda b: ReachArgs(view=(b.description.pack_address, 8)),
        lambda b: ReachArgs(view=(12345, 8)),
    ],
    ids=["read", "write into a read", "view of the arena", "view of the pack without a table", "view of nothing"],
)
def test_a_program_that_touches_what_its_launch_does_not_declare_fails(bench: Bench, args) -> None:
    bench.put(0, bytes(64))
    launch = Launch(Stream.PROMPT, "reach", args(bench), (bench.at(0, 64),), (bench.at(64, 64),))
    with pytest.raises(DeviceError):
        bench.run(launch)


def test_a_program_may_touch_all_that_is_declared(bench: Bench) -> None:
    bench.put(0, bytes(64))
    for args in (
        ReachArgs(read=Extent(0, 128), write=Extent(64, 64)),
        ReachArgs(view=(bench.description.arena_address + 60, 8)),
    ):
        bench.run(Launch(Stream.PROMPT, "reach", args, (bench.at(0, 64),), (bench.at(64, 64),)))


def test_an_unknown_program_and_an_unknown_graph_are_refused(bench: Bench) -> None:
    with pytest.raises(DeviceError):
        bench.device.submit([Launch(Stream.PROMPT, "dance", None, (), ())])
    with pytest.raises(DeviceError):
        bench.device.submit([GraphLaunch(Stream.PROMPT, "dance", 0)])
