"""Replies over real sockets: order of events, comments, errors after the headers, keep-alive."""

import itertools
import json
from dataclasses import asdict

import pytest
import trio

from sim.world.server.network import Network
from strata.engine.updates import NO_READ
from tests.server.scripted_engine import Break, End, Explode, Hold, Read, Say, Vanish, say
from tests.server.site import chat, serving
from tests.server.wire import events_of

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


async def stream_of(wire, path=CHAT, **more):
    await wire.send("POST", path, chat(stream=True, **more) if path == CHAT else {"stream": True, **more})
    assert await wire.status() == 200
    return events_of(await wire.body())


async def test_chat_stream_sends_role_then_text_then_finish_then_done():
    async with serving() as site, await site.connect() as wire:
        role, first, second, finish, done = await stream_of(wire)
        assert role["choices"] == [
            {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        ]
        assert [first["choices"][0]["delta"], second["choices"][0]["delta"]] == [
            {"content": "Hello"},
            {"content": " world"},
        ]
        assert finish["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
        assert finish["timings"] == {
            "prompt_n": 1,
            "prompt_ms": 2.0,
            "prompt_per_second": 500.0,
            "predicted_n": 2,
            "predicted_ms": 4.0,
            "predicted_per_second": 500.0,
            "draft_n": 0,
            "draft_n_accepted": 0,
            "expert_n": 0,
            "expert_n_hit": 0,
            "expert_hit_rate": None,
            "swap_n": 0,
            "read": asdict(NO_READ),
        }
        assert done == "[DONE]"
        chunks = (role, first, second, finish)
        assert len({chunk["id"] for chunk in chunks}) == 1 and role["id"].startswith("chatcmpl-")
        assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
        assert all("usage" not in chunk for chunk in chunks)
        assert wire.headers["cache-control"] == "no-cache" and wire.headers["x-accel-buffering"] == "no"
        assert wire.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert "date" not in wire.headers and "server" not in wire.headers


async def test_completion_stream_has_text_choices():
    async with serving() as site, await site.connect() as wire:
        *texts, finish, done = await stream_of(wire, TEXT, prompt="ab")
        assert [chunk["choices"][0]["text"] for chunk in texts] == ["Hello", " world"]
        assert finish["choices"] == [{"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}]
        assert {chunk["object"] for chunk in (*texts, finish)} == {"text_completion"}
        assert done == "[DONE]"


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}, {"stream_options": None}])
async def test_usage_is_not_sent_unless_asked(options):
    async with serving() as site, await site.connect() as wire:
        assert not [event for event in await stream_of(wire, **options) if event != "[DONE]" and "usage" in event]


async def test_asked_usage_is_one_chunk_without_choices_before_done_and_equals_the_whole_reply():
    async with serving() as site, await site.connect() as wire, await site.connect() as other:
        *chunks, finish, usage, done = await stream_of(wire, stream_options={"include_usage": True})
        assert [chunk["usage"] for chunk in (*chunks, finish)] == [None] * (len(chunks) + 1)
        assert finish["choices"][0]["finish_reason"] == "stop" and done == "[DONE]"
        _, whole = await other.ask("POST", CHAT, chat())
        assert usage["choices"] == [] and usage["usage"] == whole["usage"]
        assert whole["usage"] == {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 2},
        }


async def test_headers_come_before_the_first_token():
    first_token = trio.Event()
    async with serving(lambda _: (Hold(first_token), Say("x"), End())) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat(stream=True))
        assert await wire.status() == 200
        first_token.set()
        assert len(events_of(await wire.body())) == 4


async def test_comments_fill_the_silence_and_change_nothing_else(autojump_clock):
    texts = [Say("a"), Say("b"), End()]
    held = trio.Event()
    slow = [Read(1, 9), Hold(held), Read(2, 9), *texts]
    async with serving(network=Network()) as site, await site.connect() as wire:
        site.engine.scripts = lambda _: slow
        await wire.send("POST", CHAT, chat(stream=True))
        assert await wire.status() == 200
        assert [await wire.piece() for _ in range(3)] == [b": keep-alive\n\n"] * 3
        held.set()
        events = [event for event in events_of(await wire.body()) if event != ":"]
        assert [event["choices"][0]["delta"] for event in events[:-1]] == [
            {"role": "assistant", "content": ""},
            {"content": "a"},
            {"content": "b"},
            {},
        ]
        assert events[-1] == "[DONE]"


async def test_progress_does_not_put_off_a_comment():
    """Progress sends nothing, so the silence goes on."""
    script = itertools.repeat(Read(1, 2))
    async with serving(lambda _: script, keep_alive_comment_s=0.05) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat(stream=True))
        assert await wire.status() == 200
        assert await wire.piece() == b": keep-alive\n\n"


@pytest.mark.parametrize(
    ("fault", "code"),
    [(Break(), "engine_error"), (Explode(ValueError("bug")), "engine_error"), (Vanish(), "engine_error")],
)
async def test_an_error_after_the_headers_is_one_event_and_the_end_of_the_connection(fault, code):
    script = [*(Say(str(i)) for i in range(5)), fault]
    async with serving(lambda _: script) as site, await site.connect() as wire, await site.connect() as other:
        *chunks, error = await stream_of(wire)
        assert [chunk["choices"][0]["delta"]["content"] for chunk in chunks] == ["", "0", "1", "2", "3", "4"]
        assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks)
        assert error["error"]["code"] == code and error["error"]["type"] == "server_error"
        assert await wire.is_closed()
        site.engine.scripts = say("fine")
        status, value = await other.ask("POST", CHAT, chat())
        assert status == 200 and value["choices"][0]["message"]["content"] == "fine"


@pytest.mark.parametrize("fault", [Break(), Explode(ValueError("bug")), Vanish()])
async def test_an_engine_fault_of_a_whole_reply_is_a_500(fault):
    async with serving(lambda _: [Say("a"), fault]) as site, await site.connect() as wire:
        status, value = await wire.ask("POST", CHAT, chat())
        assert status == 500 and value["error"]["code"] == "engine_error"


async def test_a_wrong_parameter_is_refused_before_the_headers_of_a_stream():
    async with serving() as site, await site.connect() as wire:
        for more in ({"n": 0}, {"temperature": -1}, {"top_p": 2}, {"max_tokens": 0}, {"model": "other"}):
            replies = [await wire.ask("POST", CHAT, chat(**more, stream=stream)) for stream in (True, False)]
            assert replies[0] == replies[1]
            assert replies[0][0] == (404 if "model" in more else 400)
        assert site.engine.tickets == []


async def test_a_connection_carries_a_stream_and_then_another_request():
    async with serving() as site, await site.connect() as wire:
        assert (await stream_of(wire))[-1] == "[DONE]"
        wire._http.start_next_cycle()
        assert (await wire.ask("GET", "/health"))[0] == 200
        assert (await wire.ask("POST", CHAT, chat()))[0] == 200


async def idle_s_of(wire):
    """How long the server lets the connection idle."""
    since_s = trio.current_time()
    assert await wire.is_closed()
    return trio.current_time() - since_s


async def test_an_idle_connection_is_closed_also_after_a_reply(autojump_clock):
    """The timer must be armed again after a reply; quart-trio alone leaves it dead."""
    async with serving(network=Network(), idle_connection_s=75.0) as site:
        async with await site.connect() as wire:
            assert await idle_s_of(wire) == 75.0
        async with await site.connect() as wire:
            assert (await wire.ask("GET", "/health"))[0] == 200
            assert await idle_s_of(wire) == 75.0
        async with await site.connect() as wire:
            assert (await stream_of(wire))[-1] == "[DONE]"
            assert await idle_s_of(wire) == 75.0


async def test_a_long_reply_does_not_count_as_idle(autojump_clock):
    held = trio.Event()
    script = [Hold(held), End()]
    async with serving(lambda _: script, network=Network()) as site, await site.connect() as wire:
        await wire.send("POST", CHAT, chat(stream=True))
        assert await wire.status() == 200
        await trio.sleep(9_990)
        held.set()
        events = events_of(await wire.body())
        assert events[-1] == "[DONE]" and events.count(":") == 499  # one in each 20 s


async def test_a_pipelined_request_is_answered_after_the_first():
    async with serving() as site, await site.connect() as wire:
        request = b"POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n%s"
        body = json.dumps(chat()).encode()
        first, second = request % (CHAT.encode(), len(body), body), b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n"
        await wire.stream.send_all(first + second)
        received = b""
        while received.count(b"HTTP/1.1 200") < 2 or not received.endswith(b'{"status":"ok"}'):
            received += await wire.stream.receive_some(65536)
        assert received.index(b"chat.completion") < received.index(b'{"status":"ok"}')


async def test_text_survives_the_wire_byte_for_byte():
    texts = ("é", "日本", "🙂", "\n\n", "data: x\r\n", " ", '"\\')
    async with serving(say(*texts)) as site, await site.connect() as wire, await site.connect() as other:
        streamed = [event["choices"][0]["delta"]["content"] for event in (await stream_of(wire))[1:-2]]
        _, whole = await other.ask("POST", CHAT, chat())
        assert tuple(streamed) == texts
        assert whole["choices"][0]["message"] == {"role": "assistant", "content": "".join(texts), "refusal": None}
