"""Connections without sockets: TCP's promises in virtual time, and its traps.

    client end                                server end (`strata.server.peer.Peer`)
       send_all --> [ at most capacity_bytes ] --> receive_some
       receive_some <-- [ at most capacity_bytes ] <-- send_all

A sender blocks while its receiver takes nothing. A socket that is closed with unread bytes in it, or gets bytes after
it was closed, answers with a reset; whether a reset takes away what its receiver has not read yet differs from system
to system, so each connection says (`is_reset_lossy`).
"""

import errno
from dataclasses import dataclass, field

import trio
from trio.lowlevel import ParkingLot

from strata.server.peer import Address, Peer

BACKLOG = 128
SERVER_ADDRESS: Address = ("192.0.2.1", 80)


@dataclass(slots=True)
class Flow:
    """One direction. `is_ended`: nothing follows `data`; `is_refused`: the receiving end is closed; `is_broken`: a
    reset was sent or received."""

    capacity_bytes: int
    data: bytearray = field(default_factory=bytearray)
    is_ended: bool = False
    is_refused: bool = False
    is_broken: bool = False
    changed: ParkingLot = field(default_factory=ParkingLot)


class Wire(Peer):
    """One end of a connection."""

    def __init__(self, outgoing: Flow, incoming: Flow, *, own: Address, peer: Address, is_reset_lossy: bool) -> None:
        self._outgoing, self._incoming = outgoing, incoming
        self._own, self._peer, self._is_reset_lossy = own, peer, is_reset_lossy
        self._is_sending = False
        self.is_closed = False

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self._check_sendable()
        self._is_sending = True
        try:
            sent = 0
            while sent < len(data):
                room = self._outgoing.capacity_bytes - len(self._outgoing.data)
                if self._outgoing.is_refused:  # the system takes the bytes; what comes back is a reset
                    self._break()
                    return
                if room > 0:
                    self._outgoing.data += data[sent : sent + room]
                    sent += room
                    self._outgoing.changed.unpark_all()
                else:
                    await self._outgoing.changed.park()
                    self._check_unbroken()
        finally:
            self._is_sending = False

    async def receive_some(self, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        flow = self._incoming
        while True:
            if self.is_closed:
                raise trio.ClosedResourceError("this end is closed")
            if flow.data:
                part = bytes(flow.data[:max_bytes])
                del flow.data[:max_bytes]
                flow.changed.unpark_all()
                return part
            if flow.is_broken:
                raise trio.BrokenResourceError("connection reset")
            if flow.is_ended:
                return b""
            await flow.changed.park()

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        if self._outgoing.is_ended:
            return
        self._check_sendable()
        self._outgoing.is_ended = True
        self._outgoing.changed.unpark_all()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def addresses(self) -> tuple[Address, Address]:
        if self._outgoing.is_broken:
            raise OSError(errno.ENOTCONN, "not connected")
        return self._peer, self._own

    def close(self) -> None:
        if self.is_closed:
            return
        if self._incoming.data:
            self.reset()
            return
        self.is_closed = self._outgoing.is_ended = self._incoming.is_refused = True
        self._wake()

    def reset(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._break()

    def _check_sendable(self) -> None:
        if self._is_sending:
            raise trio.BusyResourceError("another task sends on this end")
        self._check_unbroken()
        if self._outgoing.is_ended:
            raise trio.ClosedResourceError("this end has ended its side")

    def _check_unbroken(self) -> None:
        if self.is_closed:
            raise trio.ClosedResourceError("this end is closed")
        if self._outgoing.is_broken:
            raise trio.BrokenResourceError("connection reset")

    def _break(self) -> None:
        """A reset goes over the connection, in either direction."""
        for flow in (self._outgoing, self._incoming):
            flow.is_broken = True
            if self._is_reset_lossy:
                flow.data.clear()
        self._wake()

    def _wake(self) -> None:
        self._outgoing.changed.unpark_all()
        self._incoming.changed.unpark_all()


class Network(trio.abc.Listener[Peer]):
    """The server's listener, and the way for clients to reach it."""

    def __init__(self) -> None:
        self._backlog, self._arrived = trio.open_memory_channel[Wire](BACKLOG)
        self.num_connections = 0
        self.is_open = True

    async def accept(self) -> Peer:
        return await self._arrived.receive()

    async def aclose(self) -> None:
        """Connections that nobody accepted are reset, as the system does it."""
        self.is_open = False
        while self._arrived.statistics().current_buffer_used:
            self._arrived.receive_nowait().reset()
        self._backlog.close()
        await self._arrived.aclose()

    async def connect(self, *, capacity_bytes: int, is_reset_lossy: bool) -> Wire:
        """The client's end. Raises OSError when nobody listens."""
        await trio.lowlevel.checkpoint()
        if not self.is_open:
            raise OSError(errno.ECONNREFUSED, "connection refused")
        self.num_connections += 1
        client: Address = ("192.0.2.2", 1024 + self.num_connections)
        request, reply = Flow(capacity_bytes), Flow(capacity_bytes)
        near = Wire(request, reply, own=client, peer=SERVER_ADDRESS, is_reset_lossy=is_reset_lossy)
        far = Wire(reply, request, own=SERVER_ADDRESS, peer=client, is_reset_lossy=is_reset_lossy)
        try:
            self._backlog.send_nowait(far)
        except trio.WouldBlock:
            raise OSError(errno.ECONNREFUSED, "connection refused") from None
        return near
