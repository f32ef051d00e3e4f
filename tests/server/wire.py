"""A client that shows the wire: one TCP connection, requests as bytes, the reply piece by piece."""

import json
from collections.abc import AsyncIterator
from typing import Any

import h11
import trio

from strata.server.peer import Peer

Json = dict[str, Any]


class Wire:
    """One connection. h11 reads the replies, so a reply that breaks HTTP fails the test."""

    def __init__(self, stream: trio.SocketStream | Peer) -> None:
        self.stream = stream
        self._http = h11.Connection(h11.CLIENT)
        self.headers: dict[str, str] = {}

    async def __aenter__(self) -> "Wire":
        return self

    async def __aexit__(self, *_: object) -> None:
        await trio.aclose_forcefully(self.stream)

    async def send(
        self, method: str, path: str, body: bytes | Json = b"", *, headers: dict[str, str] | None = None
    ) -> None:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"Host": "test", "Content-Length": str(len(payload)), **(headers or {})}
        event = h11.Request(method=method, target=path, headers=list(fields.items()))
        parts = [self._http.send(event), self._http.send(h11.Data(data=payload)), self._http.send(h11.EndOfMessage())]
        await self.stream.send_all(b"".join(part for part in parts if part))

    async def status(self) -> int:
        """Of the next reply, whose headers are kept."""
        event = await self._next()
        assert isinstance(event, h11.Response), event
        self.headers = {name.decode(): value.decode() for name, value in event.headers}
        return event.status_code

    async def pieces(self) -> AsyncIterator[bytes]:
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            assert isinstance(event, h11.Data), event
            yield bytes(event.data)

    async def body(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])

    async def piece(self) -> bytes:
        """The next bytes of the body."""
        event = await self._next()
        assert isinstance(event, h11.Data), event
        return bytes(event.data)

    async def reply(self) -> tuple[int, Json]:
        status = await self.status()
        value = json.loads(await self.body())
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return status, value

    async def reply_to_part(self) -> tuple[int, Json]:
        """The reply to a request that was written to `stream` by hand and never ends."""
        self._http.send(h11.Request(method="POST", target="/", headers=[("Host", "test"), ("Content-Length", "1")]))
        return await self.reply()

    async def ask(self, method: str, path: str, body: bytes | Json = b"", **more: Any) -> tuple[int, Json]:
        await self.send(method, path, body, **more)
        return await self.reply()

    async def is_closed(self) -> bool:
        """Waits for the peer's end of the connection; False if it says anything first."""
        return await self.stream.receive_some(1) == b""

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self.stream.receive_some(65536))
        return event


def events_of(body: bytes) -> list[Any]:
    """Of a whole stream: JSON values, "[DONE]", and ":" for a comment. Fails on anything that is not such an event."""
    events: list[Any] = []
    assert body == b"" or body.endswith(b"\n\n")
    for block in body.split(b"\n\n")[:-1]:
        assert b"\n" not in block, block
        if block.startswith(b":"):
            events.append(":")
        else:
            assert block.startswith(b"data: "), block
            data = block.removeprefix(b"data: ")
            events.append("[DONE]" if data == b"[DONE]" else json.loads(data))
    return events
