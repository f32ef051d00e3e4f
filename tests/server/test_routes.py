"""Unary routes through the test client: replies, and every failure as an OpenAI error object."""

from dataclasses import replace

import pytest
import trio

from strata.core.errors import RequestError
from strata.server.app import create_app
from strata.server.surroundings import Surroundings
from tests.server.scripted_engine import End, Hold, ScriptedEngine, say
from tests.server.site import LIMITS, MODEL, LetterText, chat, make_app

CHAT = "/v1/chat/completions"


@pytest.fixture
def engine(nursery):
    engine = ScriptedEngine(say("Hello", " world", reason="length"))
    nursery.start_soon(engine.run)
    return engine


@pytest.fixture
def client(engine):
    return make_app(engine).test_client()


async def error_of(response):
    value = await response.get_json()
    assert set(value) == {"error"} and set(value["error"]) == {"message", "type", "param", "code"}
    assert value["error"]["message"]
    return response.status_code, value["error"]["code"]


async def test_a_chat_reply_is_whole(client, engine):
    response = await client.post(CHAT, json=chat(seed=5, stop="x"))
    value = await response.get_json()
    assert response.status_code == 200
    assert (value["object"], value["model"]) == ("chat.completion", "tiny")
    assert value["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello world", "refusal": None},
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    assert value["timings"]["predicted_per_second"] == 500.0
    assert value["usage"]["total_tokens"] == 5
    (ticket,) = engine.tickets
    assert ticket.request.request_id == value["id"] and ticket.request.stop == ("x",)
    assert ticket.request.prompt_ids == (1, ord("h"), ord("i"))


async def test_a_completion_reply_is_whole(client):
    value = await (await client.post("/v1/completions", json={"prompt": [1, 2]})).get_json()
    assert value["object"] == "text_completion" and value["id"].startswith("cmpl-")
    assert value["choices"] == [{"index": 0, "text": "Hello world", "logprobs": None, "finish_reason": "length"}]


async def test_the_model_is_listed_and_shown(client):
    listed = await (await client.get("/v1/models")).get_json()
    shown = await (await client.get("/v1/models/tiny")).get_json()
    assert listed == {"object": "list", "data": [shown]}
    assert (shown["id"], shown["object"], shown["created"]) == ("tiny", "model", 1_700_000_000)
    assert await error_of(await client.get("/v1/models/not/here")) == (404, "model_not_found")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "unknown_url"),
        ("GET", "/v1/models/", 404, "unknown_url"),
        ("GET", "//v1//models", 404, "unknown_url"),
        ("GET", CHAT, 405, "method_not_allowed"),
        ("DELETE", "/health", 405, "method_not_allowed"),
    ],
)
async def test_a_wrong_address_is_a_json_error(client, method, path, status, code):
    response = await client.open(path, method=method)
    assert await error_of(response) == (status, code)
    assert ("Allow" in response.headers) == (status == 405)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"\xff", "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b'{"messages":[{"role":"user","content":"\\ud800"}]}', "invalid_json"),
        (b'{"messages":[{"role":"user","content":"x"}],"temperature":NaN}', "invalid_json"),
        (b'{"messages":[{"role":"user","content":"x"}],"seed":' + b"9" * 5000 + b"}", "invalid_json"),
        (b'{"messages":[]}', "invalid_value"),
        (b'{"messages":[{"role":"user","content":"UNRENDERABLE"}]}', "template_error"),
    ],
)
async def test_a_broken_body_is_a_400_and_the_server_lives(client, engine, body, code):
    assert await error_of(await client.post(CHAT, data=body)) == (400, code)
    assert engine.tickets == []
    assert (await client.post(CHAT, json=chat())).status_code == 200


async def test_our_own_mistake_is_a_500_that_tells_nothing(client, caplog):
    response = await client.post(CHAT, json=chat("BUG"))
    assert await error_of(response) == (500, "internal_error")
    assert "ZeroDivisionError" not in await response.get_data(as_text=True)
    assert "ZeroDivisionError: a mistake of ours" in caplog.text


async def test_a_full_queue_says_when_to_come_again(client, engine, monkeypatch):
    def refuse(request):
        raise RequestError("queue is full", status=503, code="queue_full")

    monkeypatch.setattr(engine, "submit", refuse)
    response = await client.post(CHAT, json=chat())
    assert await error_of(response) == (503, "queue_full")
    assert response.headers["Retry-After"] == "5"


@pytest.mark.parametrize("sent", [None, "Bearer wrong", "Bearer", "Basic secret-ключ", "secret-ключ", "Bearer secret-"])
async def test_without_the_key_only_health_is_open(engine, sent):
    client = make_app(engine, replace(LIMITS, api_key="secret-key")).test_client()
    headers = {} if sent is None else {"Authorization": sent.replace("ключ", "ke")}
    for path in ("/v1/models", "/metrics", "/nothing"):
        response = await client.get(path, headers=headers)
        assert await error_of(response) == (401, "invalid_api_key")
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert await error_of(await client.post(CHAT, json=chat(), headers=headers)) == (401, "invalid_api_key")
    assert [(await client.get(path)).status_code for path in ("/health", "/ready")] == [200, 200]
    assert engine.tickets == []


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_with_the_key_everything_is_open(engine, scheme):
    client = make_app(engine, replace(LIMITS, api_key="secret-key")).test_client()
    headers = {"Authorization": f"{scheme} secret-key"}
    assert (await client.get("/metrics", headers=headers)).status_code == 200
    assert (await client.post(CHAT, json=chat(), headers=headers)).status_code == 200


async def test_ready_turns_503_when_a_running_request_stands_still(engine, autojump_clock):
    app = make_app(engine, replace(LIMITS, progress_deadline_s=30.0))
    client = app.test_client()
    held = trio.Event()
    engine.scripts = lambda _: (Hold(held), End())
    async with trio.open_nursery() as requests:
        requests.start_soon(lambda: client.post(CHAT, json=chat()))
        await engine.wait_for(lambda now: now.num_running == 1)
        await trio.sleep(29)
        assert (await client.get("/ready")).status_code == 200
        await trio.sleep(2)
        stuck = await client.get("/ready")
        assert (stuck.status_code, (await stuck.get_json())["status"]) == (503, "stuck")
        assert (await client.get("/health")).status_code == 200
        held.set()
    await trio.sleep(60)
    assert (await client.get("/ready")).status_code == 200


async def test_ready_turns_503_while_draining(engine):
    app = make_app(engine)
    app.drain.is_draining = True
    client = app.test_client()
    assert (await client.get("/ready")).status_code == 503
    assert (await client.get("/health")).status_code == 200
    assert await error_of(await client.post(CHAT, json=chat())) == (503, "shutting_down")
    assert engine.tickets == []


async def test_a_path_lists_its_methods_in_one_order(client):
    refused, asked = await client.get(CHAT), await client.options("/health")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "OPTIONS, POST")
    assert (asked.status_code, asked.headers["Allow"]) == (200, "GET, HEAD, OPTIONS")


async def test_what_a_request_brings_not_comes_from_the_surroundings(engine):
    seeds, ids, num_texts = iter((7, 8)), iter(("a", "b")), []

    async def run_text(work):
        num_texts.append(1)
        return work()

    given = Surroundings(unix_s=lambda: 1234, new_id=ids.__next__, new_seed=seeds.__next__, run_text=run_text)
    app = create_app(engine, LetterText(), MODEL, LIMITS, surroundings=given)
    client = app.test_client()
    replies = [await (await client.post(CHAT, json=chat())).get_json() for _ in range(2)]
    assert [(reply["id"], reply["created"]) for reply in replies] == [("chatcmpl-a", 1234), ("chatcmpl-b", 1234)]
    assert [ticket.request.sampling.seed for ticket in engine.tickets] == [7, 8]
    assert len(num_texts) == 2


async def test_no_two_requests_have_one_id_or_one_drawn_seed(client, engine):
    ids = {(await (await client.post(CHAT, json=chat())).get_json())["id"] for _ in range(4)}
    seeds = {ticket.request.sampling.seed for ticket in engine.tickets}
    assert len(ids) == 4 and len(seeds) == 4 and all(0 <= seed < 2**63 for seed in seeds)


async def test_metrics_show_the_engine_and_the_requests(client):
    await client.post(CHAT, json=chat())
    await client.get("/v1/models/tiny")
    await client.get("/v1/models/secret-of-a-user")
    await client.get("/some/other/path")
    response = await client.get("/metrics")
    lines = (await response.get_data(as_text=True)).splitlines()
    assert response.content_type.startswith("text/plain; version=0.0.4")
    for line in (
        "strata_requests_running 0.0",
        "strata_requests_finished_total 1.0",
        "# HELP strata_prompt_tokens_total Prompt tokens that went through the model; reused ones do not count",
        "strata_prompt_tokens_total 3.0",
        "strata_predicted_tokens_total 2.0",
        "strata_link_bytes_total 4096.0",
        "strata_ring_entries_total 3.0",
        "strata_loans_total 2.0",
        "strata_lent_bytes_total 8192.0",
        "strata_reclaim_seconds_total 0.25",
        "strata_slab_bytes_total 512.0",
        "strata_refilled_bytes_total 6144.0",
        "strata_lent_pieces_verified_total 8.0",
        "strata_ring_slots 8.0",
        "strata_parked_conversations 2.0",
        "strata_parked_bytes 2048.0",
        "strata_parked_hits_total 4.0",
        "strata_conversations_parked_total 5.0",
        "strata_conversations_restored_total 3.0",
        "strata_conversations_evicted_total 1.0",
        "strata_conversations_given_up_total 6.0",
        "strata_conversation_bytes_parked_total 10240.0",
        "strata_conversation_bytes_restored_total 3072.0",
        "strata_checkpoints 3.0",
        "strata_checkpoints_kept_total 11.0",
        "strata_checkpoints_used_total 7.0",
        "strata_checkpoints_evicted_total 8.0",
        'strata_http_requests_total{route="/v1/chat/completions",status="200"} 1.0',
        'strata_http_requests_total{route="/v1/models/{id}",status="200"} 1.0',
        'strata_http_requests_total{route="/v1/models/{id}",status="404"} 1.0',
        'strata_http_requests_total{route="other",status="404"} 1.0',
        'strata_http_request_seconds_count{route="/v1/chat/completions"} 1.0',
    ):
        assert line in lines
    assert not any("secret-of-a-user" in line or "_created" in line for line in lines)


async def test_two_servers_in_one_process_do_not_share_counts(engine):
    first, second = make_app(engine), make_app(engine)
    await first.test_client().get("/health")
    assert b'route="/health"' in first.metrics.render()
    assert b'route="/health"' not in second.metrics.render()
