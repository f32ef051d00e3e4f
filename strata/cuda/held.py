"""What has been taken and must be given back, in reverse order, whatever fails on the way."""

from collections.abc import Callable
from types import TracebackType

from strata.cuda.errors import CudaFailure


class Held:
    """`with Held() as held:` around taking several things: when that breaks off, what was taken is given back and
    the error goes on; when it succeeds, all is kept until `give_back`."""

    __slots__ = ("_releases",)

    def __init__(self) -> None:
        self._releases: list[tuple[Callable[..., object], tuple[object, ...]]] = []

    def add(self, release: Callable[..., object], *arguments: object) -> None:
        self._releases.append((release, arguments))

    def give_back(self) -> None:
        """Everything, last taken first; a second call finds nothing left. Raises the first CudaFailure, at the end:
        those after it are often its consequences."""
        first: CudaFailure | None = None
        while self._releases:
            release, arguments = self._releases.pop()
            try:
                release(*arguments)
            except CudaFailure as failure:
                first = first or failure
        if first is not None:
            raise first

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            return
        try:
            self.give_back()
        except CudaFailure as failure:
            error.add_note(f"and what was taken could not all be given back: {failure}")
