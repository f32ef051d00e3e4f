"""All connections of a server: how many there may be, and how they end together.

Beyond `max_connections`, a connection is answered with a 503 before it has asked anything, and closed. What its peer
sends meanwhile is read and dropped, or the close would reset the connection and take the answer away; that lasts at
most REFUSAL_S, for at most MAX_REFUSALS connections at once. Beyond these a connection is closed without a word. So
the server holds at most max_connections + MAX_REFUSALS + 1 sockets of peers.

Connections are shielded from cancellation: they end by `retire`, each after its reply, or by `end`.
"""

import contextlib

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config

from strata.core.errors import RequestError
from strata.server.connection import Connection
from strata.server.edge import Edge
from strata.server.peer import Peer
from strata.server.ports import ServerLimits
from strata.server.schemas_reply import RETRY_AFTER_S, encode_json, render_error

REFUSAL_S = 1.0
MAX_REFUSALS = 32

_DROPPED_BYTES = 64 * 1024


class Connections:
    """Those of one server. Only `serve` opens one."""

    def __init__(self, app: Edge, config: Config, limits: ServerLimits) -> None:
        self._app, self._config, self._limits = app, config, limits
        self._open: dict[Connection, trio.CancelScope] = {}
        self._num_refusals = 0
        self._has_none = trio.Event()

    async def serve(self, peer: Peer) -> None:
        """Until either side closes it. `peer` is closed in any case."""
        await trio.lowlevel.checkpoint_if_cancelled()  # the last moment before the shield
        if len(self._open) >= self._limits.max_connections:
            await self._refuse(peer)
            return
        wrapped = ASGIWrapper(self._app)
        connection = Connection(wrapped, self._config, peer, write_deadline_s=self._limits.write_deadline_s)
        if self._app.drain.is_draining:
            connection.retire()  # accepted in the moment of the shutdown
        try:
            with trio.CancelScope(shield=True) as scope:
                self._open[connection] = scope
                await connection.run()
        finally:
            del self._open[connection]
            if not self._open:
                self._has_none.set()

    def retire(self) -> None:
        """Each closes after its current reply; at once where there is none."""
        for connection in self._open:
            connection.retire()

    def end(self) -> None:
        """Close all now and drop what their peers have not taken."""
        for connection, scope in self._open.items():
            connection.abort()  # a send is shielded even from this scope; closing its socket frees it
            scope.cancel()

    async def wait_none(self) -> None:
        while self._open:
            self._has_none = trio.Event()
            await self._has_none.wait()

    async def _refuse(self, peer: Peer) -> None:
        self._app.metrics.count_refused_connection()
        if self._num_refusals >= MAX_REFUSALS:
            return
        self._num_refusals += 1
        try:
            with trio.move_on_after(REFUSAL_S), contextlib.suppress(trio.BrokenResourceError, OSError):
                await peer.send_all(_render_refusal(self._limits.max_connections))
                await peer.send_eof()
                while await peer.receive_some(_DROPPED_BYTES):
                    pass
        finally:
            self._num_refusals -= 1


def _render_refusal(max_connections: int) -> bytes:
    message = f"the server has max_connections={max_connections} open; come again later or keep fewer open"
    body = encode_json(render_error(RequestError(message, status=503, code="too_many_connections")))
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nretry-after: {RETRY_AFTER_S}\r\nconnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
