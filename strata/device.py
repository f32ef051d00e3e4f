"""The port that both bodies obey: `sim` (the twin) and `strata.cuda` (a card).

The core decides and hands over commands; a device executes them and reports events. Nothing here waits for results: a
card's `submit` queues work, the twin applies the payload at once and has the event ready at the next `completions`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from strata.core.commands import Command, Launch
from strata.core.events import Event
from strata.core.extent import Extent, HostExtent
from strata.core.programs import ProgramArgs


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """What the planner and the address table need to know. Addresses are the device's own: a byte of the arena is
    at `arena_address + offset_bytes`, a byte of the pack, as kernels read it, at `pack_address + offset_bytes`."""

    name: str
    arena_bytes: int  # physical bytes, a multiple of segment_bytes; they are at home at [0, arena_bytes)
    segment_bytes: int
    pack_bytes: int
    staging_bytes: int
    arena_address: int
    pack_address: int
    behind_bytes: int = 0  # reserved addresses behind the arena, for segments that are moved there for a while
    parked_bytes: int = 0  # host memory for parked conversations
    pageable_pack_bytes: int = 0  # at the end of the pack: copies read them, and kernels may not

    @property
    def range_bytes(self) -> int:
        """All reserved addresses: every extent lies in [0, range_bytes)."""
        return self.arena_bytes + self.behind_bytes


@dataclass(frozen=True, slots=True)
class DeviceStatistics:
    """Counts since start, all monotone but the first."""

    mapped_bytes: int
    num_maps: int  # segments mapped: arena memory is taken only here
    num_commands: int
    num_launches: int  # of programs, and one for each graph launch
    num_graph_launches: int
    copied_to_device_bytes: int  # by copy commands
    copied_to_host_bytes: int
    pack_read_bytes: int  # read by programs straight from the pack, over the link


class Memory(Protocol):
    """What a program sees. Every method gives a one-dimensional uint8 tensor that is a view, never a copy, and
    raises DeviceError when the launch did not declare those bytes."""

    def read(self, extent: Extent) -> Any: ...

    def write(self, extent: Extent) -> Any:
        """Readable and writable."""

    def view(self, address: int, size_bytes: int) -> Any:
        """Read-only use: the bytes at a device address taken from an address table, arena or pack."""


Program = Callable[[Memory, Any], None]
Programs = Mapping[str, Program]


class Device(Protocol):
    def describe(self) -> DeviceDescription: ...

    def submit(self, commands: Sequence[Command]) -> None:
        """Take the commands in order. A copy from memory that is not pinned is in order on its stream like any other,
        and holds up the caller until its bytes have left that memory. Raises DeviceError(command) for the first one
        refused; those before it stand."""

    def completions(self) -> Sequence[Event]:
        """Events since the last call, oldest first. Never waits."""

    def capture(self, name: str, launches: Sequence[Launch]) -> None:
        """Store `launches` as graph `name`; reads, writes, addresses and order are fixed from now on. The graph pins
        the extents as they are mapped and owned now; a later launch over moved bytes is an error."""

    def host(self, extent: HostExtent) -> memoryview:
        """Host memory, writable: staging and parked at any time, the pack until `seal`."""

    def seal(self) -> None:
        """The pack is complete and immutable from here on."""

    def statistics(self) -> DeviceStatistics: ...

    def close(self) -> None: ...


__all__ = [
    "Device",
    "DeviceDescription",
    "DeviceStatistics",
    "Memory",
    "Program",
    "ProgramArgs",
    "Programs",
]
