"""The memory of the fake driver: physical segments in a memfd, ranges of addresses over them, registrations, handles.

A copy or a fill is refused over a hole, over memory without access, and across the edge of a registration. A handle
that is not alive, and a thread without a context, are refused everywhere.
"""

import mmap
import os
import threading
from enum import IntEnum
from typing import Any

from sim.pages import PageRange

GRANULARITY_BYTES = 4 * mmap.PAGESIZE


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_ECC_UNCORRECTABLE = 214
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712
    CUDA_ERROR_NOT_SUPPORTED = 801
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901


OK = CUresult.CUDA_SUCCESS
INVALID = CUresult.CUDA_ERROR_INVALID_VALUE


class Refused(Exception):
    def __init__(self, code: CUresult) -> None:
        self.code = code


def require(holds: bool, code: CUresult = INVALID) -> None:
    if not holds:
        raise Refused(code)


class FakeMemory:
    """`total_bytes` of memory, `pinnable_bytes` of host memory that may be registered (None: all)."""

    def __init__(self, *, total_bytes: int, pinnable_bytes: int | None) -> None:
        self.total_bytes, self.pinnable_bytes = total_bytes, pinnable_bytes
        self.device_shift = 0  # set it, and the card sees host memory at other addresses from the second block on
        self.torch_bytes: dict[int, int] = {}  # address -> size of what torch allocated on this card by itself
        self._live: dict[str, dict[int, Any]] = {}
        self._next_handle = 1000
        self._current = threading.local()
        self._mapped: dict[int, tuple[int, bool]] = {}  # address -> size, may be accessed
        self._file = os.memfd_create("fake-card", os.MFD_CLOEXEC)

    def close(self) -> None:
        os.close(self._file)

    def _cuMemGetAllocationGranularity(self, properties: Any, option: int) -> int:
        require(properties.location.type == 1 and properties.type == 1)
        return GRANULARITY_BYTES

    def _cuMemAddressReserve(self, size: int, alignment: int, address: int, flags: int) -> int:
        self._check_context()
        require(size > 0 and size % GRANULARITY_BYTES == 0)
        pages = PageRange(size, is_reserved=True)
        self._live.setdefault("range", {})[pages.address] = pages
        return pages.address

    def _cuMemAddressFree(self, address: int, size: int) -> None:
        pages = self._get("range", address)
        require(pages.size_bytes == size and not any(address <= at < address + size for at in self._mapped))
        del self._live["range"][address]
        pages.close()

    def _cuMemCreate(self, size: int, properties: Any, flags: int) -> int:
        self._check_context()
        require(size % GRANULARITY_BYTES == 0)
        require(size <= self._free_bytes(), CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        offset = os.fstat(self._file).st_size
        os.ftruncate(self._file, offset + size)
        return self._make("segment", (offset, size))

    def _cuMemRelease(self, handle: int) -> None:
        self._drop("segment", handle)

    def _cuMemMap(self, address: int, size: int, offset: int, handle: int, flags: int) -> None:
        file_offset, segment_bytes = self._get("segment", handle)
        pages = self._range_of(address, size)
        require(size == segment_bytes and offset == 0)
        require(not any(at < address + size and address < at + other for at, (other, _) in self._mapped.items()))
        pages.show(address - pages.address, size_bytes=size, file=self._file, file_offset_bytes=file_offset)
        self._mapped[address] = (size, False)

    def _cuMemSetAccess(self, address: int, size: int, accesses: list[Any], count: int) -> None:
        require(self._mapped.get(address, (0, False))[0] == size and len(accesses) == count == 1)
        require(accesses[0].flags == 3 and accesses[0].location.id == 0)
        self._mapped[address] = (size, True)

    def _cuMemUnmap(self, address: int, size: int) -> None:
        require(self._mapped.get(address, (0, False))[0] == size)
        del self._mapped[address]
        pages = self._range_of(address, size)
        pages.hide(address - pages.address, size_bytes=size)

    def _cuMemHostRegister(self, address: int, size: int, flags: int) -> None:
        self._check_context()
        require(size > 0 and address % mmap.PAGESIZE == 0 and size % mmap.PAGESIZE == 0)
        live = self._live.setdefault("registration", {})
        taken = any(at < address + size and address < at + other for at, other in live.items())
        require(not taken, CUresult.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        within = self.pinnable_bytes is None or sum(live.values()) + size <= self.pinnable_bytes
        require(within, CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        live[address] = size

    def _cuMemHostUnregister(self, address: int) -> None:
        self._drop("registration", address)

    def _cuMemHostGetDevicePointer(self, address: int, flags: int) -> int:
        self._get("registration", address)
        return address + (self.device_shift if len(self._live["registration"]) > 1 else 0)

    def _make(self, kind: str, value: Any) -> int:
        self._next_handle += 1
        self._live.setdefault(kind, {})[self._next_handle] = value
        return self._next_handle

    def _get(self, kind: str, handle: int) -> Any:
        self._check_context(kind)
        require(handle in self._live.get(kind, {}), CUresult.CUDA_ERROR_INVALID_HANDLE)
        return self._live[kind][handle]

    def _drop(self, kind: str, handle: int) -> None:
        self._get(kind, handle)
        del self._live[kind][handle]

    def _check_context(self, kind: str = "") -> None:
        current = getattr(self._current, "context", None)
        require(kind == "context" or current in self._live.get("context", {}), CUresult.CUDA_ERROR_INVALID_CONTEXT)

    def _free_bytes(self) -> int:
        return self.total_bytes - sum(size for _, size in self._live.get("segment", {}).values())

    def _range_of(self, address: int, size: int) -> PageRange:
        for start, pages in self._live.get("range", {}).items():
            if start <= address and address + size <= start + pages.size_bytes:
                return pages  # type: ignore[no-any-return]
        raise Refused(INVALID)

    def _check_bytes(self, card: int, host: int, size: int) -> None:
        """The host side lies in one registration or in none."""
        require(size > 0)
        self._check_card_bytes(card, size)
        for at, other in self._live.get("registration", {}).items():
            is_apart = host + size <= at or at + other <= host
            require(is_apart or (at <= host and host + size <= at + other))

    def _check_card_bytes(self, card: int, size: int) -> None:
        if self.torch_bytes.get(card) == size:
            return
        at = card
        while at < card + size:
            inside = [s + n for s, (n, is_open) in self._mapped.items() if is_open and s <= at < s + n]
            require(bool(inside))
            at = inside[0]
