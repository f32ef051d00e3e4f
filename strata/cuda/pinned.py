"""Host memory that the card reads and writes by itself: touched by several threads, then registered block by block.

    |  block 0  |  block 1  |  block 2  |  rest  |
    |<-------- pinned ------------------>|<- pageable ->|       the first refusal ends the pinning

Pinned memory is a budget of its own: a container or WSL may grant little of it while card and host have plenty. So a
refusal is no failure: the rest stays pageable. Kernels cannot read it, and a copy from it is slower (an H200: 7 GB/s
against 54) and holds up whoever submits it, since the driver moves it through a buffer of its own. How much is pinned,
and what the driver said, is there to be shown.

Touching comes first because registering untouched pages makes the driver fault them in one by one in one thread
(measured on an H200's host: 0.9 GB/s against 8.2 GB/s when sixteen threads have touched them). Large pages are asked
for: of small ones there are 512 times as many to touch, to register, and to look up when a kernel reads over the link.
"""

import ctypes
import mmap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from strata.core.errors import ConfigError, DeviceError
from strata.core.units import MIB, align_up
from strata.cuda.driver import Driver
from strata.cuda.errors import CudaFailure
from strata.cuda.held import Held

BLOCK_BYTES = 256 * MIB


class HostMemory:
    """`size_bytes` of zeros, page aligned, pinned from the start on as far as budget and driver allow. A copy must
    not cross the edge of a block: `pieces` cuts it. Takes the memory at once, all of it."""

    def __init__(
        self,
        driver: Driver,
        label: str,
        size_bytes: int,
        *,
        num_threads: int,
        max_pinned_bytes: int | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        assert size_bytes >= 0 and num_threads > 0 and block_bytes > 0 and block_bytes % mmap.PAGESIZE == 0
        self._driver = driver
        self.label, self.size_bytes, self._block_bytes = label, size_bytes, block_bytes
        self.is_sealed = False  # the host is done writing; only the pack is ever sealed
        self.pinned_bytes = 0
        self.refusal: str | None = None
        # Private: a shared anonymous mapping would count as shared memory, which containers keep short.
        self._pages = mmap.mmap(-1, max(size_bytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError, AttributeError):  # a host without large pages has small ones
            self._pages.madvise(mmap.MADV_HUGEPAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        self.device_address = self.address
        touch(self.address, size_bytes, num_threads=num_threads)
        with Held() as self._held:
            self._held.add(self._drop_pages)
            self._pin(size_bytes if max_pinned_bytes is None else min(size_bytes, max_pinned_bytes))

    @property
    def pageable_bytes(self) -> int:
        return self.size_bytes - self.pinned_bytes

    def describe_pinning(self) -> str:
        """One line for the log: what is pinned, and why not the rest."""
        if not self.pageable_bytes:
            return f"{self.label}: {self.pinned_bytes:,} B of {self.size_bytes:,} B pinned"
        why = self.refusal or "the pinned budget ends there"
        return (
            f"{self.label}: {self.pinned_bytes:,} B of {self.size_bytes:,} B pinned, {self.pageable_bytes:,} B "
            f"pageable, slower to copy and out of reach for kernels: {why}"
        )

    def view(self, *, offset_bytes: int, size_bytes: int) -> memoryview:
        """Writable bytes. Raises DeviceError beyond the end."""
        self.check_inside(offset_bytes=offset_bytes, size_bytes=size_bytes)
        return memoryview(self._pages)[offset_bytes : offset_bytes + size_bytes]

    def check_inside(self, *, offset_bytes: int, size_bytes: int) -> None:
        if offset_bytes + size_bytes > self.size_bytes:
            end = offset_bytes + size_bytes
            raise DeviceError(f"{self.label} [{offset_bytes}, {end}) ends beyond its {self.size_bytes:,} B")

    def check_sealed(self, what: str) -> None:
        """Raises DeviceError while the host may still write what `what` reads."""
        if not self.is_sealed:
            raise DeviceError(f"refused: {what} before seal(); the host may still write the {self.label}")

    def pieces(self, *, offset_bytes: int, size_bytes: int) -> Iterator[tuple[int, int]]:
        """(offset, size) of the parts of a range that one copy may take: each inside one registered block, or all
        in the pageable rest."""
        end = offset_bytes + size_bytes
        while offset_bytes < end:
            if offset_bytes < self.pinned_bytes:
                edge = min((offset_bytes // self._block_bytes + 1) * self._block_bytes, self.pinned_bytes)
            else:
                edge = end
            size = min(edge, end) - offset_bytes
            yield offset_bytes, size
            offset_bytes += size

    def close(self) -> None:
        """Unregister everything, then let go of the pages. What fails is raised after the rest is done."""
        self._held.give_back()

    def _pin(self, limit_bytes: int) -> None:
        """Empty memory has no block: a registration of zero bytes would be refused."""
        # A budget that ends inside a page would share that page between pinned and not.
        limit = limit_bytes if limit_bytes == self.size_bytes else limit_bytes - limit_bytes % mmap.PAGESIZE
        api = self._driver.api
        flags = int(api.CU_MEMHOSTREGISTER_PORTABLE) | int(api.CU_MEMHOSTREGISTER_DEVICEMAP)
        for start in range(0, limit, self._block_bytes):
            size = min(self._block_bytes, limit - start)
            try:
                self._driver.call("cuMemHostRegister", self.address + start, align_up(size, mmap.PAGESIZE), flags)
            except CudaFailure as failure:
                if failure.is_fatal:
                    raise
                self.refusal = (
                    f"pinning of {size:,} B more was refused ({failure}); the host's budget of pinned memory is "
                    "spent: raise the memlock limit (ulimit -l), give the container more, or lower the budget"
                )
                return
            self._held.add(self._driver.call, "cuMemHostUnregister", self.address + start)
            self._check_address(start)
            self.pinned_bytes = start + size

    def _check_address(self, start: int) -> None:
        """One base address must do for the whole range, since tables are computed from it."""
        seen = int(self._driver.call("cuMemHostGetDevicePointer", self.address + start, 0))
        if start == 0:
            self.device_address = seen
        elif seen != self.device_address + start:
            raise ConfigError(
                f"device=cuda refused: the card sees {self.label} [{start}, ...) at {seen:#x}, not at "
                f"{self.device_address + start:#x}: this card cannot read host memory by one base address"
            )

    def _drop_pages(self) -> None:
        # A view that somebody still holds keeps the pages alive until it dies; it must not be made to point nowhere.
        with suppress(BufferError):
            self._pages.close()


def touch(address: int, size_bytes: int, *, num_threads: int) -> None:
    """Write zeros to every byte, a share for each thread. ctypes lets go of the interpreter's lock meanwhile."""
    if not size_bytes:
        return
    share = align_up(-(-size_bytes // num_threads), mmap.PAGESIZE)
    parts = [(start, min(share, size_bytes - start)) for start in range(0, size_bytes, share)]
    with ThreadPoolExecutor(len(parts)) as threads:
        for _ in threads.map(lambda part: ctypes.memset(address + part[0], 0, part[1]), parts):
            pass
