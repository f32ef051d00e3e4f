"""A device with something on it, and short ways to use it. Written against `strata.device.Device` alone."""

from dataclasses import dataclass
from typing import Any

import torch

from strata.core.commands import Access, Command, Copy, CopyPair, Map, Notify, Stream, Transfer
from strata.core.events import Event, Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import Device, Memory

OWNER = "owner"
MAX_POLLS = 1_000_000  # a body that never gets there fails instead of hanging


@dataclass(frozen=True)
class AddArgs:
    """Bytes of `left` and `right` added into `out`, modulo 256."""

    left: Extent
    right: Extent
    out: Extent


@dataclass(frozen=True)
class GatherArgs:
    """`size_bytes` from each of the int64 addresses in `addresses`, one behind the other into `out`."""

    addresses: Extent
    size_bytes: int
    out: Extent


@dataclass(frozen=True)
class ReachArgs:
    """Touch bytes, declared or not."""

    read: Extent | None = None
    write: Extent | None = None
    view: tuple[int, int] | None = None


def add(memory: Memory, args: AddArgs) -> None:
    memory.write(args.out).copy_(memory.read(args.left) + memory.read(args.right))


def gather(memory: Memory, args: GatherArgs) -> None:
    out = memory.write(args.out).view(-1, args.size_bytes)
    for row, address in enumerate(memory.read(args.addresses).view(torch.int64).tolist()):
        out[row].copy_(memory.view(address, args.size_bytes))


def reach(memory: Memory, args: ReachArgs) -> None:
    if args.read is not None:
        memory.read(args.read)
    if args.write is not None:
        memory.write(args.write)
    if args.view is not None:
        memory.view(*args.view)


PROGRAMS: dict[str, Any] = {"add": add, "gather": gather, "reach": reach}


class Bench:
    """A device whose pack holds `pack_byte`, sealed, with its first four segments mapped and owned."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.description = device.describe()
        self.segment_bytes = self.description.segment_bytes
        pack_bytes = self.description.pack_bytes
        pack = HostExtent(HostSpace.PACK, 0, pack_bytes)
        device.host(pack)[:] = bytes(pack_byte(offset) for offset in range(pack_bytes))
        device.seal()
        device.submit([Map(index, Extent(index * self.segment_bytes, self.segment_bytes)) for index in range(4)])
        device.submit([Transfer(Extent(0, 4 * self.segment_bytes), "", OWNER)])
        self._num_notified = 0

    def at(self, offset_bytes: int, size_bytes: int) -> Access:
        return Access(Extent(offset_bytes, size_bytes), OWNER)

    def finish(self, *streams: Stream) -> list[Event]:
        """Wait until all work of `streams` is over; the other events that came."""
        waiting = set()
        for stream in streams or tuple(Stream):
            self._num_notified += 1
            waiting.add(Reached(f"bench {self._num_notified}"))
            self.device.submit([Notify(stream, f"bench {self._num_notified}")])
        others: list[Event] = []
        for _ in range(MAX_POLLS):
            for event in self.device.completions():
                if event in waiting:
                    waiting.discard(event)
                else:
                    others.append(event)
            if not waiting:
                return others
        raise AssertionError(f"not reached: {waiting}")

    def put(self, offset_bytes: int, data: bytes) -> None:
        """Through staging onto the card, over when this returns."""
        staging = HostExtent(HostSpace.STAGING, 0, len(data))
        self.device.host(staging)[:] = data
        self.run(Copy(Stream.COPY, (CopyPair(staging, self.at(offset_bytes, len(data))),)))

    def get(self, offset_bytes: int, size_bytes: int) -> bytes:
        staging = HostExtent(HostSpace.STAGING, 0, size_bytes)
        self.run(Copy(Stream.COPY, (CopyPair(self.at(offset_bytes, size_bytes), staging),)))
        return bytes(self.device.host(staging))

    def run(self, *commands: Command) -> None:
        """One after the other, each over before the next."""
        for command in commands:
            self.device.submit([command])
            self.finish()


def pack_byte(offset: int) -> int:
    return (offset * 7 + offset // 256) % 251


def pack_bytes(offset: int, size: int) -> bytes:
    return bytes(pack_byte(at) for at in range(offset, offset + size))


def naive_digest(data: bytes) -> int:
    """The digest by its definition, in Python's integers."""
    mask, total = (1 << 64) - 1, len(data)
    for index in range(-(-len(data) // 8)):
        word = int.from_bytes(data[8 * index : 8 * index + 8].ljust(8, b"\0"), "little")
        mixed = ((word ^ ((index + 1) * 0x9E3779B97F4A7C15 & mask)) * 0xC2B2AE3D27D4EB4F) & mask
        total += mixed ^ (mixed >> 32)
    return total & mask
