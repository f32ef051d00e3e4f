"""The HTTP client of a simulated connection: bytes out, a reply in, everything noted in the journal.

h11 reads the replies, so one that breaks HTTP is a fault of the server. Nothing is judged here beyond that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import h11
import trio

from sim.world.checks import WorldFault
from sim.world.server.journal import Journal
from sim.world.server.network import Wire


class End(StrEnum):
    """How a reply ended, as its client saw it."""

    WHOLE = "whole"
    CLOSED = "closed"  # the server closed in the middle, or before the first byte
    RESET = "reset"


@dataclass(slots=True)
class Seen:
    """A reply, as far as it came. `status` 0: not one byte of it."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    num_pieces: int = 0
    end: End = End.CLOSED


@dataclass(frozen=True, slots=True)
class Pace:
    """How a client reads: at most `piece_bytes` at a time with a rest of `rest_s` before each, until it has
    `most_pieces` of the body."""

    piece_bytes: int = 65536
    rest_s: float = 0.0
    most_pieces: int | None = None


AT_ONCE = Pace()
CHUNK_BYTES = 100


class Caller:
    """One connection, for one request after another."""

    def __init__(self, wire: Wire, name: str, journal: Journal) -> None:
        self.wire, self._name, self._journal = wire, name, journal
        self._http = h11.Connection(h11.CLIENT)

    def leave(self, *, is_reset: bool) -> None:
        self._journal.note(self._name, "reset" if is_reset else "close")
        if is_reset:
            self.wire.reset()
        else:
            self.wire.close()

    async def half_close(self) -> None:
        self._journal.note(self._name, "half-close")
        try:
            await self.wire.send_eof()
        except trio.BrokenResourceError:
            self._journal.note(self._name, "half-close met a reset")

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        is_chunked: bool = False,
        pace: Pace = AT_ONCE,
    ) -> None:
        """Send a whole request, in pieces of `pace`. For a body in chunks, `headers` say so too."""
        length = {} if is_chunked else {"Content-Length": str(len(body))}
        fields = {"Host": "world", **length, **(headers or {})}
        events: list[h11.Event] = [h11.Request(method=method, target=path, headers=list(fields.items()))]
        part_bytes = CHUNK_BYTES if is_chunked else max(1, len(body))
        events += [h11.Data(data=body[start : start + part_bytes]) for start in range(0, len(body), part_bytes)]
        events.append(h11.EndOfMessage())
        await self.send(b"".join(self._http.send(event) or b"" for event in events), pace=pace)

    def expect_reply_to(self, method: str) -> None:
        """To bytes that were sent by hand."""
        self._http.send(h11.Request(method=method, target="/", headers=[("Host", "world"), ("Content-Length", "0")]))
        self._http.send(h11.EndOfMessage())

    async def send(self, data: bytes, *, pace: Pace = AT_ONCE) -> bool:
        """Whether the server took all of it."""
        self._journal.note(self._name, "sends", data)
        try:
            for start in range(0, len(data), pace.piece_bytes):
                if pace.rest_s:
                    await trio.sleep(pace.rest_s)
                await self.wire.send_all(data[start : start + pace.piece_bytes])
        except trio.BrokenResourceError:
            self._journal.note(self._name, "could not send")
            return False
        return True

    async def reply(self, seen: Seen, *, pace: Pace = AT_ONCE) -> Seen:
        """Fills `seen` as the reply comes, so that it tells how far it came if this is cancelled."""
        try:
            await self._receive(seen, pace)
        except trio.BrokenResourceError:
            seen.end = End.RESET
        self._journal.note(self._name, f"saw {seen.status} {seen.end} pieces={seen.num_pieces}")
        return seen

    async def await_end(self) -> None:
        """Until the server closes the connection; raises WorldFault if it says anything before."""
        try:
            data = await self.wire.receive_some(1)
        except trio.BrokenResourceError:
            return
        if data:
            raise WorldFault(f"{self._name}: {data!r} comes behind the last reply")

    def next_cycle(self) -> bool:
        """Whether the connection may carry one more request."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False

    async def _receive(self, seen: Seen, pace: Pace) -> None:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                if self._http.trailing_data[1]:  # the end of the connection, in the middle of a reply
                    return
                raise WorldFault(f"{self._name}: the reply is no HTTP: {error}") from error
            if event is h11.NEED_DATA:
                await self._take_bytes(pace)
            elif isinstance(event, h11.Response):
                seen.status = event.status_code
                seen.headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                seen.body += bytes(event.data)
                seen.num_pieces += 1
                if seen.num_pieces == pace.most_pieces:
                    return
            elif isinstance(event, h11.EndOfMessage):
                seen.end = End.WHOLE
                return
            elif isinstance(event, h11.ConnectionClosed):
                return

    async def _take_bytes(self, pace: Pace) -> None:
        if pace.rest_s:
            await trio.sleep(pace.rest_s)
        data = await self.wire.receive_some(pace.piece_bytes)
        self._journal.note(self._name, "sees", data)
        self._http.receive_data(data)
