"""The simulated connection keeps what TCP keeps, and fails as TCP fails: the same claims over it and real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from sim.world.server.network import Network, Wire
from sim.world.server.virtual_time import run_in_virtual_time
from strata.server.peer import Peer
from strata.server.sockets import SocketListener, SocketPeer, open_listening_socket
from tests.server.site import LIMITS

GONE = (trio.BrokenResourceError, trio.ClosedResourceError)
Ends = tuple[Peer, Peer]


@asynccontextmanager
async def simulated(**more: object) -> AsyncIterator[Ends]:
    network = Network()
    near = await network.connect(**{"capacity_bytes": 65536, "is_reset_lossy": True} | more)  # type: ignore[arg-type]
    yield near, await network.accept()


@asynccontextmanager
async def real() -> AsyncIterator[Ends]:
    async with SocketListener(open_listening_socket(replace(LIMITS, port=0))) as listener:
        stream = await trio.open_tcp_stream(listener.address.host, listener.address.port)
        far = await listener.accept()
        near = SocketPeer(stream)
        yield near, far
        near.close()
        far.close()


@pytest.fixture(params=[simulated, real])
async def ends(request):
    with trio.fail_after(20):
        async with request.param() as ends:
            yield ends


async def read_all(end: Peer) -> bytes:
    received = b""
    while part := await end.receive_some(4096):
        received += part
    return received


async def test_bytes_arrive_in_both_directions_and_the_end_behind_them(ends):
    near, far = ends
    await near.send_all(b"ask")
    await near.send_eof()
    assert await read_all(far) == b"ask"
    await far.send_all(b"answer")
    far.close()
    assert await read_all(near) == b"answer"


async def test_both_ends_name_each_other(ends):
    near, far = ends
    assert near.addresses() == far.addresses()[::-1]


async def test_a_sender_whose_peer_takes_nothing_blocks_and_a_reset_wakes_it(ends):
    near, far = ends

    async def send_too_much() -> None:
        with pytest.raises(GONE):
            await near.send_all(b"x" * 50_000_000)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_too_much)
        await trio.testing.wait_all_tasks_blocked(0.05)
        near.reset()
    with pytest.raises(trio.BrokenResourceError):
        await read_all(far)


async def test_two_senders_on_one_end_are_a_mistake(ends):
    near, _far = ends
    async with trio.open_nursery() as nursery:
        nursery.start_soon(near.send_all, b"x" * 50_000_000)
        await trio.testing.wait_all_tasks_blocked(0.05)
        with pytest.raises(trio.BusyResourceError):
            await near.send_all(b"y")
        with pytest.raises(trio.BusyResourceError):
            await near.send_eof()
        nursery.cancel_scope.cancel()


async def test_closing_wakes_whoever_reads_on_the_same_end(ends):
    near, far = ends

    async def read() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await near.receive_some(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked(0.05)
        near.close()
    assert await far.receive_some(1) == b""
    with pytest.raises(trio.ClosedResourceError):
        await near.send_all(b"z")


async def test_closing_with_unread_bytes_resets_the_connection(ends):
    near, far = ends
    await near.send_all(b"nobody reads this")
    await trio.testing.wait_all_tasks_blocked(0.05)
    far.close()
    with pytest.raises(trio.BrokenResourceError):
        await near.receive_some(1)


async def test_bytes_to_a_closed_end_come_back_as_a_reset(ends):
    near, far = ends
    far.close()
    assert await near.receive_some(1) == b""

    async def go_on() -> None:
        for _ in range(10):  # the first of them may be taken by the system
            await near.send_all(b"late")
            await trio.testing.wait_all_tasks_blocked(0.01)

    with pytest.raises(trio.BrokenResourceError):
        await go_on()


async def test_nothing_is_sent_behind_the_own_end(ends):
    near, _far = ends
    await near.send_eof()
    await near.send_eof()
    with pytest.raises(trio.ClosedResourceError):
        await near.send_all(b"z")


@pytest.mark.parametrize("is_reset_lossy", [True, False])
async def test_a_reset_takes_what_was_not_read_where_the_system_does_so(is_reset_lossy):
    async with simulated(is_reset_lossy=is_reset_lossy) as (near, far):
        await near.send_all(b"answer")
        near.reset()
        if not is_reset_lossy:
            assert await far.receive_some(100) == b"answer"
        with pytest.raises(trio.BrokenResourceError):
            await far.receive_some(100)
        with pytest.raises(OSError, match="not connected"):
            far.addresses()


async def test_a_listener_that_is_closed_resets_who_waits_and_refuses_who_comes():
    network = Network()
    early = await network.connect(capacity_bytes=1, is_reset_lossy=True)
    await network.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await early.receive_some(1)
    with pytest.raises(OSError, match="refused"):
        await network.connect(capacity_bytes=1, is_reset_lossy=True)


@pytest.mark.slow
@given(
    pieces=st.lists(st.binary(max_size=40), max_size=8),
    capacity_bytes=st.integers(1, 17),
    most_bytes=st.integers(1, 9),
)
def test_any_cut_of_any_bytes_arrives_whole(pieces, capacity_bytes, most_bytes):
    async def run() -> bytes:
        async with simulated(capacity_bytes=capacity_bytes) as (near, far), trio.open_nursery() as nursery:
            assert isinstance(near, Wire)

            async def send() -> None:
                for piece in pieces:
                    await near.send_all(piece)
                near.close()

            nursery.start_soon(send)
            received = b""
            while part := await far.receive_some(most_bytes):
                assert len(part) <= most_bytes
                received += part
            return received

    assert run_in_virtual_time(run, seed="cuts") == b"".join(pieces)
