"""One streamed reply: complete, or one line that says what went wrong."""

import socket
from collections.abc import Iterator

import pytest

from strata.commands.api_client import ApiError, Completed, Delta, connect, get_json, stream_chat
from tests.commands.fake_server import Script, fake_server

QUESTION = [{"role": "user", "content": "hello"}]


def reply(script: Script) -> Iterator[Delta | Completed]:
    with fake_server(script) as server, connect(server.url) as client:
        yield from stream_chat(client, QUESTION)


def test_a_reply_is_its_deltas_and_one_end() -> None:
    *deltas, end = reply(Script(deltas=("a", "b")))
    assert deltas == [Delta("a"), Delta("b")]
    assert isinstance(end, Completed)
    assert (end.finish_reason, end.usage["completion_tokens"], end.timings["predicted_n"]) == ("stop", 2, 4)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (Script(ending="error"), "the engine failed"),
        (Script(ending="cut"), "the connection ended before the reply was complete"),
        (Script(ending="unfinished"), "without a finish reason"),
        (Script(status=503), r"the queue is full \(HTTP 503\)"),
        (Script(status=500, error_body="<html>\x1b[31moops"), "HTTP 500: <html>oops"),
        (Script(status=401, error_body='{"error": "no"}'), r"no \(HTTP 401\)"),
        (Script(status=400, error_body="[" * 100_000), "HTTP 400: "),
    ],
)
def test_every_way_of_going_wrong_is_one_line(script: Script, message: str) -> None:
    with pytest.raises(ApiError, match=message) as caught:
        list(reply(script))
    assert "\n" not in str(caught.value)


def test_options_that_are_none_are_left_to_the_server() -> None:
    with fake_server(Script()) as server, connect(server.url) as client:
        list(stream_chat(client, QUESTION, temperature=0.0, seed=None))
    assert server.bodies == [
        {"messages": QUESTION, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.0}
    ]


def test_the_key_is_sent_and_a_trailing_v1_is_understood() -> None:
    with fake_server(Script()) as server, connect(f"{server.url}/v1/", "secret") as client:
        assert get_json(client, "/v1/models") == {"data": [{"id": "fake-model"}]}
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_leaving_a_reply_half_way_closes_the_connection() -> None:
    with fake_server(Script(ending="hold")) as server, connect(server.url) as client:
        updates = stream_chat(client, QUESTION)
        assert next(updates) == Delta("Hello")
        updates.close()
        assert server.client_left.wait(10)


def test_no_server_is_said_with_what_to_do() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with (
            connect(f"127.0.0.1:{unused.getsockname()[1]}") as client,
            pytest.raises(ApiError, match=r"no server answers at .*strata serve"),
        ):
            get_json(client, "/v1/models")


@pytest.mark.parametrize("url", ["ftp://host", "http://", "file:///etc/passwd"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ApiError, match="is not an address of a server"):
        connect(url)


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with fake_server(Script()) as server, connect(server.url) as client:
        assert get_json(client, "/v1/models") == {"data": [{"id": "fake-model"}]}
