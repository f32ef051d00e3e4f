"""From the shutdown's word to the end of `serve`: what runs may end, what is new is refused, nothing hangs."""

import json
import socket

import pytest
import trio
import trio.testing

from sim.world.server.network import Network
from strata.server import serving as serving_module
from tests.server.scripted_engine import End, Hold, Say
from tests.server.site import chat, serving
from tests.server.wire import events_of

CHAT = "/v1/chat/completions"


async def test_an_idle_server_ends_at_once_with_connections_open():
    async with serving() as site, await site.connect() as fresh, await site.connect() as used:
        assert (await used.ask("GET", "/health"))[0] == 200
        site.shutdown.set()
        assert await fresh.is_closed() and await used.is_closed()
        await site.is_over.wait()


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_running_reply_ends_within_the_grace(is_stream):
    held = trio.Event()
    async with serving(lambda _: (Say("a"), Hold(held), Say("b"), End())) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat(stream=is_stream))
        await site.engine.wait_for(lambda now: now.predicted_tokens == 1)
        site.shutdown.set()
        while not site.app.drain.is_draining:
            await trio.lowlevel.checkpoint()
        held.set()
        assert await wire.status() == 200
        body = await wire.body()
        if is_stream:
            assert events_of(body)[-1] == "[DONE]"
        else:
            assert json.loads(body)["choices"][0]["message"]["content"] == "ab"
        await site.is_over.wait()
        assert site.engine.tickets[0].num_cancels == 0


async def test_a_stream_beyond_the_grace_gets_one_error_event(autojump_clock):
    script = (Say("a"), Hold(trio.Event()), End())
    limits = {"shutdown_grace_s": 15.0, "keep_alive_comment_s": 1000.0}
    async with serving(lambda _: script, network=Network(), **limits) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat(stream=True))
        await site.engine.wait_for(lambda now: now.predicted_tokens == 1)
        site.shutdown.set()
        assert await wire.status() == 200
        _role, text, error = events_of(await wire.body())
        assert text["choices"][0]["delta"] == {"content": "a"}
        assert error["error"]["code"] == "shutting_down"
        assert await wire.is_closed()
        assert trio.current_time() == 15.0
        await site.is_over.wait()
        assert site.engine.tickets[0].num_cancels == 1


async def test_a_cancelled_server_ends_its_streams_with_an_error_and_no_reset(monkeypatch):
    monkeypatch.setattr(serving_module, "FAREWELL_S", 1000.0)  # the clients take what they get, so it is not waited for
    script = (Say("a"), Hold(trio.Event()), End())
    async with serving(lambda _: script) as site, await site.connect() as wire, await site.connect() as idle:
        await wire.send("POST", CHAT, chat(stream=True))
        await site.engine.wait_for(lambda now: now.predicted_tokens == 1)
        site.running.cancel()
        assert await wire.status() == 200
        assert events_of(await wire.body())[-1]["error"]["code"] == "shutting_down"
        assert await wire.is_closed() and await idle.is_closed()
        await site.is_over.wait()
        assert site.engine.tickets[0].num_cancels == 1
        with pytest.raises(OSError, match=r"refused|all attempts"):
            await site.connect()


async def test_a_server_cancelled_in_its_grace_answers_what_runs(monkeypatch):
    monkeypatch.setattr(serving_module, "FAREWELL_S", 1000.0)  # the client takes what it gets
    script = (Hold(trio.Event()), End())
    async with serving(lambda _: script, shutdown_grace_s=1000.0) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat())
        await site.engine.wait_for(lambda now: now.num_running == 1)
        site.shutdown.set()
        while not site.app.drain.is_draining:
            await trio.lowlevel.checkpoint()
        site.running.cancel()
        status, value = await wire.reply()
        assert (status, value["error"]["code"]) == (503, "shutting_down")
        assert wire.headers["connection"] == "close"
        await site.is_over.wait()


async def test_a_cancelled_server_waits_for_no_body(monkeypatch):
    monkeypatch.setattr(serving_module, "FAREWELL_S", 0.05)
    async with serving(body_deadline_s=1000.0) as site, await site.connect() as wire:
        await wire.stream.send_all(f"POST {CHAT} HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\n1".encode())
        while not site.app.bodies.held_bytes:
            await trio.lowlevel.checkpoint()
        site.running.cancel()
        await site.is_over.wait()


async def test_a_whole_reply_beyond_the_grace_is_a_503(autojump_clock):
    script = (Hold(trio.Event()), End())
    async with serving(lambda _: script, network=Network()) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat())
        await site.engine.wait_for(lambda now: now.num_running == 1)
        site.shutdown.set()
        status, value = await wire.reply()
        assert (status, value["error"]["code"]) == (503, "shutting_down")
        assert wire.headers["connection"] == "close"
        await site.is_over.wait()


async def test_a_request_on_a_kept_connection_is_refused_while_draining():
    held = trio.Event()
    async with serving(lambda _: (Hold(held), End())) as site, await site.connect() as busy:
        await busy.send("POST", CHAT, chat())
        await site.engine.wait_for(lambda now: now.num_running == 1)
        async with await site.connect() as late:
            body = json.dumps(chat()).encode()
            head = f"POST {CHAT} HTTP/1.1\r\nHost: test\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            await late.stream.send_all(head + body[:5])
            async with await site.connect() as probe:
                assert (await probe.ask("GET", "/ready"))[0] == 200
                site.shutdown.set()
                assert await probe.is_closed()
            await late.stream.send_all(body[5:])
            reply = b""
            while part := await late.stream.receive_some(65536):
                reply += part
            assert (
                reply.startswith(b"HTTP/1.1 503") and b'"shutting_down"' in reply and b"retry-after: 5" in reply.lower()
            )
        with pytest.raises(OSError, match=r"refused|all attempts"):
            await site.connect()
        held.set()
        assert (await busy.reply())[0] == 200
        await site.is_over.wait()


@pytest.mark.slow
@pytest.mark.parametrize("ends_by", ["grace", "cancel"])
async def test_a_client_that_never_reads_does_not_hold_the_end(ends_by, monkeypatch):
    """Its socket buffers are full, so a send of ours is blocked when the shutdown comes."""
    monkeypatch.setattr(serving_module, "CLOSING_S", 0.2)
    script = (*(Say("x" * 60_000) for _ in range(400)), Hold(trio.Event()), End())
    async with serving(lambda _: script, shutdown_grace_s=0.1) as site:
        wire = await site.connect()
        await wire.send("POST", CHAT, chat(stream=True))
        await site.engine.wait_for(lambda now: now.predicted_tokens == 400)
        await trio.testing.wait_all_tasks_blocked(cushion=0.05)  # the buffers of both ends are full
        if ends_by == "grace":
            site.shutdown.set()
            await site.is_over.wait()
            assert site.engine.tickets[0].num_cancels == 1
    # Leaving `serving` cancels `serve`; its guard fails the test if that does not end it.
    await trio.aclose_forcefully(wire.stream)


@pytest.mark.slow
@pytest.mark.parametrize("has_kernel_timeout", [True, False])
async def test_a_client_that_never_reads_is_dropped_at_the_write_deadline(has_kernel_timeout, monkeypatch):
    if not has_kernel_timeout:
        monkeypatch.delattr(socket, "TCP_USER_TIMEOUT", raising=False)
    script = (*(Say("x" * 60_000) for _ in range(400)), Hold(trio.Event()), End())
    async with serving(lambda _: script, write_deadline_s=0.2) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat(stream=True))
        await site.engine.wait_for(lambda now: now.num_cancelled == 1)
        async with await site.connect() as other:
            assert (await other.ask("GET", "/health"))[0] == 200


@pytest.mark.slow
async def test_a_slow_reader_that_moves_is_not_dropped():
    script = (*(Say("x" * 50_000) for _ in range(100)), End())
    async with serving(lambda _: script) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat(stream=True))
        assert await wire.status() == 200
        received = b""
        async for piece in wire.pieces():
            received += piece
            await trio.lowlevel.checkpoint()
        assert events_of(received)[-1] == "[DONE]"
