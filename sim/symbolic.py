"""The payload without bytes: the twin's checks alone, for orderings by the ten thousand a second.

The arena, the pack and parked memory hold nothing, programs do not run. Staging is real, so that whoever plays the
model can put there what a program would have left; copies and digests leave it as it is.
"""

from typing import Any

from sim.scope import LaunchScope
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import DeviceDescription, Program


class SymbolicPayload:
    def __init__(self, description: DeviceDescription) -> None:
        self._staging = bytearray(description.staging_bytes)

    def map(self, segment_index: int, extent: Extent) -> None:
        del segment_index, extent

    def unmap(self, extent: Extent) -> None:
        del extent

    def poison(self, extent: Extent) -> None:
        del extent

    def copy(self, source: Extent | HostExtent, target: Extent | HostExtent) -> None:
        del source, target

    def fill(self, target: Extent, value: int) -> None:
        del target, value

    def digest(self, source: Extent, target: HostExtent) -> None:
        del source, target

    def run(self, program: Program, args: Any, scope: LaunchScope) -> None:
        del program, args, scope

    def host(self, extent: HostExtent) -> memoryview:
        """Staging as it is; of the others, zeros that nobody keeps."""
        if extent.space is not HostSpace.STAGING:
            return memoryview(bytearray(extent.size_bytes))
        return memoryview(self._staging)[extent.offset_bytes : extent.end_bytes]

    def peek(self, extent: Extent) -> bytes:
        del extent
        return b""

    def seal(self) -> None:
        """Nothing to protect."""

    def close(self) -> None:
        """Nothing to give back."""
