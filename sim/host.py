"""Host memory as facts about bytes: the pack, immutable once sealed, and the staging buffers.

Staging counts as undefined until the host asked for it (`SimDevice.host`) or a command wrote it. What the pack
holds may be told by a manifest made from the model file: then a copy that takes the wrong blob is caught by name,
although the core's own tables agree with it.
"""

from collections.abc import Sequence

from sim.errors import ContentMismatch, OutOfBounds, PackError, UndefinedRead
from sim.interval import IntervalMap
from sim.streams import Operation
from strata.core.extent import HostExtent, HostSpace


class HostShadow:
    def __init__(self, *, pack_bytes: int, staging_bytes: int, manifest: Sequence[tuple[HostExtent, str]]) -> None:
        self._sizes = {HostSpace.PACK: pack_bytes, HostSpace.STAGING: staging_bytes}
        self._names: IntervalMap[str | None] = IntervalMap(pack_bytes, None)
        for extent, name in manifest:
            assert extent.space is HostSpace.PACK, extent
            self._names.assign(extent.offset_bytes, extent.end_bytes, name)
        self._is_defined = IntervalMap(staging_bytes, False)
        self.is_sealed = False

    def check_bounds(self, extent: HostExtent, by: Operation) -> None:
        if extent.end_bytes > self._sizes[extent.space]:
            raise OutOfBounds(
                f"{by} refused: {describe(extent)} ends beyond its {self._sizes[extent.space]:,} B", by.command
            )

    def check_read(self, extent: HostExtent, by: Operation) -> None:
        self.check_bounds(extent, by)
        if extent.space is HostSpace.PACK:
            self.check_pack_complete(by)
        elif not all(self._is_defined.values(extent.offset_bytes, extent.end_bytes)):
            raise UndefinedRead(f"{by} refused: reads {describe(extent)}, where nobody has written yet", by.command)

    def check_pack_complete(self, by: Operation) -> None:
        if not self.is_sealed:
            raise PackError(f"{by} refused: reads the pack before seal(); the host may still write it", by.command)

    def check_write(self, extent: HostExtent, by: Operation) -> None:
        self.check_bounds(extent, by)
        if extent.space is HostSpace.PACK:
            raise PackError(f"{by} refused: writes {describe(extent)}; no command may change the master", by.command)

    def check_name(self, extent: HostExtent, content: str | None, by: Operation) -> None:
        """A copy out of the pack leaves `content` on the card: is that what the manifest says lies here?"""
        if extent.space is not HostSpace.PACK or content is None:
            return
        for start, end, name in self._names.runs(extent.offset_bytes, extent.end_bytes):
            if name is not None and name != content:
                raise ContentMismatch(
                    f"{by} refused: says content={content!r}, but pack [{start}, {end}) is {name!r}", by.command
                )

    def find_start(self, extent: HostExtent) -> int | None:
        """Where what lies in a piece of the pack begins as a whole, by the manifest; None where that has no name."""
        if extent.space is not HostSpace.PACK:
            return None
        return next((at for at, name in self._names.whole_runs(extent.offset_bytes, extent.end_bytes) if name), None)

    def define(self, extent: HostExtent, *, is_defined: bool = True) -> None:
        self._is_defined.assign(extent.offset_bytes, extent.end_bytes, is_defined)


def describe(extent: HostExtent) -> str:
    return f"{extent.space} [{extent.offset_bytes}, {extent.end_bytes})"
