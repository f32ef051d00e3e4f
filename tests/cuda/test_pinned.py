"""Pinning block by block: wherever it is refused, the memory is there, and its bytes get to the card."""

import random
from collections.abc import Iterator

import pytest

from strata.core.commands import Access, Copy, CopyPair, Map, Notify, Stream
from strata.core.errors import ConfigError, DeviceError
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.cuda.device import CudaDevice
from strata.cuda.errors import CudaFailure
from strata.cuda.pinned import HostMemory, touch
from tests.cuda.builders import PAGE_BYTES, SEGMENT_BYTES, attached, fake_driver, open_on
from tests.cuda.fake_driver import CUresult, FakeDriver

BLOCK_BYTES = 4 * PAGE_BYTES
NUM_BLOCKS = 4
SIZE_BYTES = NUM_BLOCKS * BLOCK_BYTES - 100


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver() as made:
        yield made


def pack_on(fake: FakeDriver, **options: int) -> HostMemory:
    return HostMemory(attached(fake), "pack", SIZE_BYTES, num_threads=3, block_bytes=BLOCK_BYTES, **options)


def move_through_card(device: CudaDevice, data: bytes) -> bytes:
    """The pack's bytes, copied to the card as one pair and back by way of staging."""
    device.host(HostExtent(HostSpace.PACK, 0, len(data)))[:] = data
    device.seal()
    device.submit([Map(index, Extent(index * SEGMENT_BYTES, SEGMENT_BYTES)) for index in range(6)])
    there = Access(Extent(8, len(data)), "owner")
    device.submit([Copy(Stream.COPY, (CopyPair(HostExtent(HostSpace.PACK, 0, len(data)), there),))])
    back = b""
    for start in range(0, len(data), 8192):
        size = min(8192, len(data) - start)
        staging = HostExtent(HostSpace.STAGING, 100, size)
        device.submit([Copy(Stream.COPY, (CopyPair(Access(Extent(8 + start, size), "owner"), staging),))])
        device.submit([Notify(Stream.COPY, "back")])
        while not device.completions():
            pass
        back += bytes(device.host(staging))
    return back


def test_all_is_pinned_when_nothing_is_refused(fake: FakeDriver) -> None:
    pack = pack_on(fake)
    assert (pack.pinned_bytes, pack.pageable_bytes, pack.refusal) == (SIZE_BYTES, 0, None)
    assert pack.describe_pinning() == f"pack: {SIZE_BYTES:,} B of {SIZE_BYTES:,} B pinned"
    pack.close()
    assert fake.leftovers() == {"context": 1}


@pytest.mark.parametrize("block", range(NUM_BLOCKS))
def test_a_refusal_at_any_block_ends_the_pinning_there_and_no_byte_is_lost(fake: FakeDriver, block: int) -> None:
    fake.refuse("cuMemHostRegister", block + 1, CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    data = random.Random(block).randbytes(SIZE_BYTES)
    device = open_on(fake, pack_bytes=SIZE_BYTES, block_bytes=BLOCK_BYTES)
    assert device.pinned_pack_bytes == block * BLOCK_BYTES
    (line,) = [line for line in device.describe_pinning() if line.startswith("pack")]
    assert f"{block * BLOCK_BYTES:,} B of {SIZE_BYTES:,} B pinned" in line
    assert "CUDA_ERROR_OUT_OF_MEMORY" in line and "budget of pinned memory" in line and "ulimit -l" in line
    assert len(fake.named("cuMemHostRegister")) == block + 1 + 1  # and one for staging
    assert move_through_card(device, data) == data
    device.close()
    assert fake.leftovers() == {}


@pytest.mark.parametrize("budget", [0, 1, PAGE_BYTES, BLOCK_BYTES, BLOCK_BYTES + PAGE_BYTES + 5, SIZE_BYTES])
def test_a_budget_is_kept_by_whole_pages(fake: FakeDriver, budget: int) -> None:
    data = random.Random(budget).randbytes(SIZE_BYTES)
    device = open_on(fake, pack_bytes=SIZE_BYTES, block_bytes=BLOCK_BYTES, max_pinned_bytes=budget)
    expected = budget if budget == SIZE_BYTES else budget - budget % PAGE_BYTES
    assert device.pinned_pack_bytes == expected <= budget
    assert move_through_card(device, data) == data
    device.close()
    assert fake.leftovers() == {}


def test_a_host_that_pins_nothing_at_all_still_serves_every_byte() -> None:
    with fake_driver(pinnable_bytes=0) as fake:
        data = random.Random(9).randbytes(SIZE_BYTES)
        device = open_on(fake, pack_bytes=SIZE_BYTES)
        assert all(", 0 B" not in line and ": 0 B of" in line for line in device.describe_pinning())
        assert move_through_card(device, data) == data
        device.close()
        assert fake.leftovers() == {}


def test_memory_of_no_bytes_registers_nothing(fake: FakeDriver) -> None:
    empty = HostMemory(attached(fake), "pack", 0, num_threads=2)
    assert not fake.named("cuMemHostRegister") and empty.pageable_bytes == 0
    assert bytes(empty.view(offset_bytes=0, size_bytes=0)) == b""
    assert list(empty.pieces(offset_bytes=0, size_bytes=0)) == []
    empty.close()


@pytest.mark.parametrize("block", range(NUM_BLOCKS))
def test_a_lost_card_is_no_matter_of_budget(fake: FakeDriver, block: int) -> None:
    fake.refuse("cuMemHostRegister", block + 1, CUresult.CUDA_ERROR_ECC_UNCORRECTABLE)
    with pytest.raises(CudaFailure, match="ECC"):
        pack_on(fake)
    assert fake.leftovers() == {"context": 1}


def test_a_card_that_sees_the_blocks_apart_is_refused(fake: FakeDriver) -> None:
    fake.device_shift = 4096
    with pytest.raises(ConfigError, match="cannot read host memory by one base address"):
        pack_on(fake)
    assert fake.leftovers() == {"context": 1}


@pytest.mark.parametrize(
    ("offset", "size"), [(0, SIZE_BYTES), (BLOCK_BYTES - 1, 2), (5, 10), (3 * BLOCK_BYTES - 7, 107), (7, 0)]
)
def test_pieces_are_the_range_cut_at_every_edge(fake: FakeDriver, offset: int, size: int) -> None:
    pinned = 2 * BLOCK_BYTES + PAGE_BYTES
    pack = pack_on(fake, max_pinned_bytes=pinned)
    pieces = list(pack.pieces(offset_bytes=offset, size_bytes=size))
    assert [at for start, length in pieces for at in range(start, start + length)] == list(range(offset, offset + size))
    edges = [BLOCK_BYTES, 2 * BLOCK_BYTES, pinned]
    assert len(pieces) == (1 + sum(offset < edge < offset + size for edge in edges) if size else 0)
    pack.close()


@pytest.mark.parametrize("num_threads", [1, 2, 16])
def test_touching_reaches_every_byte_and_none_beside_them(fake: FakeDriver, num_threads: int) -> None:
    pack = pack_on(fake)
    pack.view(offset_bytes=0, size_bytes=SIZE_BYTES)[:] = b"\xff" * SIZE_BYTES
    touch(pack.address + 5, SIZE_BYTES - 10, num_threads=num_threads)
    assert bytes(pack.view(offset_bytes=0, size_bytes=SIZE_BYTES)) == b"\xff" * 5 + bytes(SIZE_BYTES - 10) + b"\xff" * 5
    pack.close()


def test_a_view_beyond_the_end_is_refused(fake: FakeDriver) -> None:
    pack = pack_on(fake)
    with pytest.raises(DeviceError, match=rf"pack \[{SIZE_BYTES - 1}, {SIZE_BYTES + 1}\) ends beyond"):
        pack.view(offset_bytes=SIZE_BYTES - 1, size_bytes=2)
    pack.close()


def test_a_view_that_outlives_its_memory_still_points_at_bytes(fake: FakeDriver) -> None:
    pack = pack_on(fake)
    view = pack.view(offset_bytes=0, size_bytes=4)
    view[:] = b"kept"
    pack.close()
    assert bytes(view) == b"kept" and fake.leftovers() == {"context": 1}
