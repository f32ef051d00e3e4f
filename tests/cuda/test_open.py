"""Opening is all or nothing, whichever call of the driver fails; closing gives back everything else."""

from collections.abc import Iterator
from typing import Any

import pytest

from strata.core.commands import Launch, Map, Notify, Record, Stream
from strata.core.errors import ConfigError
from strata.core.extent import Extent
from strata.cuda.device import CudaDevice
from strata.cuda.errors import CudaFailure
from tests.cuda.builders import SEGMENT_BYTES, fake_driver, open_on
from tests.cuda.fake_driver import CUresult, FakeDriver

SMALL = {"arena_bytes": 2 * SEGMENT_BYTES, "pack_bytes": 20 * 1024, "staging_bytes": 4096}
NOTHING = {"nothing": lambda memory, args: None}


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver() as made:
        yield made


def numbered(calls: list[tuple[str, tuple[Any, ...]]]) -> list[tuple[str, int]]:
    """Each call's name, and which of that name it is."""
    names = [name for name, _ in calls]
    return [(name, names[: index + 1].count(name)) for index, name in enumerate(names)]


def calls_of_opening() -> list[tuple[str, int]]:
    with fake_driver() as fake:
        device = open_on(fake, **SMALL)
        calls = list(fake.calls)
        device.close()
    return numbered(calls)


def calls_of_closing() -> list[tuple[str, int]]:
    """Of a device that was used."""
    with fake_driver() as fake:
        device = use(open_on(fake, NOTHING, **SMALL))
        num_calls = len(fake.calls)
        device.close()
        return numbered(fake.calls[num_calls:])


def use(device: CudaDevice) -> CudaDevice:
    """So that closing has a segment, events and a graph to give back."""
    device.submit([Map(0, Extent(0, SEGMENT_BYTES)), Record(Stream.COPY, "a"), Notify(Stream.COPY, "b")])
    device.capture("empty", [Launch(Stream.VERIFIER, "nothing", None, (), ())])  # type: ignore[arg-type]
    return device


OPENING = calls_of_opening()
CLOSING = calls_of_closing()
LEFT_BEHIND = {"cuCtxSynchronize": 0, "cuMemUnmap": 2}
"""What one refusal leaves, where it is not the one thing that was to go: a place that stays mapped keeps its range."""


def test_both_lists_of_calls_are_what_they_claim() -> None:
    assert ("cuMemCreate", 2) in OPENING and ("cuStreamCreate", 4) in OPENING and ("cuMemHostRegister", 3) in OPENING
    assert {name for name, _ in CLOSING} == {
        "cuCtxSynchronize",
        "cuGraphExecDestroy",
        "cuEventDestroy",
        "cuStreamDestroy",
        "cuMemHostUnregister",
        "cuMemUnmap",
        "cuMemRelease",
        "cuMemAddressFree",
        "cuDevicePrimaryCtxRelease",
    }


@pytest.mark.parametrize(("name", "nth"), OPENING)
def test_a_fatal_error_at_any_call_of_opening_leaves_nothing(fake: FakeDriver, name: str, nth: int) -> None:
    fake.refuse(name, nth, CUresult.CUDA_ERROR_ECC_UNCORRECTABLE)
    with pytest.raises((CudaFailure, ConfigError), match=f"{name} failed: CUDA_ERROR_ECC_UNCORRECTABLE"):
        open_on(fake, **SMALL)
    assert fake.leftovers() == {}


@pytest.mark.parametrize(("name", "nth"), CLOSING)
def test_closing_goes_on_after_a_refusal_and_tells_of_it(fake: FakeDriver, name: str, nth: int) -> None:
    device = use(open_on(fake, NOTHING, **SMALL))
    before = len(fake.named(name))
    fake.refuse(name, nth)
    with pytest.raises(CudaFailure) as caught:
        device.close()
    assert str(caught.value) == f"{name} failed: CUDA_ERROR_INVALID_VALUE: invalid value"
    assert sum(fake.leftovers().values()) == LEFT_BEHIND.get(name, 1)
    assert len(fake.named(name)) - before == len([each for each, _ in CLOSING if each == name])


def test_closing_twice_is_closing_once(fake: FakeDriver) -> None:
    device = open_on(fake, **SMALL)
    device.close()
    num_calls = len(fake.calls)
    device.close()
    assert len(fake.calls) == num_calls and fake.leftovers() == {}


def test_a_lost_card_is_closed_without_a_word(fake: FakeDriver) -> None:
    device = open_on(fake, **SMALL)
    fake.lose()
    device.submit([]), device.completions()
    with pytest.raises(CudaFailure):
        device.submit([Map(0, Extent(0, SEGMENT_BYTES))])
    device.close()


def test_the_description_is_what_was_asked_for(fake: FakeDriver) -> None:
    device = open_on(fake, **SMALL)
    told = device.describe()
    assert (told.name, told.arena_bytes, told.segment_bytes) == ("fake card", 2 * SEGMENT_BYTES, SEGMENT_BYTES)
    assert (told.pack_bytes, told.staging_bytes) == (20 * 1024, 4096)
    assert told.arena_address == fake.named("cuMemMap")[0][0]
    assert told.pack_address == fake.named("cuMemHostRegister")[0][0]
    assert device.statistics().mapped_bytes == device.statistics().num_maps == 0
    device.close()


@pytest.mark.parametrize("first", [0, 1])
def test_two_devices_of_a_process_are_closed_in_any_order(first: int):
    """They share the card's one context, as arms that are compared do."""
    with fake_driver() as fake:
        devices = [open_on(fake), open_on(fake)]
        devices[first].close()
        devices[1 - first].submit([Map(0, Extent(0, SEGMENT_BYTES))])
        devices[1 - first].close()
        assert fake.leftovers() == {}
