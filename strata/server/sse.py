"""The body of a streamed reply: server-sent events, comments while nothing else is sent, one error at most.

    [comment]* [role] text* [comment]* finish [usage] [DONE]      a reply that ended
    [comment]* [role] text* [comment]* error                      one that broke; the connection is closed after it

An object with `__anext__` rather than a generator: nothing is suspended inside a scope, and leaving runs `__aexit__`.
"""

from collections import deque
from collections.abc import Callable
from types import TracebackType

import trio
from quart.wrappers.response import ResponseBody

from strata.engine.updates import Broken, Finished, Text, Update
from strata.server.feed import UpdateFeed
from strata.server.schemas_reply import COMMENT, DONE, Frames, encode_event, error_of, render_error

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would collect the events otherwise
}


class EventStream(ResponseBody):
    """`on_first_text` is called once, `on_broken` before the error event goes out."""

    def __init__(
        self,
        feed: UpdateFeed,
        frames: Frames,
        *,
        comment_gap_s: float,
        on_first_text: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._feed, self._frames, self._comment_gap_s = feed, frames, comment_gap_s
        self._on_first_text, self._on_broken = on_first_text, on_broken
        self._pending: deque[bytes] = deque()
        self._is_open = self._is_over = False

    async def __aenter__(self) -> "EventStream":
        await self._feed.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self._feed.__aexit__(exc_type, exc_value, tb)

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> bytes:
        deadline = trio.current_time() + self._comment_gap_s
        while not self._pending:
            if self._is_over:
                raise StopAsyncIteration
            update = await self._feed.receive(deadline=deadline)
            if update is None:
                return COMMENT
            self._pending.extend(self._render(update))
        return self._pending.popleft()

    def _render(self, update: Update) -> list[bytes]:
        if isinstance(update, Text):
            if not self._is_open:
                self._on_first_text()
            return [*self._open(), encode_event(self._frames.piece(update.text))]
        if isinstance(update, Finished):
            self._is_over = True
            return [*self._open(), *map(encode_event, self._frames.closing(update)), DONE]
        if isinstance(update, Broken):
            self._is_over = True
            self._on_broken()
            return [encode_event(render_error(error_of(update)))]
        return []

    def _open(self) -> list[bytes]:
        chunks = [] if self._is_open else self._frames.opening()
        self._is_open = True
        return [encode_event(chunk) for chunk in chunks]
