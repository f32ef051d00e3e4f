"""One accepted request between steward and client. The engine only ever sends without waiting."""

from collections.abc import AsyncIterator

import trio

from strata.core.serving.request import GenerationRequest
from strata.engine.updates import Broken, Finished, Progress, Text, Update


class RequestTicket:
    """The channel holds every update that the reply can have, so a slow reader never holds the engine: at most one text
    a token, the held-back rest, and the end."""

    def __init__(self, request: GenerationRequest) -> None:
        self.request = request
        self.is_cancelled = False
        self._send, self._receive = trio.open_memory_channel[Update](request.max_tokens + 3)

    async def updates(self) -> AsyncIterator[Update]:
        """Ends after Finished or Broken, or without either once the request is dropped. For one reader."""
        with self._receive:
            async for update in self._receive:
                yield update

    def cancel(self) -> None:
        self.is_cancelled = True

    def text(self, text: str) -> None:
        if text:
            self._put(Text(text))

    def progress(self, progress: Progress) -> None:
        """Sent only when the reader is waiting for news: progress may be lost, text may not."""
        if self._receive_is_idle():
            self._put(progress)

    def close(self, last: Finished | Broken | None) -> None:
        """The request is over; `last` is None when nobody listens any more."""
        if last is not None:
            self._put(last)
        self._send.close()

    def _receive_is_idle(self) -> bool:
        return self._send.statistics().current_buffer_used == 0

    def _put(self, update: Update) -> None:
        try:
            self._send.send_nowait(update)
        except trio.BrokenResourceError:  # the reader is gone: the same as cancelling
            self.is_cancelled = True
