"""The sum of the bodies in flight: its arithmetic, and over real sockets what it refuses and when it is given back."""

import json

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from strata.server.bodies import BodyBudget, BodyShare
from strata.server.ports import ServerLimits
from tests.server.scripted_engine import End, Hold
from tests.server.site import chat, serving

CHAT = "/v1/chat/completions"
LIMITS = {"max_body_bytes": 1000, "max_total_body_bytes": 1500}


@given(st.integers(0, 100), st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 60))))
def test_the_sum_never_passes_its_limit_and_every_byte_comes_back(limit_bytes, steps):
    budget = BodyBudget(limit_bytes)
    shares, held = [BodyShare(budget) for _ in range(4)], [0] * 4
    for index, size_bytes in steps:
        if size_bytes is None:
            shares[index].release()
            held[index] = 0
        elif shares[index].take(size_bytes):
            held[index] += size_bytes
        else:
            assert shares[index].is_refused
            held[index] = 0
        assert budget.held_bytes == sum(held) <= limit_bytes
    for share in shares:
        share.release()
    assert budget.held_bytes == 0


def test_a_body_may_be_no_longer_than_the_sum():
    with pytest.raises(AssertionError):
        ServerLimits(max_body_bytes=2, max_total_body_bytes=1)


async def send_part(site, wire, sent_bytes, *, of_bytes):
    """The head and the first bytes of a body; returns once the server holds them."""
    held_bytes = site.app.bodies.held_bytes
    head = f"POST {CHAT} HTTP/1.1\r\nHost: test\r\nContent-Length: {of_bytes}\r\n\r\n"
    await wire.stream.send_all(head.encode() + b" " * sent_bytes)
    while site.app.bodies.held_bytes != held_bytes + sent_bytes:
        await trio.lowlevel.checkpoint()


async def wait_until_all_is_back(site):
    while site.app.bodies.held_bytes:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_beyond_the_sum_is_a_503_that_says_when_to_come_again(is_chunked):
    async with serving(**LIMITS) as site, await site.connect() as first:
        await send_part(site, first, 900, of_bytes=1000)
        async with await site.connect() as second:
            body = b" " * 601
            framing = "Transfer-Encoding: chunked" if is_chunked else "Content-Length: 700"
            payload = b"259\r\n" + body + b"\r\n" if is_chunked else body  # neither is complete
            await second.stream.send_all(f"POST {CHAT} HTTP/1.1\r\nHost: t\r\n{framing}\r\n\r\n".encode() + payload)
            status, value = await second.reply_to_part()
            assert (status, value["error"]["code"]) == (503, "overloaded")
            assert second.headers["retry-after"] == "5" and second.headers["connection"] == "close"
        assert site.app.bodies.held_bytes == 900, "the refused one holds nothing, the first one all of its own"
        assert site.engine.tickets == []
        await trio.aclose_forcefully(first.stream)
        await wait_until_all_is_back(site)
        async with await site.connect() as third:
            assert (await third.ask("POST", CHAT, json.dumps(chat()).encode().ljust(1000)))[0] == 200


async def test_a_body_that_is_only_announced_takes_no_room():
    async with serving(**LIMITS) as site, await site.connect() as first, await site.connect() as second:
        for wire in (first, second):
            head = f"POST {CHAT} HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\n"
            await wire.stream.send_all(head.encode())
        async with await site.connect() as third:
            assert (await third.ask("POST", CHAT, json.dumps(chat()).encode().ljust(1000)))[0] == 200


async def test_a_running_reply_holds_no_body():
    held = trio.Event()
    async with serving(lambda _: (Hold(held), End()), **LIMITS) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, json.dumps(chat()).encode().ljust(1000))
        await site.engine.wait_for(lambda now: now.num_running == 1)
        assert site.app.bodies.held_bytes == 0
        held.set()
        assert (await wire.reply())[0] == 200


async def test_a_body_that_waits_for_a_text_thread_is_held():
    entered = trio.Event()
    async with serving(num_text_threads=1, **LIMITS) as site, await site.connect() as wire:
        released = trio.Event()

        def wait_for_release(messages):
            trio.from_thread.run_sync(entered.set)
            trio.from_thread.run(released.wait)
            return (1,)

        site.app.text.render_chat = wait_for_release
        await wire.send("POST", CHAT, json.dumps(chat()).encode().ljust(1000))
        await entered.wait()
        assert site.app.bodies.held_bytes == 1000
        released.set()
        assert (await wire.reply())[0] == 200
        assert site.app.bodies.held_bytes == 0


@pytest.mark.parametrize("path", ["/nothing", "/health", CHAT])
async def test_every_way_a_request_ends_gives_its_body_back(path):
    """No such route; a route that reads no body; a body that is no order."""
    async with serving(**LIMITS) as site, await site.connect() as wire:
        await wire.send("POST", path, b"{" * 800)
        assert await wire.status() in (400, 404, 405)
        await wire.body()
        await wait_until_all_is_back(site)
