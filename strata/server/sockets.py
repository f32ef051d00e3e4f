"""TCP: the listening socket, and peers over accepted ones. Decides the options that connections inherit."""

import contextlib
import socket
import struct
from dataclasses import dataclass

import trio

from strata.core.errors import ConfigError
from strata.server.peer import Address, Peer
from strata.server.ports import ServerLimits

BACKLOG = 128


@dataclass(frozen=True, slots=True)
class BoundAddress:
    """Where the server listens; `port` is the real one where 0 was asked for."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


class SocketPeer(Peer):
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def receive_some(self, max_bytes: int) -> bytes:
        return bytes(await self._stream.receive_some(max_bytes))

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def addresses(self) -> tuple[Address, Address]:
        peer, own = self._stream.socket.getpeername(), self._stream.socket.getsockname()
        return peer[:2], own[:2]

    def close(self) -> None:
        self._stream.socket.close()

    def reset(self) -> None:
        with contextlib.suppress(OSError):  # it is closed already
            self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._stream.socket.close()


class SocketListener(trio.abc.Listener[Peer]):
    """Peers that connect to a bound, listening socket."""

    def __init__(self, listening: socket.socket) -> None:
        self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        self.address = BoundAddress(*self._listener.socket.getsockname()[:2])

    async def accept(self) -> Peer:
        return SocketPeer(await self._listener.accept())

    async def aclose(self) -> None:
        await self._listener.aclose()


def open_listening_socket(limits: ServerLimits) -> socket.socket:
    """A bound socket whose options its connections inherit. Raises ConfigError."""
    family = socket.AF_INET6 if ":" in limits.host else socket.AF_INET
    try:
        listening = socket.create_server((limits.host, limits.port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot listen on host={limits.host} port={limits.port}: {reason}; choose another --host or --port"
        raise ConfigError(message) from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # A peer whose machine vanished acknowledges nothing, neither data nor the probes of a silent connection. The names
    # are Linux's; elsewhere the write deadline of `connection.py` is alone.
    timeout_ms = max(1, int(limits.write_deadline_s * 1000))
    for name, value in (("TCP_USER_TIMEOUT", timeout_ms), ("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10)):
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return listening
