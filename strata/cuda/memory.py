"""What a program sees of this body, and the port behind which torch stands.

Knows no torch: `Views` makes the tensors and runs programs on a stream (`torch_views.py` on a card).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from strata.core.extent import Extent, HostExtent
from strata.cuda.scope import LaunchScope


class Views(Protocol):
    """Tensors over memory that is not torch's own, and work put on a stream. `stream` is the driver's handle."""

    def arena(self, extent: Extent) -> Any:
        """uint8 [size_bytes], a view, writable."""

    def pack(self, *, offset_bytes: int, size_bytes: int) -> Any:
        """uint8 [size_bytes], a view of pinned bytes as kernels read them."""

    def run(self, stream: Any, work: Callable[[], None]) -> None:
        """Do `work` with `stream` current: what it launches is queued there. Raises DeviceError where the card or
        its memory refused, and lets every other exception of the program pass."""

    def capture_pool(self) -> AbstractContextManager[Any]:
        """While a graph is captured: temporaries come from a pool of its own, given by the context manager. They are
        written at each launch of the graph, so the pool lives as long as the graph."""

    def digest(self, source: Extent, stream: Any) -> "PendingDigest":
        """Queue the positional digest of `source` on `stream`."""


class PendingDigest(Protocol):
    """uint64 [1] on the card, to be there when the stream gets to it. Keep it until the copy out is issued: after
    that its memory is used again only behind that copy, on the same stream."""

    @property
    def address(self) -> int: ...


class ScopedMemory:
    """`strata.device.Memory` for one launch: asks the scope, then gives a view."""

    __slots__ = ("_scope", "_views")

    def __init__(self, views: Views, scope: LaunchScope) -> None:
        self._views, self._scope = views, scope

    def read(self, extent: Extent) -> Any:
        self._scope.check_read(extent)
        return self._views.arena(extent)

    def write(self, extent: Extent) -> Any:
        self._scope.check_write(extent)
        return self._views.arena(extent)

    def view(self, address: int, size_bytes: int) -> Any:
        where = self._scope.resolve(address, size_bytes)
        if isinstance(where, HostExtent):
            return self._views.pack(offset_bytes=where.offset_bytes, size_bytes=where.size_bytes)
        return self._views.arena(where)
