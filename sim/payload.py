"""What lies under the twin's checks. A payload applies commands that were found right, and judges nothing.

`bytes` keeps real memory, `symbolic` none at all. Extents given to a payload are mapped and in bounds.
"""

from typing import Any, Protocol

from sim.scope import LaunchScope
from strata.core.extent import Extent, HostExtent
from strata.device import Program


class Payload(Protocol):
    def map(self, segment_index: int, extent: Extent) -> None:
        """`extent` now shows the physical segment, with the bytes it had: undefined for whoever maps it."""

    def unmap(self, extent: Extent) -> None: ...

    def poison(self, extent: Extent) -> None:
        """Make what lies there recognizably wrong."""

    def copy(self, source: Extent | HostExtent, target: Extent | HostExtent) -> None: ...

    def fill(self, target: Extent, value: int) -> None: ...

    def digest(self, source: Extent, target: HostExtent) -> None: ...

    def run(self, program: Program, args: Any, scope: LaunchScope) -> None:
        """Run the program over this memory. Every byte it asks for goes through `scope` first."""

    def host(self, extent: HostExtent) -> memoryview: ...

    def peek(self, extent: Extent) -> bytes:
        """The arena's bytes as they are, for whoever judges; none where the payload has no bytes."""

    def seal(self) -> None: ...

    def close(self) -> None: ...
