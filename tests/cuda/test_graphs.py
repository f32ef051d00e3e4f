"""Captured graphs: what makes one stale, what makes it valid again, and a capture that fails."""

from collections.abc import Iterator
from typing import Any

import pytest

from strata.core.commands import (
    Access,
    Copy,
    CopyPair,
    GraphLaunch,
    Launch,
    Map,
    Stream,
    TableRead,
    TableVersion,
    Unmap,
)
from strata.core.errors import DeviceError
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.cuda.device import CudaDevice
from strata.cuda.errors import CudaFailure
from strata.device import Memory
from tests.cuda.builders import SEGMENT_BYTES, fake_driver, open_on
from tests.cuda.fake_driver import FakeDriver

ACROSS = Access(Extent(SEGMENT_BYTES - 32, 64), "owner")
REPLAY = GraphLaunch(Stream.VERIFIER, "graph", 1)


def increment(memory: Memory, args: Any) -> None:
    memory.write(args).add_(1)


def break_off(memory: Memory, args: Any) -> None:
    raise ArithmeticError("a mistake of the program")


def segment(index: int) -> Extent:
    return Extent(index * SEGMENT_BYTES, SEGMENT_BYTES)


def launch(program: str = "increment", access: Access = ACROSS, stream: Stream = Stream.VERIFIER) -> Launch:
    args: Any = access.extent
    return Launch(stream, program, args, (), (access,))


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver() as made:
        yield made


@pytest.fixture
def device(fake: FakeDriver) -> Iterator[CudaDevice]:
    made = open_on(fake, {"increment": increment, "break": break_off})
    made.seal()
    made.submit([Map(index, segment(index)) for index in range(4)])
    yield made
    made.close()
    assert fake.leftovers() == {}


def content(device: CudaDevice, access: Access) -> bytes:
    size = access.extent.size_bytes
    device.submit([Copy(Stream.COPY, (CopyPair(access, HostExtent(HostSpace.STAGING, 0, size)),))])
    return bytes(device.host(HostExtent(HostSpace.STAGING, 0, size)))


def test_capture_runs_nothing_and_every_launch_does(device: CudaDevice) -> None:
    before = content(device, ACROSS)
    device.capture("graph", [launch(), launch()])
    assert content(device, ACROSS) == before
    device.submit([REPLAY] * 3)
    assert content(device, ACROSS) == bytes((byte + 6) % 256 for byte in before)


def test_a_graph_is_stale_while_any_of_its_segments_is_away(device: CudaDevice) -> None:
    device.capture("graph", [launch()])
    for away in (0, 1):
        device.submit([Unmap(segment(away))])
        with pytest.raises(DeviceError, match=r"graph=graph is stale.*by segments 0, 1 at capture"):
            device.submit([REPLAY])
        device.submit([Map(away, segment(5))])
        with pytest.raises(DeviceError, match="stale"):
            device.submit([REPLAY])
        device.submit([Unmap(segment(5)), Map(away, segment(away)), REPLAY])


def test_a_graph_is_stale_while_another_segment_stands_in(device: CudaDevice) -> None:
    device.capture("graph", [launch()])
    device.submit([Unmap(segment(1)), Map(5, segment(1))])
    with pytest.raises(DeviceError, match="by segments 0, 1 at capture and by 0, 5 now"):
        device.submit([REPLAY])


def test_segments_that_a_graph_does_not_name_may_move(device: CudaDevice) -> None:
    device.capture("graph", [launch()])
    device.submit([Unmap(segment(2)), Unmap(segment(3)), Map(2, segment(3)), REPLAY])


def test_captured_bytes_must_be_mapped(device: CudaDevice) -> None:
    device.submit([Unmap(segment(1))])
    with pytest.raises(DeviceError, match="nothing is mapped"):
        device.capture("graph", [launch()])


@pytest.mark.parametrize("name", ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate"])
def test_a_capture_that_the_driver_refuses_keeps_the_old_graph(device: CudaDevice, fake: FakeDriver, name: str) -> None:
    device.capture("graph", [launch()])
    fake.refuse(name)
    with pytest.raises(CudaFailure, match=name):
        device.capture("graph", [launch()] * 2)
    assert fake.leftovers()["executable"] == 1


def test_a_program_that_breaks_off_a_capture_leaves_a_usable_stream(device: CudaDevice, fake: FakeDriver) -> None:
    """The fake queues programs, so the mistake comes from what is checked while capturing: an unknown version."""
    reader = Launch(Stream.VERIFIER, "increment", ACROSS.extent, (TableRead(1),), (ACROSS,))  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="publish a version first"):
        device.capture("graph", [launch(), reader])
    device.submit([launch()])
    device.capture("graph", [launch()])
    device.submit([REPLAY])


def test_a_graph_that_is_replaced_is_given_back(device: CudaDevice, fake: FakeDriver) -> None:
    for _ in range(5):
        device.capture("graph", [launch()])
    assert fake.leftovers()["executable"] == 1 and "graph" not in fake.leftovers()


def test_launches_on_two_streams_are_no_graph(device: CudaDevice) -> None:
    with pytest.raises(AssertionError):
        device.capture("graph", [launch(), launch(stream=Stream.DRAFTER)])


def test_a_graph_that_reads_the_table_needs_the_version_it_is_launched_with(device: CudaDevice) -> None:
    table = Access(Extent(0, 8), "owner")
    device.submit([Copy(Stream.VERIFIER, (CopyPair(HostExtent(HostSpace.STAGING, 0, 8), table),), TableVersion(1, ()))])
    reader = Launch(Stream.VERIFIER, "increment", ACROSS.extent, (TableRead(0),), (ACROSS,))  # type: ignore[arg-type]
    device.capture("graph", [reader])
    device.submit([REPLAY])
    with pytest.raises(DeviceError, match="version=2 is not published yet"):
        device.submit([GraphLaunch(Stream.VERIFIER, "graph", 2)])
