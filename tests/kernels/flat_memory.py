"""The simplest memory a program can run on: one arena and one pack, everything mapped, nothing ever moves.

It checks what a device checks: a launch sees only the extents it declared, writes only to those declared for writing,
and reaches through addresses only the blobs that were published.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from strata.core.errors import DeviceError
from strata.core.extent import Extent
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up

ARENA_ADDRESS = 0x7F00_0000_0000
PACK_ADDRESS = 0x1000_0000
POISON = 0xFF  # NaN as a float, -1 as an integer: nothing may count on what it finds


class FlatMemory:
    """`strata.device.Memory` over two uint8 tensors. `carve` hands out arena bytes, `put_blob` those of either.
    `compares_bytes`: after each launch all bytes are compared with what they were (a bench turns this off)."""

    def __init__(self, *, arena_bytes: int, pack_bytes: int, compares_bytes: bool = True) -> None:
        self._compares_bytes = compares_bytes
        self.arena, self.pack = (
            torch.full((align_up(size_bytes, SLOT_ALIGNMENT_BYTES),), POISON, dtype=torch.uint8)
            for size_bytes in (arena_bytes, pack_bytes)
        )
        self._arena_end = self._pack_end = 0
        self._published: set[tuple[int, int]] = set()
        self._reads: tuple[Extent, ...] = ()
        self._writes: tuple[Extent, ...] = ()

    def carve(self, size_bytes: int) -> Extent:
        """The next free arena bytes, on the slot grid, poisoned."""
        extent = Extent(self._arena_end, size_bytes)
        self._arena_end = align_up(extent.end_bytes, SLOT_ALIGNMENT_BYTES)
        assert self._arena_end <= self.arena.numel(), (extent, self.arena.numel())
        return extent

    def put(self, data: Tensor) -> Extent:
        """A carved extent that holds `data` (uint8)."""
        extent = self.carve(data.numel())
        self.raw(extent).copy_(data)
        return extent

    def put_blob(self, data: Tensor, *, in_pack: bool) -> int:
        """Stores a blob and publishes its address."""
        if in_pack:
            start = self._pack_end
            self._pack_end = align_up(start + data.numel(), SLOT_ALIGNMENT_BYTES)
            self.pack[start : start + data.numel()].copy_(data)
            address = PACK_ADDRESS + start
        else:
            address = ARENA_ADDRESS + self.put(data).offset_bytes
        self._published.add((address, data.numel()))
        return address

    def raw(self, extent: Extent) -> Tensor:
        """The bytes, unchecked: for whoever sets a test up or looks at what is left."""
        return self.arena[extent.offset_bytes : extent.end_bytes]

    @contextmanager
    def launch(self, reads: Iterable[Extent], writes: Iterable[Extent]) -> Iterator["FlatMemory"]:
        """What a program run inside may touch; leaving checks that everything else has the bytes it had."""
        self._reads, self._writes = tuple(reads), tuple(writes)
        before = (self.arena.clone(), self.pack.clone()) if self._compares_bytes else None
        try:
            yield self
        finally:
            if before is not None:
                self._check_untouched(*before)
            self._reads = self._writes = ()

    def _check_untouched(self, arena: Tensor, pack: Tensor) -> None:
        for extent in self._writes:  # what may have changed is made equal first
            arena[extent.offset_bytes : extent.end_bytes] = self.raw(extent)
        for name, before, now in (("arena", arena, self.arena), ("pack", pack, self.pack)):
            if not np.array_equal(before.numpy().view(np.uint64), now.numpy().view(np.uint64)):
                raise AssertionError(f"undeclared write at {name} offset {int((before != now).nonzero()[0])}")

    def read(self, extent: Extent) -> Tensor:
        self._require(extent, self._reads + self._writes, "read")
        return self.raw(extent)

    def write(self, extent: Extent) -> Tensor:
        self._require(extent, self._writes, "write")
        return self.raw(extent)

    def view(self, address: int, size_bytes: int) -> Tensor:
        if (address, size_bytes) not in self._published:
            raise DeviceError(f"view address={address:#x} size_bytes={size_bytes}: no blob is published there")
        in_arena = ARENA_ADDRESS <= address < ARENA_ADDRESS + self.arena.numel()
        space, start = (self.arena, address - ARENA_ADDRESS) if in_arena else (self.pack, address - PACK_ADDRESS)
        return space[start : start + size_bytes]

    @staticmethod
    def _require(extent: Extent, declared: tuple[Extent, ...], what: str) -> None:
        if not any(each.contains(extent) for each in declared):
            raise DeviceError(f"{what} of {extent}: the launch did not declare it")
