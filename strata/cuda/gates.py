"""Streams that go on when the host says so: a pinned word each that its stream waits for, and one that it writes back.

    stream   | wait go >= 1 | work | write done = 1 | wait go >= 2 | work | write done = 2 |
    host     go = 1, until done = 1, then perhaps another stream's go

The card knows nothing of such an order (`cuStreamWaitValue32`), and can be made to wait for ever: whoever holds streams
keeps the host from calls that wait for all of them. Bytes are made wrong on a stream of its own, and waited for.
"""

import time
from typing import Any

from strata.core.commands import Stream
from strata.core.errors import DeviceError
from strata.core.extent import Extent
from strata.cuda.arena import Arena
from strata.cuda.driver import Driver
from strata.cuda.held import Held
from strata.cuda.pinned import HostMemory
from strata.cuda.streams import Streams

PATIENCE_S = 20.0
"""What one command of a replay may take: they move a few KiB."""

LOOKS = 64
"""At a word, before the driver is asked whether something failed."""

LINE_BYTES = 64
GO, DONE = 0, 32
OPEN = 0x7FFF_FFFF
"""Beyond every turn; the card compares by the sign of a difference of 32 bits."""


class Gates:
    """Takes a page of pinned memory and a stream until `close`. Raises CudaFailure."""

    def __init__(self, driver: Driver, arena: Arena, streams: Streams, *, patience_s: float = PATIENCE_S) -> None:
        self._driver, self._arena, self._streams, self._patience_s = driver, arena, streams, patience_s
        self._rows = {stream: row for row, stream in enumerate(Stream)}
        self._num_held = dict.fromkeys(Stream, 0)
        self._num_gone = dict.fromkeys(Stream, 0)
        api = driver.api
        self._is_at_least = int(api.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ)
        self._plainly = int(api.CUstreamWriteValue_flags.CU_STREAM_WRITE_VALUE_DEFAULT)
        with Held() as self._held:
            self._words = HostMemory(driver, "gates", LINE_BYTES * len(self._rows), num_threads=1)
            self._held.add(self._words.close)
            if self._words.pageable_bytes:
                raise DeviceError(f"a card that is told when to go on needs pinned memory: {self._words.refusal}")
            self._own: Any = driver.call("cuStreamCreate", api.CUstream_flags.CU_STREAM_NON_BLOCKING)
            self._held.add(driver.call, "cuStreamDestroy", self._own)
        self._view = self._words.view(offset_bytes=0, size_bytes=self._words.size_bytes).cast("I")

    def hold(self, stream: Stream) -> None:
        self._num_held[stream] += 1
        address, turn = self._words.device_address + self._at(stream, GO), self._num_held[stream]
        self._driver.call("cuStreamWaitValue32", self._streams[stream], address, turn, self._is_at_least)

    def mark(self, stream: Stream) -> None:
        address, turn = self._words.device_address + self._at(stream, DONE), self._num_held[stream]
        self._driver.call("cuStreamWriteValue32", self._streams[stream], address, turn, self._plainly)

    def go(self, stream: Stream) -> None:
        self._num_gone[stream] += 1
        turn, done = self._num_gone[stream], self._at(stream, DONE) // 4
        self._view[self._at(stream, GO) // 4] = turn
        deadline_s = time.monotonic() + self._patience_s
        while not any(self._view[done] >= turn for _ in range(LOOKS)):
            self._driver.is_done("cuStreamQuery", self._streams[stream])  # raises what failed in it
            if time.monotonic() > deadline_s:
                raise DeviceError(f"stream={stream} was let go on and did not get through turn={turn}")

    def open(self) -> None:
        """Nothing waits any more, whatever is submitted."""
        for stream in self._rows:
            self._view[self._at(stream, GO) // 4] = OPEN

    def poison(self, extent: Extent, value: int) -> None:
        """`value`, one byte, wherever a segment lies under `extent`, at once: no stream is asked."""
        segment_bytes = self._arena.segment_bytes
        start = extent.offset_bytes
        while start < extent.end_bytes:
            end = min(extent.end_bytes, (start // segment_bytes + 1) * segment_bytes)
            if self._arena.backing(Extent(start, end - start)) != (None,):
                self._driver.call("cuMemsetD8Async", self._arena.address + start, value, end - start, self._own)
            start = end
        deadline_s = time.monotonic() + self._patience_s
        while not self._driver.is_done("cuStreamQuery", self._own):
            if time.monotonic() > deadline_s:
                raise DeviceError(f"{extent} was not overwritten in {self._patience_s:g} s")

    def close(self) -> None:
        self._view.release()
        self._held.give_back()

    def _at(self, stream: Stream, word: int) -> int:
        return self._rows[stream] * LINE_BYTES + word
