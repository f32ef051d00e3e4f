"""Heads of HTTP/1.1 requests over real sockets: how long they may be, what a broken one gets, how many may follow."""

import json

import pytest
import trio

from strata.server.http1 import MAX_HEADER_BYTES
from tests.server.site import serving

FRAME = b"GET /health HTTP/1.1\r\nHost: test\r\nX-Long: %s\r\n\r\n"


def head_of(size_bytes):
    return FRAME % (b"x" * (size_bytes - len(FRAME % b"")))


async def read_reply(wire):
    """Status line and headers, lower case, and the error of the body, at the end of the connection."""
    received = b""
    while part := await wire.stream.receive_some(65536):
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head.lower() and b"connection: close" in head.lower()
    return head.lower(), json.loads(body)["error"]


async def test_a_head_at_the_limit_is_read():
    async with serving() as site, await site.connect() as wire:
        for _ in range(2):
            await wire.stream.send_all(head_of(MAX_HEADER_BYTES))
            received = b""
            while b'{"status":"ok"}' not in received:
                received += await wire.stream.receive_some(65536)
            assert received.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("size_bytes", [MAX_HEADER_BYTES + 1, 100_000, 125_000, 3_000_000])
async def test_a_longer_head_is_a_431(size_bytes):
    async with serving() as site, await site.connect() as wire:
        await wire.stream.send_all(head_of(size_bytes))
        head, error = await read_reply(wire)
        assert head.startswith(b"http/1.1 431 ")
        assert error["code"] == "headers_too_large" and f"{MAX_HEADER_BYTES} B" in error["message"]


async def test_a_longer_head_in_small_pieces_is_a_431():
    async with serving() as site, await site.connect() as wire:
        head = head_of(MAX_HEADER_BYTES + 1)
        for start in range(0, len(head), 1000):
            await wire.stream.send_all(head[start : start + 1000])
            await trio.lowlevel.checkpoint()
        assert (await read_reply(wire))[0].startswith(b"http/1.1 431 ")


async def test_what_is_pipelined_behind_a_head_does_not_count_for_it():
    async with serving() as site, await site.connect() as wire:
        await wire.stream.send_all(head_of(MAX_HEADER_BYTES - 1000) * 3)
        received = b""
        while received.count(b'{"status":"ok"}') < 3:
            part = await wire.stream.receive_some(65536)
            assert part, received
            received += part


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"GET / HTTP/9\r\n\r\n", 400, "malformed_http"),
        (b"\x16\x03\x01 a TLS hello", 400, "malformed_http"),
        (b"GET /health HTTP/1.1\r\n\r\n", 400, "malformed_http"),
        (b"GET /health HTTP/1.1\r\nHost: t\r\nA b: c\r\n\r\n", 400, "malformed_http"),
        (b"POST /health HTTP/1.1\r\nHost: t\r\nContent-Length: x\r\n\r\n", 400, "malformed_http"),
        (b"POST /health HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "unsupported_encoding"),
    ],
)
async def test_a_malformed_head_gets_an_error_object(sent, status, code, caplog):
    async with serving() as site, await site.connect() as wire:
        await wire.stream.send_all(sent)
        head, error = await read_reply(wire)
        assert head.startswith(f"http/1.1 {status} ".encode()) and b"content-type: application/json" in head
        assert set(error) == {"message", "type", "param", "code"} and error["code"] == code
    assert caplog.text == ""


@pytest.mark.slow
async def test_a_connection_serves_any_number_of_pipelined_requests():
    """hypercorn's own limit is 1,000."""
    num_requests = 1200
    async with serving() as site, await site.connect() as wire, trio.open_nursery() as nursery:
        nursery.start_soon(wire.stream.send_all, b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n" * num_requests)
        received = b""
        while received.count(b'{"status":"ok"}') < num_requests:
            part = await wire.stream.receive_some(65536)
            assert part, f"the end came after {received.count(b'HTTP/1.1 200')} replies"
            received += part
        assert b"connection: close" not in received.lower()


async def test_a_reply_that_overtakes_its_request_says_that_the_connection_ends():
    async with serving(max_body_bytes=10) as site, await site.connect() as wire:
        await wire.stream.send_all(b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 11\r\n\r\n")
        head, error = await read_reply(wire)
        assert head.startswith(b"http/1.1 413 ") and error["code"] == "request_too_large"
