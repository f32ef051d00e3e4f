"""hypercorn's HTTP/1.1 protocol with four mends: a real limit on heads, errors in JSON, and no end without a word.

1. h11 bounds a head that has not ended, so one that ends within the read that passes the bound came through at twice
   its size. Here every head over MAX_HEADER_BYTES (request line, headers, blank line; as sent) is a 431.
2. What is no HTTP gets an OpenAI error object; hypercorn's own answer has no body.
3. A reply after which the connection will be closed says so: during a shutdown, and where the reply overtakes its
   request (a 413 before the body has come).
4. hypercorn ends a connection after 1,000 requests, and drops what was pipelined behind the last. Here none is counted.

Knows nothing of sockets. A head that is wrong in HTTP/2 gets that protocol's own error, which has no body.
"""

import sys
from dataclasses import replace

import h11
from hypercorn.config import Config
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.events import Response
from hypercorn.protocol.h11 import H11Protocol

from strata.core.errors import RequestError
from strata.server.schemas_reply import encode_json, render_error

MAX_HEADER_BYTES = 64 * 1024

_ERRORS = {
    431: ("headers_too_large", f"the request line and headers are longer than {MAX_HEADER_BYTES} B; send shorter ones"),
    501: ("unsupported_encoding", "this transfer-encoding is not supported; send the body chunked or with its length"),
}
_MALFORMED = ("malformed_http", "the request is not valid HTTP/1.1; this port speaks plain HTTP, not TLS")


def bound_protocol(config: Config) -> None:
    """The settings of hypercorn that this file's promises rest on."""
    config.h11_max_incomplete_size = config.h2_max_header_list_size = MAX_HEADER_BYTES
    config.keep_alive_max_requests = sys.maxsize


class Protocols(ProtocolWrapper):
    """Starts with HTTP/1.1 as it is here; turns to HTTP/2 as hypercorn does."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]  # hypercorn's arguments, in its order
        self.protocol = Http1(*given)


class BoundedHeads(h11.Connection):
    """Raises RemoteProtocolError (431) for a head that is too long, whether it has ended or not."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        had_bytes = len(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request) and had_bytes - len(self.trailing_data[0]) > MAX_HEADER_BYTES:
            raise h11.RemoteProtocolError("head too long", error_status_hint=431)
        return event


class Http1(H11Protocol):
    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.connection = BoundedHeads(h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size)

    async def stream_send(self, event: StreamEvent) -> None:
        if isinstance(event, Response) and event.status_code >= 200 and self._is_last_reply():
            event = replace(event, headers=[*event.headers, (b"connection", b"close")])
        await super().stream_send(event)

    def _is_last_reply(self) -> bool:
        return self.context.terminated.is_set() or self.connection.their_state is h11.SEND_BODY

    async def _send_error_response(self, status_code: int) -> None:
        code, message = _ERRORS.get(status_code, _MALFORMED)
        body = encode_json(render_error(RequestError(message, status=status_code, code=code)))
        headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        for event in (
            h11.Response(status_code=status_code, headers=list(headers.items())),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            await self._send_h11_event(event)
