"""What a connection needs of the bytes between it and its peer.

`sockets.py` gives it over TCP. A simulated network gives it too, so nothing above this file may ask for a socket.
"""

from abc import abstractmethod

import trio

Address = tuple[str, int]


class Peer(trio.abc.AsyncResource):
    """Bytes to and from one client, in order. Every call fails as a trio stream does: BrokenResourceError when the
    peer is gone, ClosedResourceError after `close` or `reset`, BusyResourceError when two tasks send at once."""

    @abstractmethod
    async def send_all(self, data: bytes) -> None:
        """Blocks while the peer takes nothing. When cancelled, any part of `data` may have gone out."""

    @abstractmethod
    async def receive_some(self, max_bytes: int) -> bytes:
        """At least one byte, or b"" once the peer has ended its side."""

    @abstractmethod
    async def send_eof(self) -> None:
        """End our side; what the peer still sends can be read."""

    @abstractmethod
    def addresses(self) -> tuple[Address, Address]:
        """The peer's and ours. Raises OSError when the peer is gone already."""

    @abstractmethod
    def close(self) -> None:
        """End both sides and wake whoever waits here. Bytes that the peer sent and nobody read turn this into `reset`;
        bytes of ours that are on their way still arrive otherwise."""

    @abstractmethod
    def reset(self) -> None:
        """End both sides at once, and drop what the peer has not taken. Never blocks."""
