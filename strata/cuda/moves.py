"""Copies, fills and digests: what the driver does by itself, without a program.

All sides are checked before anything is issued. A copy is merged with its neighbours in the group and cut where host
memory was registered in two pieces. The pack is the master of every weight: read after the seal, never written.

What the pack holds beyond its pinned part is copied by the driver through a buffer of its own: in order on the stream
like any copy, but the call returns only once the bytes have left the pack, so the host pays for it and nobody else
notices. Since a sealed pack never changes, no such copy can read anything else than what it was issued for.
"""

from collections.abc import Mapping

from strata.core.commands import Copy, Digest, Fill, Stream
from strata.core.errors import DeviceError
from strata.core.extent import HostExtent, HostSpace
from strata.cuda.arena import Arena
from strata.cuda.driver import Driver
from strata.cuda.memory import Views
from strata.cuda.pinned import HostMemory
from strata.cuda.streams import Streams
from strata.cuda.transfers import LinkCopy, merge_pairs

DIGEST_BYTES = 8


class Moves:
    """Counts the bytes of copy commands, each way."""

    __slots__ = ("_arena", "_driver", "_host", "_streams", "to_device_bytes", "to_host_bytes")

    def __init__(self, driver: Driver, arena: Arena, streams: Streams, host: Mapping[HostSpace, HostMemory]) -> None:
        self._driver, self._arena, self._streams = driver, arena, streams
        self._host = host
        self.to_device_bytes = self.to_host_bytes = 0

    def copy(self, command: Copy) -> None:
        copies = merge_pairs(command.pairs)
        for copy in copies:
            self._arena.check_mapped(copy.arena)
            self._check_host(copy.host, is_written=not copy.is_to_device)
        for copy in copies:
            self._issue(copy, command.stream)

    def fill(self, command: Fill) -> None:
        assert 0 <= command.value <= 255, command
        extent = command.target.extent
        self._arena.check_mapped(extent)
        if extent.size_bytes:
            address, stream = self._arena.address + extent.offset_bytes, self._streams[command.stream]
            self._driver.call("cuMemsetD8Async", address, command.value, extent.size_bytes, stream)

    def digest(self, command: Digest, views: Views) -> None:
        assert command.target.size_bytes == DIGEST_BYTES, command
        self._arena.check_mapped(command.source.extent)
        self._check_host(command.target, is_written=True)
        stream, staging = self._streams[command.stream], self._host[command.target.space]
        pending = views.digest(command.source.extent, stream)
        done = 0
        for offset, size in staging.pieces(offset_bytes=command.target.offset_bytes, size_bytes=DIGEST_BYTES):
            self._driver.call("cuMemcpyDtoHAsync", staging.address + offset, pending.address + done, size, stream)
            done += size

    def _issue(self, copy: LinkCopy, stream: Stream) -> None:
        host, handle = self._host[copy.host.space], self._streams[stream]
        for offset, size in host.pieces(offset_bytes=copy.host.offset_bytes, size_bytes=copy.host.size_bytes):
            card = self._arena.address + copy.arena.offset_bytes + offset - copy.host.offset_bytes
            if copy.is_to_device:
                self._driver.call("cuMemcpyHtoDAsync", card, host.address + offset, size, handle)
                self.to_device_bytes += size
            else:
                self._driver.call("cuMemcpyDtoHAsync", host.address + offset, card, size, handle)
                self.to_host_bytes += size

    def _check_host(self, extent: HostExtent, *, is_written: bool) -> None:
        self._host[extent.space].check_inside(offset_bytes=extent.offset_bytes, size_bytes=extent.size_bytes)
        if extent.space is HostSpace.PACK:
            where = f"pack [{extent.offset_bytes}, {extent.end_bytes})"
            if is_written:
                raise DeviceError(f"refused: writes {where}; no command may change the master")
            self._host[extent.space].check_sealed(f"reads {where}")
