"""The four streams, events by name, and who has reported.

`Record` of a name that was recorded before uses the same driver event again: a wait holds on to what the event stood
for when the wait was issued, so waits that are out are not changed by it. `Notify` records an event of its own, from
a stock that is used again; `reached` asks for them and never waits.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from strata.core.commands import Stream
from strata.core.errors import DeviceError
from strata.cuda.driver import Driver
from strata.cuda.held import Held


@dataclass(frozen=True, slots=True)
class _Notice:
    stream: Stream
    tag: str
    event: Any


class Streams:
    """Holds streams and events until `close`."""

    __slots__ = ("_driver", "_events", "_held", "_notices", "_spare", "_streams")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._streams: dict[Stream, Any] = {}
        self._events: dict[str, Any] = {}
        self._spare: list[Any] = []
        self._notices: deque[_Notice] = deque()
        flags = driver.api.CUstream_flags.CU_STREAM_NON_BLOCKING
        with Held() as self._held:
            for stream in Stream:
                self._streams[stream] = driver.call("cuStreamCreate", flags)
                self._held.add(driver.call, "cuStreamDestroy", self._streams[stream])

    def __getitem__(self, stream: Stream) -> Any:
        """The driver's handle."""
        return self._streams[stream]

    def record(self, stream: Stream, name: str) -> None:
        event = self._events.get(name)
        if event is None:
            event = self._new_event()
        self._driver.call("cuEventRecord", event, self._streams[stream])
        self._events[name] = event

    def wait(self, stream: Stream, name: str) -> None:
        event = self._events.get(name)
        if event is None:
            raise DeviceError(f"wait refused: event={name!r} was never recorded, stream={stream} would not wait at all")
        self._driver.call("cuStreamWaitEvent", self._streams[stream], event, 0)

    def notify(self, stream: Stream, tag: str) -> None:
        event = self._spare.pop() if self._spare else self._new_event()
        try:
            self._driver.call("cuEventRecord", event, self._streams[stream])
        except DeviceError:
            self._spare.append(event)
            raise
        self._notices.append(_Notice(stream, tag, event))

    def reached(self) -> Iterator[str]:
        """Tags of the notices that are due, oldest first; each is given once. Behind one that is not due, its stream
        is not asked again. Raises CudaFailure for work that failed, after the tags that it did not reach."""
        running: set[Stream] = set()
        kept: deque[_Notice] = deque()
        try:
            while self._notices:
                notice = self._notices[0]
                is_due = notice.stream not in running and self._driver.is_done("cuEventQuery", notice.event)
                self._notices.popleft()
                if is_due:
                    self._spare.append(notice.event)
                    yield notice.tag
                else:
                    running.add(notice.stream)
                    kept.append(notice)
        finally:
            self._notices.extendleft(reversed(kept))

    def rest(self) -> None:
        """Until the oldest notice is due, if there is one. Other threads run meanwhile. Raises CudaFailure for work
        that failed."""
        if self._notices:
            self._driver.call("cuEventSynchronize", self._notices[0].event)

    def close(self) -> None:
        """What fails is raised after the rest is done. The work must be over."""
        self._held.give_back()

    def _new_event(self) -> Any:
        event = self._driver.call("cuEventCreate", self._driver.api.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self._held.add(self._driver.call, "cuEventDestroy", event)
        return event
