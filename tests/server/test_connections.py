"""How many connections a server holds, over real sockets, and what the one too many is told."""

import json
from contextlib import AsyncExitStack

import pytest
import trio

from strata.server import connections as connections_module
from tests.server.scripted_engine import End, Hold
from tests.server.site import chat, serving

CHAT = "/v1/chat/completions"


async def read_to_the_end(wire):
    received = b""
    while part := await wire.stream.receive_some(65536):
        received += part
    return received


def error_of(reply):
    head, _, body = reply.partition(b"\r\n\r\n")
    return head.lower(), json.loads(body)["error"]


async def test_the_connection_beyond_the_limit_is_told_so_and_closed():
    async with serving(max_connections=2) as site, await site.connect() as first:
        assert (await first.ask("GET", "/health"))[0] == 200
        async with await site.connect() as second:
            assert (await second.ask("GET", "/health"))[0] == 200
            async with await site.connect() as third:
                head, error = error_of(await read_to_the_end(third))
            assert head.startswith(b"http/1.1 503 ") and b"retry-after: 5" in head and b"connection: close" in head
            assert (error["code"], error["type"]) == ("too_many_connections", "server_error")
            assert "max_connections=2" in error["message"]
            assert (await first.ask("GET", "/health"))[0] == 200
            assert b"strata_connections_refused_total 1.0" in site.app.metrics.render()
        while True:  # the place of the second is free once the server saw it leave
            async with await site.connect() as fourth:
                if (await fourth.ask("GET", "/health"))[0] == 200:
                    break


async def test_a_refused_client_that_sends_all_before_it_reads_gets_its_503(monkeypatch):
    """Far more than the socket buffers hold: a server that closes at once would reset the connection."""
    monkeypatch.setattr(connections_module, "REFUSAL_S", 1000.0)  # it sends as fast as the machine lets it
    async with serving(max_connections=1) as site, await site.connect() as first:
        assert (await first.ask("GET", "/health"))[0] == 200
        async with await site.connect() as second:
            status, value = await second.ask("POST", CHAT, b"x" * 20_000_000)
            assert (status, value["error"]["code"]) == (503, "too_many_connections")
            assert second.headers["connection"] == "close"


async def test_answers_to_refused_connections_are_bounded_too(monkeypatch):
    monkeypatch.setattr(connections_module, "MAX_REFUSALS", 1)
    monkeypatch.setattr(connections_module, "REFUSAL_S", 1000.0)  # the second still holds its place
    async with serving(max_connections=1) as site, await site.connect() as first:
        assert (await first.ask("GET", "/health"))[0] == 200
        async with await site.connect() as second:
            assert (await read_to_the_end(second)).startswith(b"HTTP/1.1 503")
            async with await site.connect() as third:
                assert await third.is_closed()


@pytest.mark.slow
async def test_a_refused_connection_that_stays_is_cut(monkeypatch):
    monkeypatch.setattr(connections_module, "REFUSAL_S", 0.05)
    monkeypatch.setattr(connections_module, "MAX_REFUSALS", 1)
    async with serving(max_connections=1) as site, AsyncExitStack() as kept:
        first = await kept.enter_async_context(await site.connect())
        assert (await first.ask("GET", "/health"))[0] == 200
        answered = 0
        while answered < 3:  # none of the answered ones is ever closed by its client
            wire = await kept.enter_async_context(await site.connect())
            answered += (await read_to_the_end(wire)).startswith(b"HTTP/1.1 503")


async def test_a_refused_connection_does_not_hold_the_shutdown(monkeypatch):
    monkeypatch.setattr(connections_module, "REFUSAL_S", 1000.0)
    async with serving(max_connections=1) as site, await site.connect() as first, await site.connect() as second:
        assert (await first.ask("GET", "/health"))[0] == 200
        assert (await read_to_the_end(second)).startswith(b"HTTP/1.1 503")
        site.shutdown.set()
        await site.is_over.wait()


async def test_a_running_reply_keeps_its_connection_when_the_server_is_full():
    held = trio.Event()
    async with serving(lambda _: (Hold(held), End()), max_connections=1) as site, await site.connect() as first:
        await first.send("POST", CHAT, chat())
        await site.engine.wait_for(lambda now: now.num_running == 1)
        async with await site.connect() as second:
            assert (await read_to_the_end(second)).startswith(b"HTTP/1.1 503")
        held.set()
        assert (await first.reply())[0] == 200
