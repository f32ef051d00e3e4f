"""What the CUDA body makes of commands: the calls it issues, what it refuses, and how a card is lost."""

from collections.abc import Iterator
from typing import Any

import pytest

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
    TableRead,
    TableVersion,
    Unmap,
    Wait,
)
from strata.core.errors import DeviceError
from strata.core.events import Failed, Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.cuda.device import CudaDevice
from strata.cuda.errors import CudaFailure
from strata.device import Memory
from tests.cuda.builders import SEGMENT_BYTES, fake_driver, open_on
from tests.cuda.fake_driver import CUresult, FakeDriver

SMALL = Access(Extent(0, 64), "owner")


def increment(memory: Memory, args: Any) -> None:
    memory.write(args).add_(1)


def fail(memory: Memory, args: Any) -> None:
    memory.read(args)


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver() as made:
        yield made


@pytest.fixture
def device(fake: FakeDriver) -> Iterator[CudaDevice]:
    made = open_on(fake, {"increment": increment, "fail": fail})
    made.seal()
    made.submit([Map(index, segment(index)) for index in range(4)])
    yield made
    made.close()
    if fake._lost is None:
        assert fake.leftovers() == {}


def segment(index: int) -> Extent:
    return Extent(index * SEGMENT_BYTES, SEGMENT_BYTES)


def pack(offset: int, size: int) -> HostExtent:
    return HostExtent(HostSpace.PACK, offset, size)


def staging(offset: int, size: int) -> HostExtent:
    return HostExtent(HostSpace.STAGING, offset, size)


def at(offset: int, size: int) -> Access:
    return Access(Extent(offset, size), "owner")


def launch(program: str = "increment", access: Access = SMALL) -> Launch:
    args: Any = access.extent
    return Launch(Stream.VERIFIER, program, args, (), (access,))


def finish(device: CudaDevice) -> None:
    device.submit([Notify(stream, f"all of {stream}") for stream in Stream])
    waiting = len(Stream)
    while waiting:
        waiting -= len(device.completions())


def read(device: CudaDevice, offset: int, size: int) -> bytes:
    device.submit([Copy(Stream.COPY, (CopyPair(at(offset, size), staging(0, size)),))])
    finish(device)
    return bytes(device.host(staging(0, size)))


def test_a_group_of_neighbours_is_one_call_and_counts_every_byte(device: CudaDevice, fake: FakeDriver) -> None:
    pairs = tuple(CopyPair(pack(1024 * i, 1024), at(1024 * i, 1024)) for i in range(12))
    device.submit([Copy(Stream.COPY, pairs)])
    ((_, _, size, _),) = fake.named("cuMemcpyHtoDAsync")
    assert size == 12 * 1024 == device.statistics().copied_to_device_bytes


def test_a_copy_is_cut_at_the_edges_of_what_is_registered(device: CudaDevice, fake: FakeDriver) -> None:
    device.submit([Copy(Stream.COPY, (CopyPair(pack(16 * 1024 - 100, 300), at(0, 300)),))])
    assert [arguments[2] for arguments in fake.named("cuMemcpyHtoDAsync")] == [100, 200]


def test_a_group_with_a_bad_pair_copies_nothing(device: CudaDevice, fake: FakeDriver) -> None:
    good = CopyPair(pack(0, 64), at(0, 64))
    for bad in (
        CopyPair(pack(0, 64), at(5 * SEGMENT_BYTES, 64)),
        CopyPair(pack(64 * 1024, 64), at(64, 64)),
        CopyPair(at(64, 64), pack(0, 64)),
        CopyPair(at(64, 64), staging(16 * 1024 - 32, 64)),
    ):
        with pytest.raises(DeviceError):
            device.submit([Copy(Stream.COPY, (good, bad))])
    assert not fake.named("cuMemcpyHtoDAsync") and not fake.named("cuMemcpyDtoHAsync")


UNMAPPED = at(5 * SEGMENT_BYTES, 64)


@pytest.mark.parametrize(
    "command",
    [
        Fill(Stream.PROMPT, UNMAPPED, 1),
        Digest(Stream.PROMPT, UNMAPPED, staging(0, 8)),
        Digest(Stream.PROMPT, SMALL, staging(16 * 1024, 8)),
        launch(access=UNMAPPED),
        launch(access=at(6 * SEGMENT_BYTES, 64)),
        launch("unheard of"),
        GraphLaunch(Stream.VERIFIER, "unheard of", 0),
        Wait(Stream.PROMPT, "never recorded"),
        Map(3, segment(5)),
        Unmap(segment(5)),
    ],
)
def test_a_refused_command_is_named_does_nothing_and_does_not_count(
    device: CudaDevice, fake: FakeDriver, command: Command
) -> None:
    device.submit([Fill(Stream.PROMPT, SMALL, 3)])
    before, num_calls = device.statistics(), len(fake.calls)
    with pytest.raises(DeviceError) as caught:
        device.submit([Record(Stream.PROMPT, "stands"), command, Fill(Stream.PROMPT, SMALL, 9)])
    assert caught.value.command == command
    assert device.statistics().num_commands == before.num_commands + 1
    assert {name for name, _ in fake.calls[num_calls:]} <= {"cuEventCreate", "cuEventRecord"}
    device.submit([Wait(Stream.COPY, "stands")])
    assert read(device, 0, 64) == b"\x03" * 64


def test_the_pack_is_read_only_after_the_seal_and_by_nobody_before(fake: FakeDriver) -> None:
    device = open_on(fake, {"increment": increment})
    device.submit([Map(0, segment(0))])
    copy = Copy(Stream.COPY, (CopyPair(pack(0, 64), SMALL),))
    device.host(pack(0, 64))[:] = bytes(range(64))
    with pytest.raises(DeviceError, match="before seal"):
        device.submit([copy])
    device.submit([Copy(Stream.VERIFIER, (CopyPair(staging(0, 8), at(64, 8)),), TableVersion(1, ()))])
    with pytest.raises(DeviceError, match="reads through the address table, and so the pack, before seal"):
        device.submit([Launch(Stream.VERIFIER, "increment", SMALL.extent, (TableRead(1),), (SMALL,))])  # type: ignore[arg-type]
    device.seal()
    assert device.host(pack(0, 64)).readonly and not device.host(staging(0, 64)).readonly
    with pytest.raises(DeviceError, match="sealed already"):
        device.seal()
    device.submit([copy])
    assert read(device, 0, 64) == bytes(range(64))
    device.close()


def test_reports_of_a_stream_come_in_order_though_one_is_slow(device: CudaDevice, fake: FakeDriver) -> None:
    fake.event_lag = 50
    device.submit([Notify(Stream.PROMPT, "slow")])
    fake.event_lag = 0
    device.submit([Notify(Stream.PROMPT, "behind it"), Notify(Stream.COPY, "beside it")])
    assert device.completions() == [Reached("beside it")]
    events: list[Any] = []
    while len(events) < 2:
        events += device.completions()
    assert events == [Reached("slow"), Reached("behind it")]


def test_events_of_reports_are_used_again(device: CudaDevice, fake: FakeDriver) -> None:
    for _ in range(50):
        finish(device)
    assert len(fake.named("cuEventCreate")) == len(Stream)


def test_an_event_is_made_once_for_its_name(device: CudaDevice, fake: FakeDriver) -> None:
    device.submit([Record(stream, "again") for stream in Stream] * 20)
    device.submit([Wait(Stream.COPY, "again")])
    assert len(fake.named("cuEventCreate")) == 1 and len(fake.named("cuStreamWaitEvent")) == 1


def test_a_report_whose_event_was_refused_can_be_asked_for_again(device: CudaDevice, fake: FakeDriver) -> None:
    fake.refuse("cuEventRecord")
    with pytest.raises(CudaFailure):
        device.submit([Notify(Stream.COPY, "lost")])
    device.submit([Notify(Stream.COPY, "kept")])
    events: list[Any] = []
    while not events:
        events += device.completions()
    assert events == [Reached("kept")] and len(fake.named("cuEventCreate")) == 1


def test_a_refusal_that_is_not_fatal_leaves_a_working_card(device: CudaDevice, fake: FakeDriver) -> None:
    fake.refuse("cuMemsetD8Async", code=CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    command = Fill(Stream.PROMPT, SMALL, 4)
    with pytest.raises(CudaFailure, match="CUDA_ERROR_OUT_OF_MEMORY") as caught:
        device.submit([command])
    assert caught.value.command == command
    device.submit([command])
    assert read(device, 0, 64) == b"\x04" * 64


def test_a_lost_card_refuses_everything_and_says_so_at_every_question(device: CudaDevice, fake: FakeDriver) -> None:
    fake.event_lag = 0
    device.submit([Notify(Stream.COPY, "before"), Notify(Stream.PROMPT, "after")])
    fake.refuse("cuEventQuery", 2, CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    first = device.completions()
    assert first[0] == Reached("before")
    for events in (first[1:], device.completions(), device.completions()):
        (event,) = events
        assert isinstance(event, Failed) and event.is_fatal and "CUDA_ERROR_ILLEGAL_ADDRESS" in event.message
    num_calls = len(fake.calls)
    for command in (Fill(Stream.PROMPT, SMALL, 1), launch(), Map(4, segment(4)), Notify(Stream.COPY, "never")):
        with pytest.raises(DeviceError, match=r"the card is lost.*ILLEGAL_ADDRESS") as caught:
            device.submit([command])
        assert caught.value.command == command
    with pytest.raises(DeviceError, match="the card is lost"):
        device.capture("late", [launch()])
    assert len(fake.calls) == num_calls


def test_a_card_lost_in_a_command_is_lost_for_the_next(device: CudaDevice, fake: FakeDriver) -> None:
    fake.refuse("cuMemsetD8Async", code=CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    command = Fill(Stream.PROMPT, SMALL, 1)
    with pytest.raises(CudaFailure):
        device.submit([command])
    (event,) = device.completions()
    assert isinstance(event, Failed) and event.is_fatal and event.command == command


def test_a_report_that_fails_is_an_event_and_the_card_lives(device: CudaDevice, fake: FakeDriver) -> None:
    fake.event_lag = 0
    device.submit([Notify(Stream.COPY, "due")])
    fake.refuse("cuEventQuery", code=CUresult.CUDA_ERROR_NOT_SUPPORTED)
    (event,) = device.completions()
    assert isinstance(event, Failed) and not event.is_fatal
    assert device.completions() == [Reached("due")]


def test_a_copy_that_fails_to_upload_a_table_publishes_nothing(device: CudaDevice, fake: FakeDriver) -> None:
    upload = Copy(Stream.VERIFIER, (CopyPair(staging(0, 8), at(0, 8)),), TableVersion(1, ()))
    reader = Launch(Stream.VERIFIER, "increment", Extent(64, 8), (TableRead(1),), (at(64, 8),))  # type: ignore[arg-type]
    fake.refuse("cuMemcpyHtoDAsync")
    with pytest.raises(CudaFailure):
        device.submit([upload])
    with pytest.raises(DeviceError, match="version=1 is not published yet"):
        device.submit([reader])
    device.submit([upload, reader])


def test_a_table_whose_entry_was_unmapped_is_refused_until_it_is_back(device: CudaDevice) -> None:
    entry = at(3 * SEGMENT_BYTES, 64)
    device.submit([Copy(Stream.VERIFIER, (CopyPair(staging(0, 8), at(0, 8)),), TableVersion(1, (entry,)))])
    reader = Launch(Stream.VERIFIER, "increment", Extent(64, 8), (TableRead(1),), (at(64, 8),))  # type: ignore[arg-type]
    device.submit([reader, Unmap(segment(3))])
    with pytest.raises(DeviceError, match="nothing is mapped"):
        device.submit([reader])
    device.submit([Map(3, segment(3)), reader])


def test_a_table_is_gone_when_another_lies_over_it(device: CudaDevice) -> None:
    def upload(version: int, offset: int) -> Copy:
        return Copy(Stream.VERIFIER, (CopyPair(staging(0, 16), at(offset, 16)),), TableVersion(version, ()))

    def reader(version: int) -> Launch:
        return Launch(Stream.VERIFIER, "increment", Extent(64, 8), (TableRead(version),), (at(64, 8),))  # type: ignore[arg-type]

    device.submit([upload(1, 0), upload(2, 16), reader(1), reader(2), upload(3, 8)])
    for version in (1, 2):
        with pytest.raises(DeviceError, match=f"version={version} is superseded"):
            device.submit([reader(version)])
    with pytest.raises(DeviceError, match="numbers go up"):
        device.submit([upload(3, 0)])
    device.submit([reader(3)])


def test_kernels_reach_the_pinned_pack_and_no_further(fake: FakeDriver) -> None:
    def look(memory: Memory, args: Any) -> None:
        memory.view(*args)

    device = open_on(fake, {"look": look}, max_pinned_bytes=16 * 1024)
    device.seal()
    device.submit([Map(0, segment(0))])
    device.submit([Copy(Stream.VERIFIER, (CopyPair(staging(0, 8), at(0, 8)),), TableVersion(1, ()))])
    base = device.describe().pack_address

    def view(offset: int, size: int) -> Launch:
        args: Any = (base + offset, size)
        return Launch(Stream.VERIFIER, "look", args, (TableRead(1),), ())

    device.submit([view(16 * 1024 - 64, 64)])
    assert device.statistics().pack_read_bytes == 64
    with pytest.raises(DeviceError, match="kernels reach the first 16,384 B: the rest is pageable"):
        device.submit([view(16 * 1024 - 64, 65)])
    device.close()


def test_a_digest_by_a_kernel_of_ours_is_used(fake: FakeDriver) -> None:
    import torch

    device = open_on(fake, digest=lambda source: torch.tensor([source.numel() + 7]))
    device.submit([Map(0, segment(0)), Digest(Stream.COPY, SMALL, staging(8, 8))])
    finish(device)
    assert int.from_bytes(bytes(device.host(staging(8, 8))), "little") == 71
    device.close()


def test_whoever_rests_waits_for_the_oldest_notice_and_is_told_of_it_afterwards(fake: FakeDriver, device: CudaDevice):
    fake.event_lag = 50
    device.rest()  # nothing to wait for
    assert not fake.named("cuEventSynchronize")
    device.submit([Notify(Stream.PROMPT, "first"), Notify(Stream.COPY, "second")])
    assert device.completions() == []
    device.rest()
    assert len(fake.named("cuEventSynchronize")) == 1
    assert device.completions() == [Reached("first")]


def test_a_failure_that_ends_a_rest_is_told_by_completions(fake: FakeDriver, device: CudaDevice):
    device.submit([Notify(Stream.PROMPT, "done")])
    fake.refuse("cuEventSynchronize", code=CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    fake.refuse("cuEventQuery", code=CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    device.rest()
    (event,) = device.completions()
    assert isinstance(event, Failed) and event.is_fatal
