"""The bodies that the conformance suite runs on. A body is made by `make_device(programs)`: every body has the same
geometry in units of its own segment, and gives its memory back at the end of the test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sim.bytes import BytesPayload
from sim.device import SimDevice, describe_twin
from strata.device import Device, Programs
from tests.device.cuda_bodies import PARKED_BYTES, DeviceOnFake, make_card

DeviceFactory = Callable[[Programs], Device]

NUM_SEGMENTS, NUM_BEHIND = 6, 2
PACK_BYTES = 64 * 1024
STAGING_BYTES = 16 * 1024


def make_twin(programs: Programs) -> Device:
    segment_bytes = 16 * 1024
    description = describe_twin(
        arena_bytes=NUM_SEGMENTS * segment_bytes,
        segment_bytes=segment_bytes,
        pack_bytes=PACK_BYTES,
        staging_bytes=STAGING_BYTES,
        behind_bytes=NUM_BEHIND * segment_bytes,
        parked_bytes=PARKED_BYTES,
    )
    return SimDevice(description, programs, BytesPayload(description))


def make_cuda_on_fake(programs: Programs) -> Device:
    device: Any = DeviceOnFake(programs)
    return device  # type: ignore[no-any-return]


BODIES: dict[str, DeviceFactory] = {"twin": make_twin, "cuda-on-fake-driver": make_cuda_on_fake, "cuda": make_card}
MARKS = {"cuda": pytest.mark.gpu}


@pytest.fixture(params=[pytest.param(make, id=name, marks=MARKS.get(name, ())) for name, make in BODIES.items()])
def make_device(request: pytest.FixtureRequest) -> Iterator[DeviceFactory]:
    made: list[Device] = []

    def make(programs: Programs) -> Device:
        made.append(request.param(programs))
        return made[-1]

    yield make
    for device in made:
        device.close()
