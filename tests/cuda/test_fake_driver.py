"""The fake driver refuses what a real one refuses, counts what it gave, and does what it is told."""

import ctypes
from collections.abc import Iterator

import pytest

from strata.cuda.driver import Driver
from strata.cuda.errors import CudaFailure
from tests.cuda.builders import PAGE_BYTES, SEGMENT_BYTES, attached, fake_driver
from tests.cuda.fake_driver import CUresult, FakeDriver


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver(total_bytes=4 * SEGMENT_BYTES, pinnable_bytes=2 * PAGE_BYTES) as made:
        yield made


def mapped_range(fake: FakeDriver, driver: Driver) -> tuple[int, int]:
    """Address of two places, a segment under the first; and the segment."""
    address = driver.call("cuMemAddressReserve", 2 * SEGMENT_BYTES, 0, 0, 0)
    segment = driver.call("cuMemCreate", SEGMENT_BYTES, properties(fake), 0)
    driver.call("cuMemMap", address, SEGMENT_BYTES, 0, segment, 0)
    driver.call("cuMemSetAccess", address, SEGMENT_BYTES, [access(fake)], 1)
    return address, segment


def properties(fake: FakeDriver) -> object:
    made = fake.CUmemAllocationProp()
    made.type, made.location.type, made.location.id = 1, 1, 0
    return made


def access(fake: FakeDriver) -> object:
    made = fake.CUmemAccessDesc()
    made.location.type, made.location.id, made.flags = 1, 0, 3
    return made


def test_a_refusal_hits_the_nth_call_and_no_other(fake: FakeDriver) -> None:
    fake.refuse("cuInit", 2, CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    assert [fake.cuInit(0)[0] for _ in range(3)] == [0, CUresult.CUDA_ERROR_OUT_OF_MEMORY, 0]
    assert fake.named("cuInit") == [(0,)] * 3


def test_what_is_not_given_back_is_seen(fake: FakeDriver) -> None:
    driver = attached(fake)
    address, segment = mapped_range(fake, driver)
    assert fake.leftovers() == {"context": 1, "range": 1, "segment": 1, "mapping": 1}
    driver.call("cuMemUnmap", address, SEGMENT_BYTES)
    driver.call("cuMemAddressFree", address, 2 * SEGMENT_BYTES)
    driver.call("cuMemRelease", segment)
    driver.call("cuDevicePrimaryCtxRelease", 0)
    assert fake.leftovers() == {}


def test_bytes_over_a_hole_or_without_access_are_refused(fake: FakeDriver) -> None:
    driver = attached(fake)
    address, segment = mapped_range(fake, driver)
    stream = driver.call("cuStreamCreate", 1)
    driver.call("cuMemsetD8Async", address, 7, SEGMENT_BYTES, stream)
    with pytest.raises(CudaFailure, match="INVALID_VALUE"):
        driver.call("cuMemsetD8Async", address + SEGMENT_BYTES - 8, 7, 16, stream)
    driver.call("cuMemUnmap", address, SEGMENT_BYTES)
    driver.call("cuMemMap", address, SEGMENT_BYTES, 0, segment, 0)
    with pytest.raises(CudaFailure, match="INVALID_VALUE"):
        driver.call("cuMemsetD8Async", address, 7, 16, stream)


def test_a_range_that_is_mapped_cannot_be_freed_or_mapped_again(fake: FakeDriver) -> None:
    driver = attached(fake)
    address, segment = mapped_range(fake, driver)
    for name, *arguments in (
        ("cuMemAddressFree", address, 2 * SEGMENT_BYTES),
        ("cuMemMap", address, SEGMENT_BYTES, 0, segment, 0),
        ("cuMemUnmap", address + SEGMENT_BYTES, SEGMENT_BYTES),
    ):
        with pytest.raises(CudaFailure, match="INVALID_VALUE"):
            driver.call(name, *arguments)


def test_memory_of_card_and_host_is_finite(fake: FakeDriver) -> None:
    driver = attached(fake)
    for _ in range(4):
        driver.call("cuMemCreate", SEGMENT_BYTES, properties(fake), 0)
    with pytest.raises(CudaFailure, match="OUT_OF_MEMORY"):
        driver.call("cuMemCreate", SEGMENT_BYTES, properties(fake), 0)
    driver.call("cuMemHostRegister", 16 * PAGE_BYTES, PAGE_BYTES, 0)
    with pytest.raises(CudaFailure, match="ALREADY_REGISTERED"):
        driver.call("cuMemHostRegister", 16 * PAGE_BYTES, PAGE_BYTES, 0)
    with pytest.raises(CudaFailure, match="OUT_OF_MEMORY"):
        driver.call("cuMemHostRegister", 32 * PAGE_BYTES, 2 * PAGE_BYTES, 0)
    with pytest.raises(CudaFailure, match="INVALID_VALUE"):
        driver.call("cuMemHostRegister", 32 * PAGE_BYTES, 0, 0)


def test_a_copy_across_the_edge_of_a_registration_is_refused(fake: FakeDriver) -> None:
    driver = attached(fake)
    address, _ = mapped_range(fake, driver)
    stream = driver.call("cuStreamCreate", 1)
    driver.call("cuMemHostRegister", 16 * PAGE_BYTES, PAGE_BYTES, 0)
    with pytest.raises(CudaFailure, match="INVALID_VALUE"):
        driver.call("cuMemcpyHtoDAsync", address, 17 * PAGE_BYTES - 8, 16, stream)


def test_an_event_is_due_after_its_lag_and_work_waits_in_a_capture(fake: FakeDriver) -> None:
    driver = attached(fake)
    stream, event, done = driver.call("cuStreamCreate", 1), driver.call("cuEventCreate", 2), []
    driver.call("cuEventRecord", event, stream)
    assert [driver.is_done("cuEventQuery", event) for _ in range(3)] == [False, False, True]
    driver.call("cuStreamBeginCapture", stream, 2)
    fake.queue(stream, lambda: done.append(1))
    executable = driver.call("cuGraphInstantiate", driver.call("cuStreamEndCapture", stream), 0)
    assert done == []
    for _ in range(2):
        driver.call("cuGraphLaunch", executable, stream)
    assert done == [1, 1]


def test_a_stream_waits_for_a_word_and_another_one_for_its_event(fake: FakeDriver) -> None:
    driver, done = attached(fake), []
    words = (ctypes.c_int32 * PAGE_BYTES)()
    page = -(-ctypes.addressof(words) // PAGE_BYTES) * PAGE_BYTES
    word, mark = ctypes.c_int32.from_address(page), ctypes.c_int32.from_address(page + 4)
    driver.call("cuMemHostRegister", page, PAGE_BYTES, 0)
    held, other = driver.call("cuStreamCreate", 1), driver.call("cuStreamCreate", 1)
    event = driver.call("cuEventCreate", 2)
    driver.call("cuStreamWaitValue32", held, page, 3, 0)
    fake.queue(held, lambda: done.append("held"))
    driver.call("cuEventRecord", event, held)
    driver.call("cuStreamWriteValue32", held, page + 4, 9, 0)
    driver.call("cuStreamWaitEvent", other, event, 0)
    fake.queue(other, lambda: done.append("other"))
    word.value = 2
    assert not driver.is_done("cuStreamQuery", held) and not driver.is_done("cuEventQuery", event)
    assert (done, mark.value) == ([], 0)
    with pytest.raises(AssertionError, match="would never return"):
        driver.call("cuCtxSynchronize")
    word.value = 3
    assert driver.is_done("cuStreamQuery", held) and driver.is_done("cuStreamQuery", other)
    assert (done, mark.value) == (["held", "other"], 9)
    with pytest.raises(CudaFailure, match="INVALID_VALUE"):
        driver.call("cuStreamWaitValue32", held, page + PAGE_BYTES, 1, 0)


def test_bytes_that_are_unmapped_under_work_on_its_way_cost_the_context(fake: FakeDriver) -> None:
    driver = attached(fake)
    address, _ = mapped_range(fake, driver)
    words = (ctypes.c_int32 * PAGE_BYTES)()
    page = -(-ctypes.addressof(words) // PAGE_BYTES) * PAGE_BYTES
    driver.call("cuMemHostRegister", page, PAGE_BYTES, 0)
    stream = driver.call("cuStreamCreate", 1)
    driver.call("cuStreamWaitValue32", stream, page, 1, 0)
    driver.call("cuMemsetD8Async", address, 7, 16, stream)
    driver.call("cuMemUnmap", address, SEGMENT_BYTES)
    ctypes.c_int32.from_address(page).value = 1
    with pytest.raises(CudaFailure, match="ILLEGAL_ADDRESS"):
        driver.is_done("cuStreamQuery", stream)


def test_without_a_context_nothing_is_made(fake: FakeDriver) -> None:
    assert fake.cuStreamCreate(1)[0] == CUresult.CUDA_ERROR_INVALID_CONTEXT
