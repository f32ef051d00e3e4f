"""Serving and its end: a listener, its connections, and the order in which they go.

    shutdown.set()
      | the listener is closed; idle connections are closed; new requests get 503
      | running replies go on                                       <= shutdown_grace_s
      | what still runs gets one error event and its connection is closed   <= CLOSING_S
      | what is left (a client that reads nothing) is aborted

So `serve` returns at most shutdown_grace_s + CLOSING_S after `shutdown`, whatever the clients do. When it is cancelled
(a second signal, or the engine died), the grace is over at once: no connection is accepted, running replies get their
error and the end of their connection, and what has not taken them within FAREWELL_S is aborted. Nobody is waited for
longer, so `serve` returns at most FAREWELL_S after its cancellation. Signals are the caller's. The engine runs in the
caller's nursery beside this, so that its death ends the server.
"""

import logging
from collections.abc import Callable
from functools import partial

import trio
from hypercorn.config import Config

from strata.server.connections import Connections
from strata.server.edge import Edge
from strata.server.http1 import bound_protocol
from strata.server.peer import Peer
from strata.server.ports import ServerLimits
from strata.server.sockets import BoundAddress, SocketListener, open_listening_socket

CLOSING_S = 2.0
FAREWELL_S = 0.2


async def serve(
    app: Edge,
    limits: ServerLimits,
    *,
    shutdown: trio.Event,
    on_bound: Callable[[BoundAddress], None] = lambda address: None,
    task_status: trio.TaskStatus[BoundAddress] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` until `shutdown` is set and its replies have ended or run out of grace.

    Raises ConfigError when the address cannot be had. `on_bound` and `task_status` get the address once clients can
    connect."""
    listener = SocketListener(open_listening_socket(limits))

    def tell() -> None:
        on_bound(listener.address)
        task_status.started(listener.address)

    await serve_listener(app, limits, listener, shutdown=shutdown, on_ready=tell)


async def serve_listener(
    app: Edge,
    limits: ServerLimits,
    listener: trio.abc.Listener[Peer],
    *,
    shutdown: trio.Event,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """The same over any listener, which is closed in any case. `on_ready` is called once clients can connect."""
    connections = Connections(app, _make_config(limits), limits)
    async with trio.open_nursery() as running:
        running.start_soon(_end_when_cancelled, app, connections)
        async with trio.open_nursery() as accepting:
            accept = partial(trio.serve_listeners, connections.serve, [listener], handler_nursery=running)
            accepting.start_soon(accept)
            on_ready()
            await shutdown.wait()
            app.drain.is_draining = True
            accepting.cancel_scope.cancel()
        connections.retire()
        running.start_soon(_end_grace, app, limits, connections)
        await connections.wait_none()
        running.cancel_scope.cancel()


def _make_config(limits: ServerLimits) -> Config:
    """hypercorn's settings. No lifespan protocol is spoken, so its start-up and shutdown timeouts have no part here."""
    config = Config()
    config.errorlog = logging.getLogger("strata.server.http")
    config.include_date_header = config.include_server_header = False
    config.keep_alive_timeout = limits.idle_connection_s
    bound_protocol(config)
    return config


async def _end_when_cancelled(app: Edge, connections: Connections) -> None:
    """Connections are shielded: whatever cancels the server, they end here."""
    try:
        await trio.sleep_forever()
    finally:
        app.drain.is_draining = True
        app.drain.grace_over.set()
        connections.retire()
        with trio.move_on_after(FAREWELL_S, shield=True):
            await connections.wait_none()
        connections.end()


async def _end_grace(app: Edge, limits: ServerLimits, connections: Connections) -> None:
    await trio.sleep(limits.shutdown_grace_s)
    app.drain.grace_over.set()
    await trio.sleep(CLOSING_S)
    connections.end()
