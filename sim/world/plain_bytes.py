"""A payload of real bytes without torch: small enough to be copied about in plain Python, for worlds whose programs
are run and whose replies depend on every byte that was read.

Commands take effect in the order of submission; poison is a pattern that no blob, token or address contains.
"""

from typing import Any

from sim.scope import LaunchScope
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import DeviceDescription, Program
from strata.trace.digest import positional_digest

POISON = 0xDB


class PlainBytes:
    """Make `bytes` of a view to compare it: views are compared item by item, which takes thirty times as long."""

    def __init__(self, description: DeviceDescription, pack: memoryview | None = None) -> None:
        """`pack`: one that is filled and sealed already."""
        self.arena_bytes = memoryview(bytearray(description.range_bytes))
        self._host = {
            HostSpace.PACK: memoryview(bytearray(description.pack_bytes)) if pack is None else pack,
            HostSpace.STAGING: memoryview(bytearray(description.staging_bytes)),
            HostSpace.PARKED: memoryview(bytearray(description.parked_bytes)),
        }
        self._poison = memoryview(bytes((POISON,)) * description.range_bytes)
        self._away: dict[int, bytes] = {}
        self._homes: dict[int, int] = {}  # offset in the arena -> physical segment

    def map(self, segment_index: int, extent: Extent) -> None:
        self._homes[extent.offset_bytes] = segment_index
        if segment_index in self._away:
            self.arena(extent)[:] = self._away.pop(segment_index)

    def unmap(self, extent: Extent) -> None:
        self._away[self._homes.pop(extent.offset_bytes)] = bytes(self.arena(extent))
        self.poison(extent)

    def poison(self, extent: Extent) -> None:
        self.arena(extent)[:] = self._poison[: extent.size_bytes]

    def copy(self, source: Extent | HostExtent, target: Extent | HostExtent) -> None:
        self._bytes(target)[:] = self._bytes(source)

    def fill(self, target: Extent, value: int) -> None:
        self.arena(target)[:] = bytes((value,)) * target.size_bytes

    def digest(self, source: Extent, target: HostExtent) -> None:
        self.host(target)[:] = positional_digest(self.arena(source)).to_bytes(8, "little")

    def run(self, program: Program, args: Any, scope: LaunchScope) -> None:
        program(PlainMemory(self, scope), args)

    def host(self, extent: HostExtent) -> memoryview:
        return self._host[extent.space][extent.offset_bytes : extent.offset_bytes + extent.size_bytes]

    @property
    def pack(self) -> memoryview:
        return self._host[HostSpace.PACK]

    def seal(self) -> None:
        self._host[HostSpace.PACK] = self._host[HostSpace.PACK].toreadonly()

    def close(self) -> None:
        """Nothing outlives the object."""

    def arena(self, extent: Extent) -> memoryview:
        """The bytes as they are, unchecked: for whoever judges."""
        return self.arena_bytes[extent.offset_bytes : extent.offset_bytes + extent.size_bytes]

    def peek(self, extent: Extent) -> bytes:
        return bytes(self.arena(extent))

    def _bytes(self, extent: Extent | HostExtent) -> memoryview:
        return self.host(extent) if isinstance(extent, HostExtent) else self.arena(extent)


class PlainMemory:
    """`strata.device.Memory` of one launch, with memoryviews for tensors."""

    __slots__ = ("_arena", "_payload", "_scope")

    def __init__(self, payload: PlainBytes, scope: LaunchScope) -> None:
        self._payload, self._scope, self._arena = payload, scope, payload.arena_bytes

    def read(self, extent: Extent) -> memoryview:
        self._scope.check_read(extent)
        start = extent.offset_bytes
        return self._arena[start : start + extent.size_bytes]

    def write(self, extent: Extent) -> memoryview:
        self._scope.check_write(extent)
        start = extent.offset_bytes
        return self._arena[start : start + extent.size_bytes]

    def view(self, address: int, size_bytes: int) -> memoryview:
        found = self._scope.resolve(address, size_bytes)
        return self._payload.host(found) if isinstance(found, HostExtent) else self._payload.arena(found)
