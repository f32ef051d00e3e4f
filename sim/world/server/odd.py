"""Requests that are no good, each with the answers that are right. `NOTHING` among them: the connection may be closed
without a word, since what came is no request.
"""

import json
from dataclasses import dataclass

from sim.world.server.asks import CHAT, COMPLETION

NOTHING = (0, "")
PADDED = "as long as it may be"
Answer = tuple[int, str]  # status, error code; the code of a good reply is ""


@dataclass(frozen=True, slots=True)
class Odd:
    """`data` as it goes out; `answers` that are right. `waits`: the client then waits for the server's patience to end.
    `method` is what the reply's form depends on."""

    name: str
    data: bytes
    answers: tuple[Answer, ...]
    method: str = "POST"
    waits: bool = False


def _post(path: str, body: bytes, *, key: str | None, more: str = "") -> bytes:
    fields = "" if key is None else f"Authorization: Bearer {key}\r\n"
    return (f"POST {path} HTTP/1.1\r\nHost: world\r\n{fields}{more}Content-Length: {len(body)}\r\n\r\n").encode() + body


def _get(path: str, *, key: str | None, method: str = "GET") -> bytes:
    fields = "" if key is None else f"Authorization: Bearer {key}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: world\r\n{fields}\r\n".encode()


def odd_requests(*, key: str | None, max_body_bytes: int, context_tokens: int) -> tuple[Odd, ...]:
    """All kinds. `key`: the server's API key, which all but one of them bring."""
    invalid, value = (400, "invalid_json"), (400, "invalid_value")
    hello = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}

    def chat(name: str, body: bytes, *answers: Answer) -> Odd:
        return Odd(name, _post(CHAT, body, key=key), answers)

    def fields(name: str, answer: Answer, **changed: object) -> Odd:
        return chat(name, json.dumps(hello | changed).encode(), answer)

    whole = _post(CHAT, json.dumps(hello).encode(), key=key)
    return (
        chat("no JSON", b"{", invalid),
        chat("no UTF-8", b'{"messages": "\xff"}', invalid),
        chat("nested", b"[" * 100_000, invalid, (413, "request_too_large")),
        chat("NaN", b'{"temperature": NaN}', invalid),
        chat("empty", b"", invalid),
        chat(PADDED, b"{".ljust(max_body_bytes), invalid, (408, "body_timeout")),  # late, where it is sent slowly
        fields("messages of a number", value, messages=3),
        fields("unknown letter", value, messages=[{"role": "user", "content": "\ue000"}]),
        fields("two choices", (400, "unsupported_parameter"), n=2),
        fields("other model", (404, "model_not_found"), model="other"),
        fields("too many at least", value, min_tokens=2),
        Odd(
            "too long a prompt",
            _post(COMPLETION, json.dumps({"prompt": [5] * context_tokens}).encode(), key=key),
            ((400, "context_length_exceeded"), (413, "request_too_large")),
        ),
        Odd("too long a body", _post(CHAT, b" " * (max_body_bytes + 1), key=key), ((413, "request_too_large"),)),
        Odd("unknown path", _get("/v2", key=key), ((404, "unknown_url"),), "GET"),
        Odd("other method", _get(CHAT, key=key, method="DELETE"), ((405, "method_not_allowed"),), "DELETE"),
        Odd("options", _get(CHAT, key=key, method="OPTIONS"), ((200, ""),), "OPTIONS"),
        Odd(
            "wrong key",
            _get("/v1/models", key="wrong"),
            ((200, "") if key is None else (401, "invalid_api_key"),),
            "GET",
        ),
        Odd("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", ((400, "malformed_http"),)),
        Odd("no host", b"GET /health HTTP/1.1\r\n\r\n", ((400, "malformed_http"),), "GET"),
        Odd(
            "endless head", b"GET /health HTTP/1.1\r\nHost: world\r\nX: " + b"x" * 70_000, ((431, "headers_too_large"),)
        ),
        Odd("websocket", _websocket(key), ((403, ""), (400, "malformed_http")), "GET"),
        Odd("bad chunk", _chunked(b"zz\r\n", key), ((400, "malformed_http"),)),
        Odd("half a head", b"GET /health HTTP/1.1\r\nHo", (NOTHING,), "GET", waits=True),
        Odd("not a word", b"", (NOTHING,), waits=True),
        Odd("half a body", whole[:-3], ((408, "body_timeout"),), waits=True),
    )


def _websocket(key: str | None) -> bytes:
    more = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    more += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    return _get("/v1/models", key=key).removesuffix(b"\r\n") + more.encode() + b"\r\n"


def _chunked(body: bytes, key: str | None) -> bytes:
    fields = "" if key is None else f"Authorization: Bearer {key}\r\n"
    head = f"POST {CHAT} HTTP/1.1\r\nHost: world\r\n{fields}Transfer-Encoding: chunked\r\n\r\n"
    return head.encode() + body
