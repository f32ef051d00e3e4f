"""One connection: bytes between a peer and hypercorn's HTTP protocols, and every deadline the peer is held to.

    accepted --> idle <--> request and reply --> finishing (our end is closed, an unread request is dropped) --> closed
                  |               |
                  idle_s      write_deadline_s without one piece taken: aborted (the kernel's send buffer goes too)

hypercorn's own connection shields a send without a deadline, so a client that never reads holds a shutdown for ever,
and it closes a socket with unread data in it, which resets the connection and may take the reply (a 413 for instance)
away from the client before it reads it. Hence this class in its place: same protocols, other edges.

A half-close counts as leaving: a peer that shuts down its sending side ends its request, read or not, and the reply
stops. HTTP permits such a client, but its FIN is the same as that of one that is gone, and a reply to nobody would hold
the engine to its last token. hypercorn stops reading while a pipelined request waits for its turn, so whether the peer
is still there is seen by reading ahead, up to MAX_PIECE_BYTES.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable

import h11
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import TrioSingleTask, WorkerContext
from hypercorn.typing import ConnectionState

from strata.server.exchange import CLOSE_CONNECTION
from strata.server.http1 import Http1, Protocols
from strata.server.peer import Peer

log = logging.getLogger(__name__)

MAX_PIECE_BYTES = 64 * 1024
FINISHING_GAP_S = 1.0  # a finishing peer must send something, or close, this often
FINISHING_S = 15.0  # and be done by then

_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError, OSError)


class Signal:
    """hypercorn's event interface, with a `set` that does not await."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def set_nowait(self) -> None:
        self._event.set()

    async def set(self) -> None:
        self._event.set()

    async def clear(self) -> None:
        self._event = trio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def is_set(self) -> bool:
        return self._event.is_set()


class Turn(Signal):
    """What a pipelined request waits for in the protocol; `watch` runs meanwhile."""

    def __init__(self, watch: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._watch = watch

    async def wait(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            await super().wait()
            nursery.cancel_scope.cancel()


class Connection:
    """Serves `peer` until either side closes it. `retire` and `abort` may be called from any task."""

    def __init__(self, app: ASGIWrapper, config: Config, peer: Peer, *, write_deadline_s: float) -> None:
        self._app, self._config, self._peer = app, config, peer
        self._write_deadline_s = write_deadline_s
        # One per connection: once `terminated` is set, hypercorn closes the connection after the current reply.
        self._context = WorkerContext(None)
        self._context.terminated = self._retirement = Signal()
        self._sending = trio.Lock()
        self._reading = trio.CancelScope()
        self._ahead = b""  # read while a pipelined request waited, and not handled yet
        self._idle = TrioSingleTask()
        self._finishing_until: float | None = None

    async def run(self) -> None:
        try:
            async with TaskGroup() as tasks:
                self._tasks = tasks
                self._protocol = self._make_protocol(tasks)
                await self._protocol.initiate()
                await self._idle.restart(tasks, self._close_when_idle)
                await self._read()
                self.retire()  # the idle timer would keep the place of a peer that is gone
        except* OSError:
            pass  # the peer left before it said a word
        except* Exception:  # a peer's bytes that the protocol code trips over cost this connection, never the server
            log.exception("a connection failed")
        finally:
            self._peer.close()

    def retire(self) -> None:
        """Close after the current reply; at once when there is none."""
        self._retirement.set_nowait()

    def abort(self) -> None:
        """Close now and drop what the peer has not taken. Wakes a blocked send. Never blocks."""
        self._peer.reset()

    def _make_protocol(self, tasks: TaskGroup) -> Protocols:
        peer, own = self._peer.addresses()
        state = ConnectionState({CLOSE_CONNECTION: self.retire})
        protocols = Protocols(self._app, self._config, self._context, tasks, state, False, peer, own, self._on_event)
        assert isinstance(protocols.protocol, Http1)
        protocols.protocol.can_read = Turn(self._watch)
        return protocols

    async def _on_event(self, event: Event) -> None:
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Closed):
            await self._finish()
        elif isinstance(event, Updated):
            await (self._idle.restart(self._tasks, self._close_when_idle) if event.idle else self._idle.stop())

    async def _write(self, data: bytes) -> None:
        async with self._sending:
            try:
                for start in range(0, len(data), MAX_PIECE_BYTES):
                    await self._write_piece(data[start : start + MAX_PIECE_BYTES])
            except _GONE:
                await self._protocol.handle(Closed())

    async def _write_piece(self, piece: bytes) -> None:
        # Half a piece would garble all that follows, so only the deadline may cut it, and then the connection is over.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + self._write_deadline_s) as scope:
            await self._peer.send_all(piece)
        if scope.cancelled_caught:
            self.abort()
            raise trio.BrokenResourceError(f"peer did not take {len(piece)} B in {self._write_deadline_s} s")

    async def _read(self) -> None:
        with self._reading:
            while True:
                data, self._ahead = self._ahead, b""
                try:
                    data = data or await self._peer.receive_some(MAX_PIECE_BYTES)
                except _GONE:
                    break
                if self._finishing_until is None:
                    await self._protocol.handle(RawData(data))
                else:
                    self._reading.deadline = min(trio.current_time() + FINISHING_GAP_S, self._finishing_until)
                if not data:
                    break
        await self._protocol.handle(Closed())

    async def _watch(self) -> None:
        """See whether the peer leaves, though nothing that it sends can be handled now."""
        try:
            while len(self._ahead) < MAX_PIECE_BYTES:
                data = await self._peer.receive_some(MAX_PIECE_BYTES - len(self._ahead))
                if not data:
                    break
                self._ahead += data
            else:
                return
        except _GONE:
            pass
        await self._protocol.handle(Closed())  # ends the running request; the waiting one goes with its reader
        self._reading.cancel()

    async def _finish(self) -> None:
        """Our side is done. What a peer in the middle of its request still sends is read and dropped for a while:
        closing a socket with unread bytes resets it, and the peer would lose our reply."""
        if self._finishing_until is None:
            self._finishing_until = trio.current_time() + FINISHING_S
            with contextlib.suppress(*_GONE):
                await self._peer.send_eof()
            # Ends a reader too that waits in the protocol for its turn with a pipelined request.
            gap_s = FINISHING_GAP_S if self._is_peer_sending() else 0.0
            self._reading.deadline = trio.current_time() + gap_s
        await self._protocol.handle(Closed())

    def _is_peer_sending(self) -> bool:
        """Also after bytes that were no HTTP: how many more of them come is unknown."""
        protocol = self._protocol.protocol
        return isinstance(protocol, H11Protocol) and protocol.connection.their_state in (h11.SEND_BODY, h11.ERROR)

    async def _close_when_idle(self) -> None:
        with trio.move_on_after(self._config.keep_alive_timeout):
            await self._context.terminated.wait()
        await self._finish()
