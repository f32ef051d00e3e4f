"""The updates of one ticket, as something that may be waited for with a deadline.

An engine's iterator may be an async generator, and a cancelled `__anext__` finishes one for good. So a task of its own
pulls it into a channel, whose `receive` can be cancelled and called again. The task lives in a nursery that this object
opens and closes; whoever uses it does so with `async with`, never around a `yield`.

Decides what a client is told when no final update comes: the grace is over, or the engine failed us.
"""

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from types import TracebackType

import trio

from strata.engine.ports import Ticket
from strata.engine.updates import Broken, Finished, Update
from strata.server.drain import Drain

log = logging.getLogger(__name__)

SHUTTING_DOWN = Broken("the server is shutting down and this reply did not end within its grace", code="shutting_down")
CLOSE_DEADLINE_S = 1.0
LOST = Broken("the engine dropped this request without a result")


class UpdateFeed:
    """Use once. `ticket.cancel` is not called here: see `exchange.py`, which outlives every way a request can end."""

    def __init__(self, ticket: Ticket, drain: Drain) -> None:
        self._ticket, self._drain = ticket, drain
        self._send, self._receive = trio.open_memory_channel[Update](0)
        self._pumping = trio.CancelScope()
        self.has_ended = False  # the engine is done with the ticket
        self._tasks = AsyncExitStack()
        self._nursery: trio.Nursery | None = None

    async def __aenter__(self) -> "UpdateFeed":
        self._nursery = await self._tasks.enter_async_context(trio.open_nursery())
        self._nursery.start_soon(self._pump)
        self._nursery.start_soon(self._end_with_grace)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
        return await self._tasks.__aexit__(kind, error, trace)

    async def receive(self, *, deadline: float = math.inf) -> Update | None:
        """The next update, or None once trio's clock reads `deadline`. After the last one: Broken, again and again."""
        with trio.move_on_at(deadline):
            try:
                return await self._receive.receive()
            except trio.EndOfChannel:
                return SHUTTING_DOWN if self._drain.grace_over.is_set() else LOST
        return None

    async def receive_final(self) -> tuple[str, Finished | Broken]:
        """The whole text and how it ended."""
        texts: list[str] = []
        while True:
            update = await self.receive()
            if isinstance(update, Finished | Broken):
                return "".join(texts), update
            texts.append(getattr(update, "text", ""))

    async def _pump(self) -> None:
        updates = self._ticket.updates()
        with self._send, self._pumping:
            try:
                async for update in updates:
                    self.has_ended = isinstance(update, Finished | Broken)
                    await self._send.send(update)
            except Exception:  # the request's edge: an engine's mistake costs this request, never the server
                log.exception("the engine's updates failed")
            finally:
                await _close(updates)

    async def _end_with_grace(self) -> None:
        await self._drain.grace_over.wait()
        self._pumping.cancel()


async def _close(updates: AsyncIterator[Update]) -> None:
    """A generator left at its yield is closed here, not by the garbage collector."""
    if isinstance(updates, AsyncGenerator):
        with trio.move_on_after(CLOSE_DEADLINE_S, shield=True):
            await updates.aclose()
