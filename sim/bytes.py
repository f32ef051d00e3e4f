"""The payload with real bytes: a card made of one memfd, seen through one reserved range of addresses.

    memfd           | segment 0 | segment 1 | segment 2 |          physical memory
                          \\____________  /
    arena           |  hole  | segment 1 | segment 0 |  hole  |    one torch tensor, uint8, over the whole range

Home addresses never move, views cross segments, and a segment mapped elsewhere takes its bytes along. Touching a
hole is SIGSEGV, so nothing gets here unchecked: commands by the shadow, programs by their `LaunchScope`. The only
file of the twin that imports torch.

Every fresh mapping, and every transfer that is not in place, fills the bytes with POISON, which is NaN in f32 and f16
and -1 in integers: a wrong read shows in the numbers too.
"""

import ctypes
import mmap
import os
from contextlib import ExitStack
from typing import Any

import torch

from sim.pages import PageRange
from sim.scope import LaunchScope
from strata.core.errors import ConfigError, DeviceError
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import DeviceDescription, Program

POISON = 0xFF

_LESS_MODEL = "use a smaller model, or one of fewer bits a weight, or a host with more memory"

_DIGEST_BLOCK_WORDS = 1 << 17
_ODD_POSITION = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd (Knuth, TAOCP 6.4)
_ODD_MIX = 0xC2B2AE3D27D4EB4F


class BytesPayload:
    """Takes `arena_bytes` of physical memory as it is first written, the bytes of every host space alike, and
    `range_bytes` of addresses. Raises ConfigError when the host does not even have the addresses, and then holds
    nothing."""

    def __init__(self, description: DeviceDescription) -> None:
        if description.segment_bytes % mmap.PAGESIZE:
            raise ValueError(
                f"segment_bytes={description.segment_bytes} must be a multiple of the page size {mmap.PAGESIZE}"
            )
        self._segment_bytes = description.segment_bytes
        with ExitStack() as opened:
            self._arena = _open_range("vram", description.range_bytes, "lower --vram", is_reserved=True)
            opened.callback(self._arena.close)
            self._pack = _open_range("pack", description.pack_bytes, _LESS_MODEL)
            opened.callback(self._pack.close)
            self._staging = _open_range("staging", description.staging_bytes, _LESS_MODEL)
            opened.callback(self._staging.close)
            self._parked = _open_range("parked", description.parked_bytes, "lower --parked-mib")
            opened.callback(self._parked.close)
            self._memory_file = _open_memory_file(description.arena_bytes)
            opened.pop_all()
        self._arena_tensor = _tensor(self._arena)
        self._pages = {HostSpace.PACK: self._pack, HostSpace.STAGING: self._staging, HostSpace.PARKED: self._parked}
        self._host_tensors = {space: _tensor(pages) for space, pages in self._pages.items()}

    def map(self, segment_index: int, extent: Extent) -> None:
        self._arena.show(
            extent.offset_bytes,
            size_bytes=extent.size_bytes,
            file=self._memory_file,
            file_offset_bytes=segment_index * self._segment_bytes,
        )

    def unmap(self, extent: Extent) -> None:
        self._arena.hide(extent.offset_bytes, size_bytes=extent.size_bytes)

    def poison(self, extent: Extent) -> None:
        self.fill(extent, POISON)

    def copy(self, source: Extent | HostExtent, target: Extent | HostExtent) -> None:
        self.tensor(target).copy_(self.tensor(source))

    def fill(self, target: Extent, value: int) -> None:
        self.tensor(target).fill_(value)

    def digest(self, source: Extent, target: HostExtent) -> None:
        value = positional_digest(self.tensor(source))
        self.host(target)[:] = value.to_bytes(8, "little")

    def run(self, program: Program, args: Any, scope: LaunchScope) -> None:
        program(_ScopedMemory(self, scope), args)

    def host(self, extent: HostExtent) -> memoryview:
        pages = self._pages[extent.space]
        if not extent.size_bytes:
            return memoryview(b"")
        return memoryview(pages.buffer()).cast("B")[extent.offset_bytes : extent.end_bytes]

    def peek(self, extent: Extent) -> bytes:
        return self.tensor(extent).numpy().tobytes()

    def seal(self) -> None:
        self._pack.protect()

    def close(self) -> None:
        for pages in (self._arena, *self._pages.values()):
            pages.close()
        os.close(self._memory_file)

    def tensor(self, where: Extent | HostExtent) -> torch.Tensor:
        """The bytes there: uint8 [size_bytes], a view."""
        whole = self._arena_tensor if isinstance(where, Extent) else self._host_tensors[where.space]
        return whole.narrow(0, where.offset_bytes, where.size_bytes)


def _open_range(name: str, size_bytes: int, remedy: str, *, is_reserved: bool = False) -> PageRange:
    try:
        return PageRange(size_bytes, is_reserved=is_reserved)
    except DeviceError as error:
        raise _refused(name, size_bytes, str(error), remedy) from error


def _open_memory_file(size_bytes: int) -> int:
    """The card's physical memory: a descriptor."""
    try:
        descriptor = os.memfd_create("strata-twin", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, size_bytes)
        except OSError:
            os.close(descriptor)
            raise
    except OSError as error:
        raise _refused("vram", size_bytes, f"its memory file failed: {error.strerror}", "lower --vram") from error
    return descriptor


def _refused(name: str, size_bytes: int, reason: str, remedy: str) -> ConfigError:
    return ConfigError(f"twin refused: {name}={size_bytes:,} B of this host's memory: {reason}; {remedy}")


class _ScopedMemory:
    """`strata.device.Memory` for one launch: asks the scope, then gives a view."""

    __slots__ = ("_payload", "_scope")

    def __init__(self, payload: BytesPayload, scope: LaunchScope) -> None:
        self._payload, self._scope = payload, scope

    def read(self, extent: Extent) -> torch.Tensor:
        self._scope.check_read(extent)
        return self._payload.tensor(extent)

    def write(self, extent: Extent) -> torch.Tensor:
        self._scope.check_write(extent)
        return self._payload.tensor(extent)

    def view(self, address: int, size_bytes: int) -> torch.Tensor:
        return self._payload.tensor(self._scope.resolve(address, size_bytes))


def positional_digest(data: torch.Tensor) -> int:
    """Of uint8 [size_bytes], as uint64. With w_i the little-endian 64-bit words, the last one zero padded,
    and all arithmetic modulo 2^64:

        x_i = (w_i xor (i + 1) * K1) * K2;    digest = size_bytes + sum of x_i xor (x_i >> 32)

    A sum, so that a card may add in any order; the position is inside, so that two swapped slots differ."""
    size_bytes = data.numel()
    total = size_bytes
    for start in range(0, size_bytes, 8 * _DIGEST_BLOCK_WORDS):
        block = data[start : start + 8 * _DIGEST_BLOCK_WORDS]
        padded = torch.zeros(-(-block.numel() // 8) * 8, dtype=torch.uint8)
        padded[: block.numel()] = block
        words = padded.view(torch.int64)
        positions = torch.arange(start // 8 + 1, start // 8 + 1 + words.numel(), dtype=torch.int64)
        mixed = (words ^ (positions * _signed(_ODD_POSITION))) * _signed(_ODD_MIX)
        total += int((mixed ^ ((mixed >> 32) & 0xFFFF_FFFF)).sum())
    return total % (1 << 64)


def fill_pattern(data: torch.Tensor, seed: int) -> None:
    """data: uint8 [size_bytes], any offset, is overwritten. Word i (little endian, the last one cut off) becomes
    x_i xor (x_i >> 32) of `positional_digest` for w_i = `seed`, which is 0 .. 2^64 - 1."""
    size_bytes = data.numel()
    for start in range(0, size_bytes, 8 * _DIGEST_BLOCK_WORDS):
        block = data[start : start + 8 * _DIGEST_BLOCK_WORDS]
        first, num_words = start // 8 + 1, -(-block.numel() // 8)
        positions = torch.arange(first, first + num_words, dtype=torch.int64)
        mixed = (positions * _signed(_ODD_POSITION) ^ _signed(seed)) * _signed(_ODD_MIX)
        mixed ^= (mixed >> 32) & 0xFFFF_FFFF
        block.copy_(mixed.view(torch.uint8)[: block.numel()])


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _tensor(pages: PageRange) -> torch.Tensor:
    """uint8 [size_bytes] over the pages. torch wants a buffer of at least one byte."""
    if pages.size_bytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    buffer: ctypes.Array[ctypes.c_uint8] = pages.buffer()
    return torch.frombuffer(buffer, dtype=torch.uint8)
