"""One HTTP request and its reply, at the ASGI edge: mends of quart-trio, and what must happen however a request ends.

Two facts of the stack are decided here.
1. hypercorn starts a connection's idle timer inside the send of the last body message, and announces a disconnect from
   the same place; quart-trio answers that with cancelling the send. So a disconnect cancels only while the last message
   has not been handed over.
2. A handler can be cancelled anywhere, also between returning a streamed response and its first byte. What a request
   holds (its ticket) is given back by callbacks on a stack that this class closes; they are synchronous.
"""

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import cast

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, HTTPScope, WebsocketScope
from quart.wrappers import Request
from quart_trio.asgi import TrioASGIHTTPConnection

from strata.core.errors import RequestError
from strata.server.bodies import BodyShare
from strata.server.edge import Edge

CLEANUP = "strata.cleanup"
BODY_SHARE = "strata.body_share"
CLOSE_CONNECTION = "strata.close_connection"


class Exchange(TrioASGIHTTPConnection):
    app: Edge

    def __init__(self, app: Edge, scope: HTTPScope) -> None:
        super().__init__(app, scope)
        self._share = BodyShare(app.bodies)
        self._status = "disconnected"
        self._is_last_message_sent = False

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        async def observed(message: ASGISendEvent) -> None:
            self._observe(message)
            with trio.move_on_after(self._send_deadline_s()) as sending:
                await send(message)
            if sending.cancelled_caught:
                whole.cancel()

        started, whole = trio.current_time(), trio.CancelScope()
        try:
            with ExitStack() as cleanup, whole:
                cleanup.callback(self._share.release)
                cast(dict[str, object], self.scope).update({CLEANUP: cleanup, BODY_SHARE: self._share})
                await super().__call__(receive, observed)
        finally:
            self.app.metrics.count_request(self.scope["path"], self._status, seconds=trio.current_time() - started)

    def _send_deadline_s(self) -> float:
        """HTTP/2 holds a message back until the peer grants a window; HTTP/1 is held to its deadline by the socket."""
        return self.app.limits.write_deadline_s if self.scope["http_version"] == "2" else math.inf

    async def handle_messages(  # type: ignore[override]
        self, nursery: trio.Nursery, request: Request, receive: ASGIReceiveCallable
    ) -> None:
        while (message := await receive())["type"] == "http.request":
            part = message.get("body", b"")
            if self._share.take(len(part)):
                request.body.append(part)
            else:
                request.body.clear()
            if self._share.is_refused or not message.get("more_body", False):
                request.body.set_complete()
        if not self._is_last_message_sent:
            nursery.cancel_scope.cancel()

    def _observe(self, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start":
            self._status = str(message["status"])
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._is_last_message_sent = True


class RefusedWebsocket:
    """No route speaks websocket: a handshake gets a 403, whatever its path."""

    def __init__(self, app: Edge, scope: WebsocketScope) -> None:
        pass

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await receive()
        await send({"type": "websocket.close", "code": 1000, "reason": None})


async def receive_body(request: Request) -> bytes:
    """The whole body. It counts against the budget until `release_body`, or the end of the request.

    Raises RequestError 503 `overloaded` where the budget has no room for it; werkzeug's 413 and 408 for a body too long
    or too late."""
    body = await request.get_data(cache=False, as_text=False, parse_form_data=False)
    if _share_of(request).is_refused:
        message = "the server holds too many request bodies at this moment; send this again a little later"
        raise RequestError(message, status=503, code="overloaded")
    return body


def release_body(request: Request) -> None:
    """The body is parsed and forgotten."""
    _share_of(request).release()


def _share_of(request: Request) -> BodyShare:
    return cast(BodyShare, cast(dict[str, object], request.scope)[BODY_SHARE])


def at_end(request: Request, callback: Callable[[], None]) -> None:
    """Call `callback` once the request is over, whatever ends it; last registered first."""
    cast(ExitStack, cast(dict[str, object], request.scope)[CLEANUP]).callback(callback)


def close_connection_of(request: Request) -> Callable[[], None]:
    """A call after which the connection is closed with the end of this reply. Nothing where there is no connection."""
    state = cast(dict[str, object], request.scope.get("state") or {})
    return cast(Callable[[], None], state.get(CLOSE_CONNECTION, lambda: None))
