"""A device over the fake driver, with a geometry small enough to count by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from strata.cuda.device import CudaDevice
from strata.cuda.driver import Driver
from strata.cuda.open import open_device
from strata.device import Programs
from tests.cuda.fake_driver import GRANULARITY_BYTES, FakeDriver
from tests.cuda.host_views import HostViews

SEGMENT_BYTES = GRANULARITY_BYTES
PAGE_BYTES = 4096


@contextmanager
def fake_driver(**facts: Any) -> Iterator[FakeDriver]:
    fake = FakeDriver(**facts)
    try:
        yield fake
    finally:
        fake.close()


def attached(fake: FakeDriver) -> Driver:
    """A driver whose context is current, for parts that are tested on their own."""
    driver = Driver(fake)
    driver.use(driver.call("cuDevicePrimaryCtxRetain", 0))
    driver.attach()
    return driver


def open_on(fake: FakeDriver, programs: Programs | None = None, **sizes: Any) -> CudaDevice:
    """Six segments, a pack of 64 KiB pinned in blocks of 16 KiB, 16 KiB of staging, unless `sizes` says otherwise."""
    geometry: dict[str, Any] = {
        "arena_bytes": 6 * SEGMENT_BYTES,
        "segment_bytes": SEGMENT_BYTES,
        "pack_bytes": 64 * 1024,
        "staging_bytes": 16 * 1024,
        "block_bytes": 16 * 1024,
    }
    return open_device(programs or {}, **{**geometry, **sizes}, api=fake, make_views=HostViews)
