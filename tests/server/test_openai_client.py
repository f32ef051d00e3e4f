"""The official client, sync and under trio, against a real socket."""

from functools import partial

import httpx2
import openai
import pytest
import trio

from tests.server.scripted_engine import Break, End, Hold, Say, say
from tests.server.site import serving

HI = [{"role": "user", "content": "hi"}]
# The async client stops at [DONE] and leaves its own generators to the garbage collector.
leaves_generators = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
ask = {"model": "tiny", "messages": HI}


def connect(site, **options):
    options = {"api_key": "none", "max_retries": 0, **options}
    return openai.OpenAI(base_url=f"{site.address.url}/v1", **options)


def connect_async(site, **options):
    options = {"api_key": "none", "max_retries": 0, **options}
    return openai.AsyncOpenAI(base_url=f"{site.address.url}/v1", http_client=httpx2.AsyncClient(), **options)


async def in_thread(work, site, **options):
    def run():
        with connect(site, **options) as client:
            return work(client)

    return await trio.to_thread.run_sync(run)


async def test_the_sync_client_reads_a_reply_a_stream_and_the_models():
    def work(client):
        reply = client.chat.completions.create(**ask)
        chunks = list(client.chat.completions.create(**ask, stream=True))
        text = client.completions.create(model="tiny", prompt="ab").choices[0].text
        texts = [chunk.choices[0].text for chunk in client.completions.create(model="tiny", prompt="ab", stream=True)]
        return reply, chunks, text, texts, [model.id for model in client.models.list()]

    async with serving() as site:
        reply, chunks, text, texts, models = await in_thread(work, site)
    assert reply.choices[0].message.content == text == "".join(texts) == "Hello world"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello world"
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].choices[0].finish_reason == "stop"
    assert reply.usage.prompt_tokens_details.cached_tokens == 2
    assert models == ["tiny"]


async def test_usage_chunks_are_counted_zero_zero_one():
    def work(client):
        options = ({}, {"stream_options": {"include_usage": False}}, {"stream_options": {"include_usage": True}})
        streams = [client.chat.completions.create(**ask, stream=True, **option) for option in options]
        return [[chunk.usage for chunk in stream if chunk.usage] for stream in streams]

    async with serving() as site:
        absent, refused, (usage,) = await in_thread(work, site)
    assert (absent, refused) == ([], []) and (usage.prompt_tokens, usage.completion_tokens) == (3, 2)


@pytest.mark.parametrize(
    ("more", "error", "code"),
    [
        ({"temperature": 5}, openai.BadRequestError, "invalid_value"),
        ({"n": 2}, openai.BadRequestError, "unsupported_parameter"),
        ({"messages": [{"role": "user", "content": "x" * 64}]}, openai.BadRequestError, "context_length_exceeded"),
        ({"model": "other"}, openai.NotFoundError, "model_not_found"),
        ({"messages": [{"role": "user", "content": "BUG"}]}, openai.InternalServerError, "internal_error"),
        ({"extra_headers": {"Authorization": "Bearer x"}}, openai.AuthenticationError, "invalid_api_key"),
        ({"messages": [{"role": "user", "content": "x" * 300_000}]}, openai.APIStatusError, "request_too_large"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_errors_become_the_clients_exceptions(more, error, code, stream):
    def work(client):
        with pytest.raises(error) as raised:
            client.chat.completions.create(**{**ask, **more}, stream=stream)
        return raised.value

    async with serving(api_key="right") as site:
        assert (await in_thread(work, site, api_key="right")).code == code


async def test_a_full_queue_is_retried_by_the_client_as_an_internal_server_error():
    script = (Hold(trio.Event()), End())
    async with (
        serving(lambda _: script, max_queued=1) as site,
        await site.connect() as running,
        await site.connect() as queued,
    ):
        for num_queued, wire in enumerate((running, queued)):
            await wire.send("POST", "/v1/completions", {"prompt": "ab"})
            await site.engine.wait_for(lambda now, n=num_queued: (now.num_running, now.num_queued) == (1, n))
        with pytest.raises(openai.InternalServerError) as raised:
            await in_thread(lambda client: client.chat.completions.create(**ask), site)
    assert raised.value.code == "queue_full" and raised.value.response.headers["retry-after"] == "5"


async def test_an_error_in_a_stream_is_raised_after_the_texts():
    def work(client):
        texts = []
        stream = client.chat.completions.create(**ask, stream=True)
        with pytest.raises(openai.APIError, match="the device failed"):
            texts.extend(chunk.choices[0].delta.content for chunk in stream)
        return texts

    async with serving(lambda _: (Say("a"), Say("b"), Break())) as site:
        assert await in_thread(work, site) == ["", "a", "b"]


@leaves_generators
async def test_the_async_client_streams_under_trio_through_comments():
    held = trio.Event()
    script = (Hold(held), *map(Say, "abc"), End())
    async with (
        serving(lambda _: script, keep_alive_comment_s=0.01) as site,
        connect_async(site) as client,
        await site.connect() as wire,
    ):
        stream = await client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True})
        await wire.send("POST", "/v1/completions", {"prompt": "ab", "stream": True})
        assert await wire.status() == 200
        for _ in range(3):  # the older request had its comments by then
            assert await wire.piece() == b": keep-alive\n\n"
        held.set()
        chunks = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "abc"
        assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [3]
        assert (await client.completions.create(model="tiny", prompt="ab")).choices[0].text == "abc"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("other")


@leaves_generators
async def test_the_async_client_that_closes_its_stream_frees_the_engine():
    script = (Say("a"), Hold(trio.Event()), End())
    async with serving(lambda _: script) as site, connect_async(site) as client:
        async with await client.chat.completions.create(**ask, stream=True) as stream:
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
        await site.engine.wait_for(lambda now: now.num_running == 0)
        assert site.engine.statistics().num_cancelled == 1


async def test_requests_of_many_clients_are_all_answered():
    async with serving(say("x"), max_queued=100) as site, connect_async(site) as client:
        texts = []

        async def run():
            reply = await client.chat.completions.create(**ask)
            texts.append(reply.choices[0].message.content)

        async with trio.open_nursery() as clients:
            for _ in range(20):
                clients.start_soon(partial(run))
        assert texts == ["x"] * 20
