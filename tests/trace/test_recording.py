"""The recorder changes nothing, forgets nothing, and tells planted failures from the device's own."""

import pytest

from sim.device import SimDevice, describe_twin
from sim.errors import OrderError, OwnershipError
from sim.symbolic import SymbolicPayload
from sim.world.plain_bytes import PlainBytes
from strata.core.commands import Access, Command, Copy, CopyPair, Fill, Launch, Map, Notify, Stream, Transfer
from strata.core.events import Failed, Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.programs import EmbedArgs
from strata.device import Device
from strata.trace.digest import short_digest
from strata.trace.entries import Captured, Entry, Faulted, FaultKind, HostAccess, Refused
from strata.trace.recording import RecordingDevice

SEGMENT = Extent(0, 256)
STAGED = HostExtent(HostSpace.STAGING, 0, 16)
START: tuple[Command, ...] = (Map(0, SEGMENT), Transfer(SEGMENT, "", "cache"))
FILL = Fill(Stream.PROMPT, Access(Extent(0, 16), "cache"), 5)
UPLOAD = Copy(Stream.COPY, (CopyPair(STAGED, Access(Extent(0, 16), "cache")),))


def twin(faults: object = None) -> Device:
    description = describe_twin(arena_bytes=256, segment_bytes=256, pack_bytes=32, staging_bytes=32)
    device: Device = SimDevice(
        description,
        {"p": lambda memory, args: None},
        SymbolicPayload(description),
        faults=faults,  # type: ignore[arg-type]
    )
    return device


def test_everything_is_kept_in_order_and_reported_as_it_is() -> None:
    entries: list[Entry] = []
    device = RecordingDevice(twin(), entries.append)
    device.host(HostExtent(HostSpace.PACK, 0, 32))[:] = bytes(32)
    device.seal()
    device.submit(START)
    device.host(STAGED)[:] = b"sixteen bytes up"
    device.submit((UPLOAD, Notify(Stream.COPY, "up")))
    assert device.completions() == [Reached("up")]
    node = Launch(Stream.PROMPT, "p", EmbedArgs(1, None), (), (FILL.target,))  # type: ignore[arg-type]
    device.capture("window", [node])
    device.host(HostExtent(HostSpace.PACK, 0, 8))
    device.close()
    assert entries == [
        *START,
        HostAccess(STAGED, short_digest(b"sixteen bytes up")),
        UPLOAD,
        Notify(Stream.COPY, "up"),
        Reached("up"),
        Captured("window", (node,)),
        HostAccess(HostExtent(HostSpace.PACK, 0, 8)),
    ]
    assert device.statistics().num_commands == 4 and device.describe().arena_bytes == 256


def test_what_the_device_refuses_is_kept_with_its_reason_and_raised() -> None:
    entries: list[Entry] = []
    device = RecordingDevice(twin(), entries.append)
    device.seal()
    with pytest.raises(OwnershipError) as refused:
        device.submit((Map(0, SEGMENT), FILL, Notify(Stream.PROMPT, "never")))
    assert entries == [Map(0, SEGMENT), Refused(FILL, "OwnershipError", str(refused.value))]
    device.submit((Transfer(SEGMENT, "", "cache"),))
    device.host(STAGED)[:] = bytes(16)
    device.submit((UPLOAD,))
    with pytest.raises(OrderError) as early:
        device.host(STAGED)
    assert entries[-1] == Refused(HostAccess(STAGED), "OrderError", str(early.value))


def test_a_fault_of_a_program_is_kept_too() -> None:
    """Whatever it raises: the file is for whoever looks for the reason."""

    def broken(memory: object, args: object) -> None:
        raise ZeroDivisionError("of a program")

    description = describe_twin(arena_bytes=256, segment_bytes=256, pack_bytes=0, staging_bytes=0)
    entries: list[Entry] = []
    device = RecordingDevice(SimDevice(description, {"p": broken}, PlainBytes(description)), entries.append)
    device.seal()
    device.submit(START)
    node = Launch(Stream.PROMPT, "p", EmbedArgs(1, None), (), (FILL.target,))  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        device.submit((node,))
    assert entries[-1] == Refused(node, "ZeroDivisionError", "of a program")


def test_a_planted_failure_is_no_word_of_the_device() -> None:
    entries: list[Entry] = []
    planted: list[FaultKind | None] = []

    def faults(index: int, command: Command) -> Failed | None:
        planted.append({2: FaultKind.FAILED, 3: FaultKind.REFUSED}.get(index))
        if planted[-1] is FaultKind.REFUSED:
            raise OwnershipError("planted", command)
        return Failed("planted", command) if planted[-1] else None

    device = RecordingDevice(twin(faults), entries.append, ask_fault=lambda: planted[-1])
    device.seal()
    device.submit((*START, FILL))
    with pytest.raises(OwnershipError):
        device.submit((FILL,))
    assert device.completions() == [Failed("planted", FILL)]
    assert entries == [
        *START,
        Faulted(FILL, FaultKind.FAILED),
        Faulted(FILL, FaultKind.REFUSED),
        Failed("planted", FILL),
    ]
