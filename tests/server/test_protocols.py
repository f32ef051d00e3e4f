"""What the connection speaks beside HTTP/1.1 requests in a row: h2c, HTTP/1.0, upgrades it does not offer."""

import json
from contextlib import aclosing

import h2.config
import h2.connection
import h2.events
import trio

from strata.server import serving as serving_module
from tests.server.scripted_engine import End, Hold, Say
from tests.server.site import chat, serving
from tests.server.wire import events_of

CHAT = "/v1/chat/completions"


async def h2_post(stream, value):
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    client.initiate_connection()
    headers = {":method": "POST", ":path": CHAT, ":scheme": "http", ":authority": "test"}
    client.send_headers(1, list(headers.items()))
    client.send_data(1, json.dumps(value).encode(), end_stream=True)
    await stream.send_all(client.data_to_send())
    return client


async def h2_events(stream, client):
    while data := await stream.receive_some(65536):
        for event in client.receive_data(data):
            yield event
        await stream.send_all(client.data_to_send())


async def test_a_stream_over_h2c_is_the_same_events():
    async with serving() as site, await site.connect() as wire:
        client = await h2_post(wire.stream, chat(stream=True))
        body = b""
        async with aclosing(h2_events(wire.stream, client)) as events:
            async for event in events:
                if isinstance(event, h2.events.DataReceived):
                    body += event.data
                if isinstance(event, h2.events.StreamEnded):
                    break
        assert [event["choices"][0]["delta"].get("content") for event in events_of(body)[:-1]] == [
            "",
            "Hello",
            " world",
            None,
        ]


async def test_leaving_an_h2c_connection_or_stream_cancels_the_ticket():
    script = (Say("a"), Hold(trio.Event()), End())
    async with serving(lambda _: script) as site:
        async with await site.connect() as wire:
            await h2_post(wire.stream, chat(stream=True))
            await site.engine.wait_for(lambda now: now.predicted_tokens == 1)
        await site.engine.wait_for(lambda now: now.num_cancelled == 1)
        async with await site.connect() as wire:
            client = await h2_post(wire.stream, chat())
            await site.engine.wait_for(lambda now: now.predicted_tokens == 2)
            client.reset_stream(1)
            await wire.stream.send_all(client.data_to_send())
            await site.engine.wait_for(lambda now: now.num_cancelled == 2)


async def test_an_h2c_client_that_grants_no_window_is_dropped_at_the_write_deadline():
    """hypercorn buffers a whole HTTP/2 reply (bounded by max_tokens) and waits for the window at its end only."""
    script = (*(Say("x" * 60_000) for _ in range(10)), End())
    over = f'strata_http_requests_total{{route="{CHAT}",status="200"}} 1.0'
    async with serving(lambda _: script, write_deadline_s=0.2) as site, await site.connect() as wire:
        await h2_post(wire.stream, chat(stream=True))
        await site.engine.wait_for(lambda now: now.num_finished == 1)
        async with await site.connect() as other:
            while over not in site.app.metrics.render().decode():
                assert (await other.ask("GET", "/health"))[0] == 200


async def test_an_h2c_client_that_grants_no_window_does_not_hold_the_shutdown(monkeypatch):
    monkeypatch.setattr(serving_module, "CLOSING_S", 0.2)
    script = (*(Say("x" * 60_000) for _ in range(10)), Hold(trio.Event()), End())
    async with serving(lambda _: script, shutdown_grace_s=0.1) as site, await site.connect() as wire:
        await h2_post(wire.stream, chat(stream=True))
        await site.engine.wait_for(lambda now: now.predicted_tokens == 10)
        site.shutdown.set()
        await site.is_over.wait()


async def test_an_http_1_0_client_gets_its_stream_until_the_end_of_the_connection():
    async with serving() as site, await site.connect() as wire:
        body = json.dumps(chat(stream=True)).encode()
        head = f"POST {CHAT} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
        await wire.stream.send_all(head.encode() + body)
        reply = b""
        while part := await wire.stream.receive_some(65536):
            reply += part
        head, _, events = reply.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200") and events_of(events)[-1] == "[DONE]"


async def test_a_websocket_is_refused_and_the_server_lives(caplog):
    async with serving() as site, await site.connect() as wire, await site.connect() as other:
        head = (
            "GET /v1/models HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await wire.stream.send_all(head.encode())
        reply = await wire.stream.receive_some(65536)
        assert reply.startswith(b"HTTP/1.1 403")
        assert (await other.ask("GET", "/health"))[0] == 200
    assert caplog.text == ""
