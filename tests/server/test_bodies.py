"""Bodies that are too long, too late or odd, over real sockets; and that reading them never holds the loop."""

import json
import threading

import pytest
import trio

from tests.server.site import chat, serving

CHAT = "/v1/chat/completions"


async def test_a_body_over_the_limit_by_its_length_is_a_413():
    async with serving(max_body_bytes=1000) as site, await site.connect() as wire:
        status, value = await wire.ask("POST", CHAT, b"x" * 1001)
        assert (status, value["error"]["code"]) == (413, "request_too_large")
        assert "max_body_bytes=1000" in value["error"]["message"]


async def test_a_client_that_sends_all_before_it_reads_still_gets_its_413():
    """Far more than the socket buffers hold: a server that closes at once would reset the connection."""
    async with serving(max_body_bytes=1000) as site, await site.connect() as wire:
        status, value = await wire.ask("POST", CHAT, b"x" * 20_000_000)
        assert (status, value["error"]["code"]) == (413, "request_too_large")
        assert await wire.is_closed()


async def test_a_chunked_body_over_the_limit_is_a_413():
    async with serving(max_body_bytes=1000) as site, await site.connect() as wire:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
        await wire.stream.send_all(head.encode() + b"1f4\r\n" + b"x" * 500 + b"\r\n")
        await wire.stream.send_all((b"1f4\r\n" + b"x" * 500 + b"\r\n") * 2)
        reply = b""
        while b"request_too_large" not in reply:
            part = await wire.stream.receive_some(65536)
            assert part, reply
            reply += part
        assert reply.startswith(b"HTTP/1.1 413")


async def test_a_body_at_the_limit_and_a_chunked_one_are_read():
    body = json.dumps(chat("x" * 20)).encode()
    async with serving(max_body_bytes=len(body)) as site, await site.connect() as wire:
        assert (await wire.ask("POST", CHAT, body))[0] == 200
        head = f"POST {CHAT} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:]))
        await wire.stream.send_all(head.encode() + chunks + b"0\r\n\r\n")
        assert (await wire.stream.receive_some(65536)).startswith(b"HTTP/1.1 200")


async def test_a_body_that_never_comes_is_a_408():
    async with serving(body_deadline_s=0.1) as site, await site.connect() as wire:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n"
        await wire.stream.send_all(head.encode())
        reply = b""
        while part := await wire.stream.receive_some(65536):
            reply += part
        assert reply.startswith(b"HTTP/1.1 408") and b'"body_timeout"' in reply


async def test_headers_that_never_end_are_cut():
    async with serving(idle_connection_s=0.1) as site, await site.connect() as wire:
        await wire.stream.send_all(b"GET /health HTTP/1.1\r\nHost:")
        assert await wire.is_closed()


@pytest.mark.parametrize(
    "garbage", [b"\0\xff\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"\x16\x03\x01 a TLS hello", b"x" * 80_000]
)
async def test_a_peer_that_speaks_no_http_costs_its_connection_only(garbage):
    async with serving() as site, await site.connect() as wire, await site.connect() as other:
        await wire.stream.send_all(garbage)
        await wire.stream.send_eof()
        while await wire.stream.receive_some(65536):
            pass
        assert (await other.ask("GET", "/health"))[0] == 200


async def test_health_answers_while_every_text_thread_is_busy():
    entered = threading.Semaphore(0)
    async with serving(num_text_threads=2) as site, await site.connect() as probe, trio.open_nursery() as clients:
        released = trio.Event()

        def wait_for_release(messages):
            entered.release()
            trio.from_thread.run(released.wait)
            return (1,)

        site.app.text.render_chat = wait_for_release
        replies = []

        async def ask():
            async with await site.connect() as wire:
                replies.append((await wire.ask("POST", CHAT, chat()))[0])

        for _ in range(4):
            clients.start_soon(ask)
        for _ in range(2):
            await trio.to_thread.run_sync(entered.acquire)
        for _ in range(20):
            assert (await probe.ask("GET", "/health"))[0] == 200
        assert not entered.acquire(blocking=False), "a third thread ran"
        assert replies == [] and site.engine.tickets == []
        released.set()
        while len(replies) < 4:
            assert (await probe.ask("GET", "/health"))[0] == 200
    assert replies == [200] * 4
