"""One streamed reply: complete, or one line that says what went wrong."""

import socket
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.commands.api_client import ApiError, Completed, Delta, connect, get_json, stream_chat
from strata.server.app import encode_key
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


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("schlüssel\u20ac", "schlüssel\u20ac".encode()),
        ("\udcff\udcfe", b"\xff\xfe"),
        (" secret\n", b"secret"),
    ],
)
def test_a_key_is_sent_as_the_bytes_that_the_server_compares(key: str, sent: bytes) -> None:
    assert encode_key(key) == sent
    with fake_server(Script()) as server, connect(server.url, key) as client:
        get_json(client, "/v1/models")
    assert server.headers[0]["Authorization"].encode("latin-1") == b"Bearer " + sent


@pytest.mark.parametrize("key", ["se\ncret", "se\0cret", "se\x7fcret", "se\ud800cret", " \t"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ApiError, match=r"^api-key refused: ") as caught:
        connect("http://127.0.0.1:1", key)
    assert "cret" not in str(caught.value)
    assert str(caught.value).isprintable()


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


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host",
        "http://",
        "file:///etc/passwd",
        "http://[::1",
        "http://[v1.x]",
        "http://host:99999",
        "http://host:port",
        "http://\0",
        "http://\x1b[2J",
        "http://a..b",
        f"http://{'a' * 64}",
        "http://\u2603.net",
        "http://xn--",
        "http://\udcff",
        f"http://host/{'a' * 70_000}",
        "",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ApiError, match="is not an address of a server") as caught:
        connect(url)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1_000


@pytest.mark.slow
@given(st.one_of(st.text(max_size=40), st.text("[]:/@.%#?\\ax1\u00e9-", max_size=20).map("http://{}".format)))
@example("http://user:pass@[::1%lo]:80/v1?x#y")
def test_any_text_is_an_address_or_a_refusal_in_one_line(url: str) -> None:
    said = ""
    try:
        connect(url).close()
    except ApiError as error:
        said = str(error)
    assert said.isprintable()


@pytest.mark.parametrize(
    ("name", "value"), [("http_proxy", "what://x"), ("http_proxy", "http://[::1"), ("SSL_CERT_FILE", "/nowhere")]
)
def test_an_environment_that_no_client_can_use_is_refused_in_one_line(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ApiError, match="of the environment cannot be used: ") as caught:
        connect("http://192.0.2.1:8080")
    assert str(caught.value).isprintable()


def test_messages_that_are_not_unicode_are_refused_before_anything_is_sent() -> None:
    with fake_server(Script()) as server, connect(server.url) as client:
        with pytest.raises(ApiError, match="not UTF-8"):
            list(stream_chat(client, [{"role": "user", "content": "\udcff"}]))
        list(stream_chat(client, [{"role": "user", "content": "\u20ac \U0001f600"}]))
    assert [body["messages"][0]["content"] for body in server.bodies] == ["\u20ac \U0001f600"]
    assert server.headers[0]["Content-Type"] == "application/json"


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with fake_server(Script()) as server, connect(server.url) as client:
        assert get_json(client, "/v1/models") == {"data": [{"id": "fake-model"}]}
