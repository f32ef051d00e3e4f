"""Bytes of small segments on a card of large ones: the same bytes, the same digests, the same refusals."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sim.device import SimDevice, describe_twin
from sim.world.plain_bytes import PlainBytes
from sim.world.recording import fill_plainly
from strata.core.commands import MAX_COPY_GROUP, Access, Copy, CopyPair, Stream, TableVersion
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.trace.command_trace import CardSizes, CommandTrace
from strata.trace.digest import mix_digests, positional_digest
from strata.trace.replay import Hooks, ReplayArgs, program_names, replay
from strata.trace.spread import Spread, SpreadDevice
from tests.trace.builders import SIZES, recorded

SPREAD = Spread(512, 2000)


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_pieces_are_all_bytes_in_order_and_each_in_one_segment(offset: int, size: int) -> None:
    pieces = SPREAD.pieces(Extent(offset, size))
    assert sum(piece.size_bytes for piece in pieces) == size
    where = [piece.offset_bytes + at for piece in pieces for at in range(piece.size_bytes)]
    assert where == [(offset + at) // 512 * 2000 + (offset + at) % 512 for at in range(size)]


def test_segments_of_the_cards_size_change_nothing() -> None:
    same, extent = Spread(512, 512), Extent(500, 700)
    assert same.pieces(extent) == (extent,) and same.sizes(SIZES) == SIZES
    assert SPREAD.sizes(SIZES) == replace(SIZES, arena_bytes=8 * 2000, segment_bytes=2000)


def test_a_group_that_becomes_too_large_is_several_and_the_last_one_publishes() -> None:
    asked: list[Copy] = []

    class Keeping:
        def submit(self, commands) -> None:  # type: ignore[no-untyped-def]
            asked.extend(commands)

    pairs = tuple(
        CopyPair(HostExtent(HostSpace.STAGING, 8 * index, 8), Access(Extent(512 * index + 508, 8), "table"))
        for index in range(MAX_COPY_GROUP)
    )
    version = TableVersion(3, (Access(Extent(500, 100), "cache", "blob 0 1"),))
    SpreadDevice(Keeping(), SPREAD, SIZES).submit([Copy(Stream.COPY, pairs, version)])  # type: ignore[arg-type]
    assert [len(copy.pairs) for copy in asked] == [16, 16]
    assert asked[0].pairs[1] == CopyPair(HostExtent(HostSpace.STAGING, 4, 4), Access(Extent(2000, 4), "table"))
    parts = (Access(Extent(500, 12), "cache", "blob 0 1"), Access(Extent(2000, 88), "cache", "blob 0 1"))
    assert [copy.publishes for copy in asked] == [None, TableVersion(3, parts)]


def test_a_world_on_larger_segments_leaves_the_same_digests() -> None:
    """On a twin, which also says that every byte that was spread out has its owner and is defined."""
    trace = recorded("refill_cannot_be_repeated").commands
    segment = trace.sizes.segment_bytes
    assert _digests(trace, Spread(segment, segment)) == _digests(trace, Spread(segment, segment + 8192))


def _digests(trace: CommandTrace, spread: Spread) -> object:
    sizes: CardSizes = spread.sizes(trace.sizes)
    description = describe_twin(
        arena_bytes=sizes.arena_bytes,
        segment_bytes=sizes.segment_bytes,
        pack_bytes=sizes.pack_bytes,
        staging_bytes=sizes.staging_bytes,
        behind_bytes=sizes.behind_bytes,
        parked_bytes=sizes.parked_bytes,
    )

    def fingerprint(memory, args: ReplayArgs) -> None:  # type: ignore[no-untyped-def]
        read = [b"".join(memory.read(piece) for piece in spread.pieces(extent)) for extent in args.reads]
        mark = mix_digests([positional_digest(data) for data in read])
        for index, extent in enumerate(args.writes):
            whole = memoryview(bytearray(extent.size_bytes))
            fill_plainly(whole, mix_digests((mark, index)))
            for piece in spread.pieces(extent):
                memory.write(piece)[:] = whole[: piece.size_bytes]
                whole = whole[piece.size_bytes :]

    device = SimDevice(description, dict.fromkeys(program_names(trace), fingerprint), PlainBytes(description))
    for home, name in trace.places.manifest():
        fill_plainly(device.host(home), positional_digest(name.encode()))
    device.seal()
    found = replay(trace, SpreadDevice(device, spread, trace.sizes), Hooks(lambda: None))
    assert found.deviations == () and len(found.digests) > 3
    return found.digests
