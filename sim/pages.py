"""Memory by the page: reserve a range of addresses, show parts of a memfd in it, protect it. Linux only.

Everything is asked of libc by address, since Python's mmap can neither reserve without backing nor map at a fixed
place. A range is never in /dev/shm (containers give it 64 MB) and never a Python object of its own size.
"""

import ctypes
import mmap
import os

from strata.core.errors import DeviceError

MAX_RANGE_BYTES = 1 << 47
"""A process has no more addresses (x86-64 with four levels of page tables). libc takes sizes modulo 2^64, so that a
larger range must not get there."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

_PROT_NONE = 0
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
_MAP_FAILED = ctypes.c_void_p(-1).value


class PageRange:
    """`size_bytes` of addresses that stay where they are until `close`. Anonymous and zero, or, when
    `is_reserved`, without backing: touching it is SIGSEGV until a part is shown with `show`. Everything raises
    DeviceError, naming the bytes, when the system refuses it."""

    def __init__(self, size_bytes: int, *, is_reserved: bool) -> None:
        self.size_bytes = size_bytes
        if size_bytes > MAX_RANGE_BYTES:
            raise DeviceError(f"a range of {size_bytes:,} B refused: a process has addresses for {MAX_RANGE_BYTES:,} B")
        self._length = max(size_bytes, 1)
        protection = _PROT_NONE if is_reserved else _READ_WRITE
        self.address = _map(None, self._length, protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)

    def buffer(self) -> ctypes.Array[ctypes.c_uint8]:
        """The whole range as a buffer. Nothing is touched by making it; it must not be used after `close`."""
        return (ctypes.c_uint8 * self.size_bytes).from_address(self.address)

    def show(self, offset_bytes: int, *, size_bytes: int, file: int, file_offset_bytes: int) -> None:
        """Bytes [file_offset, file_offset + size) of `file` now lie at `offset_bytes`; an alias is an alias."""
        flags = mmap.MAP_SHARED | _MAP_FIXED
        _map(self.address + offset_bytes, size_bytes, _READ_WRITE, flags, file, file_offset_bytes)

    def hide(self, offset_bytes: int, *, size_bytes: int) -> None:
        """Take the backing away again; the addresses stay reserved."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED
        _map(self.address + offset_bytes, size_bytes, _PROT_NONE, flags)

    def protect(self) -> None:
        """Read-only from here on; a write is SIGSEGV."""
        if _libc.mprotect(self.address, self._length, mmap.PROT_READ):
            raise _error(f"mprotect of {self._length:,} B")

    def close(self) -> None:
        if _libc.munmap(self.address, self._length):
            raise _error(f"munmap of {self._length:,} B")


def _map(address: int | None, length: int, protection: int, flags: int, file: int = -1, offset: int = 0) -> int:
    found = _libc.mmap(address, length, protection, flags, file, offset)
    if found is None or found == _MAP_FAILED:
        raise _error(f"mmap of {length:,} B")
    return int(found)


def _error(what: str) -> DeviceError:
    return DeviceError(f"{what} failed: {os.strerror(ctypes.get_errno())}")
