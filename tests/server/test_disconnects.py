"""A client that leaves costs the engine nothing, wherever it leaves."""

import random

import pytest
import trio
import trio.testing

from tests.server.scripted_engine import End, Hold, Read, Say, say
from tests.server.site import chat, serving
from tests.server.wire import events_of

CHAT = "/v1/chat/completions"


def is_idle(statistics):
    return statistics.num_running == statistics.num_queued == 0


def forever(*before):
    return lambda _: (*before, Hold(trio.Event()), End())


async def leave(wire):
    await trio.aclose_forcefully(wire.stream)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("before", [(), (Read(1, 9),), (Say("a"), Say("b"))], ids=["queued", "reading", "speaking"])
async def test_leaving_cancels_the_ticket(before, is_stream):
    async with serving(forever(*before)) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat(stream=is_stream))
        await site.engine.wait_for(lambda now: now.num_running == 1 and now.predicted_tokens == len(before) // 2 * 2)
        await leave(wire)
        await site.engine.wait_for(is_idle)
        assert site.engine.statistics().num_cancelled == 1 and site.engine.tickets[0].num_cancels == 1


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_half_close_counts_as_leaving(is_stream):
    async with serving(forever()) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat(stream=is_stream))
        await site.engine.wait_for(lambda now: now.num_running == 1)
        await wire.stream.send_eof()
        await site.engine.wait_for(is_idle)
        assert site.engine.statistics().num_cancelled == 1


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_queued_request_whose_client_left_never_starts(is_stream):
    first_done = trio.Event()
    async with serving(lambda _: (Hold(first_done), End())) as site, await site.connect() as first:
        await first.send("POST", CHAT, chat())
        await site.engine.wait_for(lambda now: now.num_running == 1)
        async with await site.connect() as second:
            await second.send("POST", CHAT, chat(stream=is_stream))
            await site.engine.wait_for(lambda now: now.num_queued == 1)
            await leave(second)
        while not site.engine.tickets[1].num_cancels:
            await trio.lowlevel.checkpoint()
        first_done.set()
        assert (await first.reply())[0] == 200
        site.engine.scripts = say("next")
        assert (await first.ask("POST", CHAT, chat()))[0] == 200
        assert site.engine.started == [ticket.request.request_id for ticket in site.engine.tickets[::2]]


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("num_behind", [1, 3])
async def test_leaving_behind_pipelined_requests_cancels_the_one_that_runs(num_behind, is_stream):
    """They wait for their turn in the protocol, and nothing else of the connection may be handled meanwhile."""
    async with serving(forever()) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat(stream=is_stream))
        await site.engine.wait_for(lambda now: now.num_running == 1)
        for _ in range(num_behind):
            await wire.stream.send_all(b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n")
        await leave(wire)
        await site.engine.wait_for(is_idle)
        assert site.engine.statistics().num_cancelled == 1


async def test_pipelined_requests_that_were_read_ahead_are_answered_in_order():
    held = trio.Event()
    async with serving(lambda _: (Hold(held), End())) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat())
        await site.engine.wait_for(lambda now: now.num_running == 1)
        for path in (b"/health", b"/ready", b"/v1/models"):
            await wire.stream.send_all(b"GET %s HTTP/1.1\r\nHost: test\r\n\r\n" % path)
            await trio.testing.wait_all_tasks_blocked(0.01)
        held.set()
        received = b""
        while b'"object":"list"' not in received:
            received += await wire.stream.receive_some(65536)
        order = [received.index(part) for part in (b"chat.completion", b'"ok"', b'"ready"', b'"object":"list"')]
        assert order == sorted(order) and received.count(b"HTTP/1.1 200") == 4


async def test_a_finished_ticket_is_not_cancelled():
    async with serving() as site, await site.connect() as wire:
        for is_stream in (False, True):
            await wire.send("POST", CHAT, chat(stream=is_stream))
            assert await wire.status() == 200
            await wire.body()
            wire._http.start_next_cycle()
        assert (await wire.ask("GET", "/health"))[0] == 200
        assert [ticket.num_cancels for ticket in site.engine.tickets] == [0, 0]


async def test_leaving_while_the_prompt_is_tokenized_submits_nothing():
    async with serving() as site, await site.connect() as wire:
        released = trio.Event()
        entered = trio.Event()

        def wait_for_release(messages):
            trio.from_thread.run_sync(entered.set)
            trio.from_thread.run(released.wait)
            return (1,)

        site.app.text.render_chat = wait_for_release
        await wire.send("POST", CHAT, chat())
        await entered.wait()
        await leave(wire)
        async with await site.connect() as other:
            while 'status="disconnected"' not in site.app.metrics.render().decode():
                await other.ask("GET", "/health")
        released.set()
        assert site.engine.tickets == []


@pytest.mark.slow
async def test_two_hundred_random_disconnects_leave_the_engine_idle():
    """Before the headers, while reading, between tokens, after the last: nothing stays behind."""
    random_source = random.Random(20261129)
    script = (Read(1, 2), Read(2, 2), *(Say(letter) for letter in "abcdefgh"), End())
    async with serving(lambda _: script, max_queued=1000) as site:

        async def come_and_go(num_steps, is_stream):
            async with await site.connect() as wire:
                await wire.send("POST", CHAT, chat(stream=is_stream))
                for _ in range(num_steps):
                    await trio.lowlevel.checkpoint()
                if num_steps % 7 == 0 and is_stream:
                    assert await wire.status() == 200
                    await wire.piece()

        for _ in range(20):
            async with trio.open_nursery() as clients:
                for _ in range(10):
                    clients.start_soon(come_and_go, random_source.randrange(200), random_source.random() < 0.7)
        await site.engine.wait_for(is_idle)
        async with await site.connect() as wire:
            await wire.send("POST", CHAT, chat(stream=True))
            assert await wire.status() == 200
            assert events_of(await wire.body())[-1] == "[DONE]"
        now = site.engine.statistics()
        assert is_idle(now) and now.num_finished + now.num_cancelled == len(site.engine.tickets)
        assert now.num_cancelled > 0 and now.num_finished > 0, "the test must see both ends"
