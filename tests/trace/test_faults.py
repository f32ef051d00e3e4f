"""Failures planted into a device that knows of none: what is refused does not happen, what fails leaves a mark."""

import pytest

from sim.device import SimDevice, describe_twin
from sim.world.plain_bytes import PlainBytes
from strata.core.commands import (
    Access,
    Command,
    Copy,
    CopyPair,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Stream,
    Transfer,
)
from strata.core.errors import DeviceError
from strata.core.events import Failed, Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.trace.faults import PLANTED, POISON, FaultyDevice

PROMPT = Stream.PROMPT
HALF = Access(Extent(0, 64), "owner")
REST = Access(Extent(64, 64), "owner")


def faulty(faults=None, **rest: int) -> tuple[FaultyDevice, PlainBytes]:  # type: ignore[no-untyped-def]
    description = describe_twin(arena_bytes=256, segment_bytes=256, pack_bytes=0, staging_bytes=64)
    payload = PlainBytes(description)
    device = SimDevice(description, {"run": lambda memory, args: None}, payload)
    device.seal()
    device.submit([Map(0, Extent(0, 256)), Transfer(Extent(0, 256), "", "owner"), Fill(PROMPT, HALF, 1)])
    device.submit([Fill(PROMPT, REST, 1)])
    return FaultyDevice(device, faults, **rest), payload


def held(payload: PlainBytes, access: Access) -> set[int]:
    return set(payload.arena(access.extent))


def test_the_command_that_is_drawn_is_refused_and_nothing_of_it_happens() -> None:
    asked: list[tuple[int, Command]] = []

    def faults(index: int, command: Command) -> None:
        asked.append((index, command))
        if index == 1:
            raise DeviceError(PLANTED, command)

    device, payload = faulty(faults)
    commands = [Fill(PROMPT, HALF, 7), Fill(PROMPT, REST, 8)]
    with pytest.raises(DeviceError, match=PLANTED):
        device.submit(commands)
    assert asked == list(enumerate(commands))
    assert (held(payload, HALF), held(payload, REST)) == ({7}, {1})
    assert device.completions() == [] and device.statistics().num_commands == 5


@pytest.mark.parametrize(
    ("command", "spoilt"),
    [
        (Fill(PROMPT, HALF, 7), HALF),
        (Launch(PROMPT, "run", None, (), (REST,)), REST),  # type: ignore[arg-type]
        (GraphLaunch(PROMPT, "window", 0), HALF),
        (Copy(PROMPT, (CopyPair(HostExtent(HostSpace.STAGING, 0, 64), REST),)), REST),
        (Copy(PROMPT, (CopyPair(HALF, HostExtent(HostSpace.STAGING, 0, 64)),)), None),
    ],
    ids=["fill", "launch", "graph", "copy", "copy home"],
)
def test_what_fails_on_its_way_leaves_bytes_that_nobody_wrote(command: Command, spoilt: Access | None) -> None:
    device, payload = faulty(poison=0x5A)
    device.capture("window", [Launch(PROMPT, "run", None, (), (HALF,))])  # type: ignore[arg-type]
    device.fail_next()
    device.submit([command, Notify(PROMPT, "behind")])
    assert device.completions() == [Failed(PLANTED, command), Reached("behind")]
    for access in (HALF, REST):
        assert held(payload, access) == ({0x5A} if access is spoilt else {1})
    assert set(payload.host(HostExtent(HostSpace.STAGING, 0, 64))) == {0}
    device.submit([Fill(PROMPT, HALF, 9)])
    assert held(payload, HALF) == {9} and device.completions() == []


def test_without_failures_everything_passes() -> None:
    device, payload = faulty()
    device.submit([Fill(PROMPT, HALF, 2), Notify(PROMPT, "done")])
    assert device.completions() == [Reached("done")] and held(payload, HALF) == {2}
    assert device.describe().arena_bytes == 256 and POISON != 2
    device.close()
