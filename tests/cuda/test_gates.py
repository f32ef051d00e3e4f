"""Streams of a device go on when they are told to, in an order that the device itself knows nothing of."""

from collections.abc import Iterator

import pytest

from strata.core.commands import (
    Access,
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
from strata.core.errors import DeviceError
from strata.core.events import Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.cuda.device import CudaDevice
from strata.cuda.errors import CudaFailure
from strata.cuda.gates import Gates
from strata.trace.forced import ForcedDevice
from strata.trace.order import ORDERS
from tests.cuda.builders import SEGMENT_BYTES, fake_driver, open_on
from tests.cuda.fake_driver import CUresult, FakeDriver

PROMPT, COPY = Stream.PROMPT, Stream.COPY
FIRST = Extent(0, SEGMENT_BYTES)
POISON = 0xE5


def at(offset: int, size: int = 64) -> Access:
    return Access(Extent(offset, size), "owner")


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver() as made:
        yield made
        assert made.leftovers() == {}


@pytest.fixture
def device(fake: FakeDriver) -> Iterator[CudaDevice]:
    made = open_on(fake, {"add": lambda memory, args: memory.write(args.extent).add_(1)})
    made.seal()
    made.submit([Map(0, FIRST)])
    yield made
    made.close()


def forced(device: CudaDevice, order: str) -> ForcedDevice:
    gates = device.open_gates()
    return ForcedDevice(device, gates, ORDERS[order], lambda extent: gates.poison(extent, POISON))


def look(device: CudaDevice, offset: int) -> int:
    return int(device._views.arena(Extent(offset, 1))[0])


def test_work_waits_for_its_turn_and_for_no_other(device: CudaDevice) -> None:
    gates = device.open_gates()
    for stream, value in ((PROMPT, 1), (COPY, 2), (PROMPT, 3)):
        gates.hold(stream)
        device.submit([Fill(stream, at(0), value)])
        gates.mark(stream)
    assert look(device, 0) == 0
    for stream, value in ((PROMPT, 1), (PROMPT, 3), (COPY, 2)):
        gates.go(stream)
        assert look(device, 0) == value


def test_nothing_waits_once_the_gates_are_open(device: CudaDevice) -> None:
    gates = device.open_gates()
    gates.hold(PROMPT)
    device.submit([Fill(PROMPT, at(0), 9)])
    gates.open()
    gates.hold(PROMPT)
    device.submit([Notify(PROMPT, "over")])
    while device.completions() != [Reached("over")]:
        pass
    assert look(device, 0) == 9


def test_a_turn_that_does_not_end_is_told(device: CudaDevice) -> None:
    gates = Gates(device._driver, device._arena, device._streams, patience_s=0.0)
    gates.hold(PROMPT)  # and no mark behind it
    with pytest.raises(DeviceError, match=r"stream=prompt was let go on and did not get through turn=1"):
        gates.go(PROMPT)
    gates.close()


def test_a_turn_that_fails_is_told_as_what_it_is(device: CudaDevice, fake: FakeDriver) -> None:
    gates = device.open_gates()
    gates.hold(PROMPT)
    gates.mark(PROMPT)
    fake.refuse("cuStreamWriteValue32")  # of the next turn, which then never ends
    gates.hold(PROMPT)
    with pytest.raises(CudaFailure, match="cuStreamWriteValue32"):
        gates.mark(PROMPT)
    gates.go(PROMPT)
    fake.refuse("cuStreamQuery", code=CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    with pytest.raises(CudaFailure, match="ILLEGAL_ADDRESS"):
        gates.go(PROMPT)


def test_gates_need_pinned_memory(fake: FakeDriver, device: CudaDevice) -> None:
    fake.pinnable_bytes = 0
    with pytest.raises(DeviceError, match="needs pinned memory: pinning of 256 B"):
        device.open_gates()


def test_a_reader_without_a_wait_is_late_or_early_as_the_order_says(device: CudaDevice) -> None:
    late = forced(device, "prompt late")
    launch = Launch(PROMPT, "add", at(0), (), (at(0),))  # type: ignore[arg-type]
    late.submit([Fill(PROMPT, at(0), 1), launch, Fill(COPY, at(0), 7), Notify(PROMPT, "read")])
    assert look(device, 0) == 7 and late.completions() == []
    late.tell(Reached("read"))
    assert look(device, 0) == 2
    while late.completions() != [Reached("read")]:
        pass


def test_a_wait_holds_in_every_order(device: CudaDevice) -> None:
    late = forced(device, "copy late")
    late.submit([Fill(COPY, at(0), 7), Record(COPY, "copied"), Wait(PROMPT, "copied"), Fill(PROMPT, at(0), 8)])
    late.submit([Notify(PROMPT, "done")])
    assert look(device, 0) == 0
    late.tell(Reached("done"))
    assert look(device, 0) == 8


def test_bytes_that_pass_on_are_made_wrong_and_in_place_they_are_not(device: CudaDevice) -> None:
    late = forced(device, "all late")
    late.submit([Map(1, Extent(SEGMENT_BYTES, SEGMENT_BYTES))])
    assert look(device, SEGMENT_BYTES) == look(device, 2 * SEGMENT_BYTES - 1) == POISON
    late.submit([Transfer(Extent(10, 4), "", "owner"), Transfer(Extent(14, 4), "", "owner", in_place=True)])
    assert [look(device, offset) for offset in (9, 10, 13, 14)] == [0, POISON, POISON, 0]
    late.submit([Transfer(Extent(2 * SEGMENT_BYTES - 1, 2), "", "owner")])  # half of it lies in a hole


def test_an_unmap_under_what_is_held_is_refused_and_the_card_lives(device: CudaDevice) -> None:
    late = forced(device, "all late")
    late.submit([Fill(COPY, at(0), 7)])
    with pytest.raises(DeviceError, match=r"unmap refused: fill on copy has still to touch \[0, 16384\)"):
        late.submit([Unmap(FIRST)])
    late.settle()
    late.submit([Unmap(FIRST)])
    assert device.statistics().mapped_bytes == 0


def test_an_unmap_under_a_graph_that_is_held_is_refused_too(device: CudaDevice) -> None:
    late = forced(device, "all late")
    late.capture("count", [Launch(Stream.VERIFIER, "add", at(0), (), (at(0),))])  # type: ignore[arg-type]
    late.submit([GraphLaunch(Stream.VERIFIER, "count", 0)])
    with pytest.raises(DeviceError, match="unmap refused: graphlaunch on verifier"):
        late.submit([Unmap(FIRST)])


def test_what_may_allocate_is_submitted_while_nothing_is_held(device: CudaDevice) -> None:
    late, target = forced(device, "all late"), HostExtent(HostSpace.STAGING, 0, 8)
    late.submit([Fill(COPY, at(0, 8), 1)])
    assert look(device, 0) == 0
    late.submit([Digest(PROMPT, at(0, 8), target)])
    assert look(device, 0) == 1 and bytes(late.host(target)) != bytes(8)
    late.submit([Fill(COPY, at(0, 8), 2)])
    late.capture("count", [Launch(Stream.VERIFIER, "add", at(0), (), (at(0),))])  # type: ignore[arg-type]
    assert look(device, 0) == 2


def test_what_is_refused_takes_a_turn_and_does_nothing(device: CudaDevice) -> None:
    late = forced(device, "given")
    with pytest.raises(DeviceError, match="nothing is mapped"):
        late.submit([Fill(COPY, at(SEGMENT_BYTES), 7)])
    late.submit([Fill(COPY, at(0), 8)])
    assert look(device, 0) == 8


def test_a_notice_before_its_turn_is_told(device: CudaDevice) -> None:
    late = forced(device, "all late")
    device.submit([Notify(PROMPT, "early")])  # past the gates, as a card that does not heed them would report it
    with pytest.raises(DeviceError, match="tag='early' was reported while its stream was held"):
        polled(late)


def polled(device: ForcedDevice) -> None:
    """As often as the driver without a card takes to say that an event is due."""
    for _ in range(4):
        device.completions()
