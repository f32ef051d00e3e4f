"""The API as its own clients use it: one streamed chat completion, as deltas and one end.

Decides what counts as a complete reply (a finish reason, then `[DONE]`) and how each way of going wrong reads on one
line. Knows HTTP and the wire format only; nothing of the engine or the terminal.
"""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from strata.commands.sse import EventParser, EventTooLong
from strata.commands.terminal_text import one_line

CONNECT_TIMEOUT_S = 10.0
MAX_SHOWN_URL_CHARS = 200
SILENCE_TIMEOUT_S = 120.0
"""The server sends a comment every few seconds while a prompt is read; two minutes without a byte mean it is gone."""


JSON_HEADERS = {"Content-Type": "application/json"}


class ApiError(Exception):
    """The server refused, failed or broke off. The message is one line, safe to print."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Text as it came, not yet safe to print. Never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The end of a whole reply. `usage` and `timings` are the server's objects, {} where it sent none."""

    finish_reason: str
    usage: Mapping[str, Any]
    timings: Mapping[str, Any]


def connect(url: str, api_key: str | None = None) -> httpx.Client:
    """A client for the server at `url` (with or without `/v1`). Proxies of the environment are not used for this
    machine's own addresses. Raises ApiError when `url` is not an http URL, or no header can carry the key."""
    base_url = _base_url(url)
    is_local = base_url.host in ("localhost", "::1") or base_url.host.startswith("127.")
    headers = {b"Authorization": b"Bearer " + _key_bytes(api_key)} if api_key else {}
    timeout = httpx.Timeout(SILENCE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    try:
        return httpx.Client(base_url=base_url, headers=headers, timeout=timeout, trust_env=not is_local)
    except (ValueError, OSError, ImportError, httpx.InvalidURL) as error:
        # The rest of what a client is made of: a proxy's address and its scheme, a file of certificates.
        raise ApiError(
            f"the proxy or certificates of the environment cannot be used: {one_line(str(error))}"
        ) from error


def _base_url(url: str) -> httpx.URL:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it names no host to speak HTTP with")
        _ = parts.port  # raises for a port that is none
        base_url = httpx.URL(
            parts._replace(path=parts.path.rstrip("/").removesuffix("/v1"), query="", fragment="").geturl()
        )
        # What the resolver and httpx do with a name before it is looked up: empty labels, long ones and broken
        # punycode fail here.
        base_url.raw_host.decode("ascii").encode("idna")
        _ = base_url.host
    except (ValueError, httpx.InvalidURL) as error:
        raise ApiError(
            f"url={url[:MAX_SHOWN_URL_CHARS]!a} is not an address of a server: {one_line(str(error))}; "
            "write for example http://127.0.0.1:8080"
        ) from error
    return base_url


def _key_bytes(api_key: str) -> bytes:
    """The key as the server compares it: in UTF-8, bytes of the command line as they came, blanks around it dropped.
    No message may show it."""
    try:
        key = api_key.encode("utf-8", "surrogateescape").strip(b" \t\r\n")
    except UnicodeEncodeError:
        raise ApiError("api-key refused: it holds half a surrogate pair, which is no character") from None
    if not key or any(byte < 0x20 or byte == 0x7F for byte in key):
        raise ApiError("api-key refused: it is blank or holds a control character, which no header can carry")
    return key


def get_json(client: httpx.Client, path: str) -> Any:
    """The JSON at `path`. Raises ApiError."""
    try:
        response = client.get(path)
    except httpx.HTTPError as error:
        raise ApiError(_transport_reason(client, error)) from error
    if response.status_code != 200:
        raise ApiError(_refusal(response.status_code, response.content))
    return _parse(response.text)


def stream_chat(
    client: httpx.Client, messages: Sequence[Mapping[str, str]], **options: object
) -> Generator[Delta | Completed, None, None]:
    """One reply: deltas, then exactly one Completed. `options` go into the request's body; None leaves one out.

    Closing the iterator closes the connection, which cancels the reply. Raises ApiError, also when the stream ends
    before the reply is complete."""
    body = {"messages": list(messages), "stream": True, "stream_options": {"include_usage": True}}
    body |= {name: value for name, value in options.items() if value is not None}
    try:
        content = json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ApiError("the messages hold what is not UTF-8, so nothing was sent") from None
    try:
        with client.stream("POST", "/v1/chat/completions", content=content, headers=JSON_HEADERS) as response:
            if response.status_code != 200:
                raise ApiError(_refusal(response.status_code, response.read()))
            yield from _read(response)
    except httpx.HTTPError as error:
        raise ApiError(_transport_reason(client, error)) from error
    except EventTooLong as error:
        raise ApiError(f"the server sent {error}") from error


def _read(response: httpx.Response) -> Iterator[Delta | Completed]:
    parser = EventParser()
    finish_reason = ""
    usage: Mapping[str, Any] = {}
    timings: Mapping[str, Any] = {}
    for data in response.iter_bytes():
        for event in parser.feed(data):
            if event.data == "[DONE]":
                if not finish_reason:
                    raise ApiError("the server ended the reply without a finish reason")
                yield Completed(finish_reason, usage, timings)
                return
            chunk = _parse(event.data)
            if "error" in chunk:
                raise ApiError(_error_message(chunk))
            usage, timings = chunk.get("usage") or usage, chunk.get("timings") or timings
            for choice in chunk.get("choices") or ():
                finish_reason = choice.get("finish_reason") or finish_reason
                text = (choice.get("delta") or {}).get("content")
                if text:
                    yield Delta(text)
    raise ApiError("the connection ended before the reply was complete")


def _parse(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ApiError(f"the server sent something that is not JSON: {one_line(text[:80])!r}") from error
    if not isinstance(value, dict):
        raise ApiError(f"the server sent {one_line(text[:80])!r} where an object was expected")
    return value


def _refusal(status: int, body: bytes) -> str:
    try:
        return f"{_error_message(json.loads(body))} (HTTP {status})"
    except (ValueError, RecursionError):
        return f"HTTP {status}: {one_line(body[:200].decode('utf-8', 'replace')) or 'no reason given'}"


def _error_message(value: Any) -> str:
    """The message of an OpenAI error object, whatever else is in it."""
    error = value.get("error") if isinstance(value, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return one_line(str(message or "no reason given"))


def _transport_reason(client: httpx.Client, error: httpx.HTTPError) -> str:
    reason = one_line(str(error)) or type(error).__name__
    if isinstance(error, httpx.ConnectError):
        return f"no server answers at {client.base_url}: {reason}; start one with: strata serve MODEL.gguf"
    return f"the connection to {client.base_url} failed: {reason}"
