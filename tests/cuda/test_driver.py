"""Result codes become exceptions with the driver's names; the context follows the thread."""

import threading
from collections.abc import Iterator

import pytest

from strata.core.errors import ConfigError
from strata.cuda.card import Card
from strata.cuda.driver import Driver
from strata.cuda.errors import FATAL, CudaFailure
from tests.cuda.builders import attached, fake_driver
from tests.cuda.fake_driver import CUresult, FakeDriver


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver() as made:
        yield made


def test_a_failure_names_the_call_the_error_and_its_text(fake: FakeDriver) -> None:
    fake.refuse("cuInit", code=CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    with pytest.raises(CudaFailure) as caught:
        Driver(fake).call("cuInit", 0)
    assert str(caught.value) == "cuInit failed: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    assert (caught.value.code, caught.value.is_fatal) == ("CUDA_ERROR_OUT_OF_MEMORY", False)


def test_an_error_that_the_driver_cannot_name_keeps_its_number(fake: FakeDriver) -> None:
    fake.refuse("cuInit", code=CUresult.CUDA_ERROR_NOT_SUPPORTED)
    fake.refuse("cuGetErrorName")
    fake.refuse("cuGetErrorString")
    with pytest.raises(CudaFailure, match="cuInit failed: CUresult 801: an error that this driver has no words for"):
        Driver(fake).call("cuInit", 0)


@pytest.mark.parametrize("code", sorted(code for code in CUresult if code.name in FATAL))
def test_a_sticky_error_is_fatal(fake: FakeDriver, code: CUresult) -> None:
    fake.refuse("cuInit", code=code)
    with pytest.raises(CudaFailure) as caught:
        Driver(fake).call("cuInit", 0)
    assert caught.value.is_fatal


def test_a_query_tells_not_ready_from_failed(fake: FakeDriver) -> None:
    driver = attached(fake)
    event = driver.call("cuEventCreate", 2)
    assert driver.is_done("cuEventQuery", event)
    fake.refuse("cuEventQuery", code=CUresult.CUDA_ERROR_NOT_READY)
    assert not driver.is_done("cuEventQuery", event)
    fake.refuse("cuEventQuery", code=CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    with pytest.raises(CudaFailure, match="ILLEGAL_ADDRESS"):
        driver.is_done("cuEventQuery", event)


def test_another_thread_gets_the_context_once(fake: FakeDriver) -> None:
    driver, made = attached(fake), []

    def work() -> None:
        for _ in range(3):
            driver.attach()
            made.append(driver.call("cuEventCreate", 2))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(made) == 3 and len(fake.named("cuCtxSetCurrent")) == 2


def test_a_card_says_what_it_is(fake: FakeDriver) -> None:
    card = Card(Driver(fake), ordinal=0)
    assert (card.name, card.uuid) == ("fake card", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert (card.total_bytes, card.free_bytes()) == (fake.total_bytes, fake.total_bytes)
    card.close()
    assert fake.leftovers() == {}


def test_no_such_card_is_a_matter_of_configuration(fake: FakeDriver) -> None:
    with pytest.raises(ConfigError, match=r"card=3 cannot be opened.*INVALID_DEVICE.*CUDA_VISIBLE_DEVICES"):
        Card(Driver(fake), ordinal=3)
    assert fake.leftovers() == {}


@pytest.mark.parametrize("name", ["cuCtxSetCurrent", "cuMemGetAllocationGranularity"])
def test_a_card_that_opens_half_is_let_go(fake: FakeDriver, name: str) -> None:
    fake.refuse(name)
    with pytest.raises(CudaFailure):
        Card(Driver(fake), ordinal=0)
    assert fake.leftovers() == {}
