"""Holds what a client saw against what is right, and names the outcome. Raises WorldFault for anything that no promise
of the server covers: a wrong byte, a stream that ends without a word, an error that nothing explains.
"""

import json
from dataclasses import dataclass
from typing import Any

from sim.world.checks import WorldFault
from sim.world.server.asks import Ask, RightReply
from sim.world.server.caller import End, Seen

DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Excuses:
    """What may stand in place of a right reply. `may_break`: a failure has happened since the request; `may_drain`: the
    server is stopping; `may_overflow`: there were more connections than it takes; `may_overload`: or bytes of bodies;
    `may_cut`: the client took nothing for longer than it may, or the server stops at once; `may_be_silent`: the
    connection may have been closed before the request came. Whether the line was full is judged at the engine's door
    (`site.py`)."""

    may_break: bool = False
    may_drain: bool = False
    may_overflow: bool = False
    may_overload: bool = False
    may_cut: bool = False
    may_be_silent: bool = False

    def explain(self, status: int, code: str) -> bool:
        explained = {
            (503, "queue_full"): True,
            (503, "too_many_connections"): self.may_overflow,
            (503, "overloaded"): self.may_overload,
            (503, "shutting_down"): self.may_drain,
            (500, "engine_error"): self.may_break,
        }
        return explained.get((status, code), False)


def judge(ask: Ask, right: RightReply, seen: Seen, excuses: Excuses) -> str:
    """The outcome of one request for a reply."""
    if seen.status == 200:
        return _judge_stream(ask, right, seen, excuses) if ask.is_stream else _judge_whole(ask, right, seen, excuses)
    if seen.status:
        return judge_error(seen, excuses)
    if excuses.may_cut or excuses.may_be_silent:
        return f"no reply, {seen.end}"
    raise WorldFault(f"no reply at all, the connection is {seen.end}")


def judge_error(seen: Seen, excuses: Excuses) -> str:
    """An error reply that the state of the server explains."""
    if seen.end is not End.WHOLE:
        if excuses.may_cut:
            return f"error cut, {seen.end}"
        raise WorldFault(f"the error {seen.status} ends {seen.end} after {seen.body!r}")
    code = error_code(seen)
    if not excuses.explain(seen.status, code):
        raise WorldFault(f"nothing explains the error {seen.status} {seen.body!r}")
    if seen.status == 503 and seen.headers.get("retry-after") is None:
        raise WorldFault(f"a 503 says no Retry-After: {seen.headers}")
    return code


def error_code(seen: Seen) -> str:
    """Of an OpenAI error object, whose form is checked."""
    try:
        error = json.loads(seen.body)["error"]
        if not error["message"] or set(error) != {"message", "type", "param", "code"}:
            raise KeyError("fields")
        return str(error["code"])
    except (ValueError, KeyError, TypeError) as problem:
        raise WorldFault(f"the {seen.status} is no error object: {seen.body!r}") from problem


def _judge_whole(ask: Ask, right: RightReply, seen: Seen, excuses: Excuses) -> str:
    if seen.end is not End.WHOLE:
        if excuses.may_cut:
            return f"cut, {seen.end}"
        raise WorldFault(f"a reply of one piece ends {seen.end} after {len(seen.body)} B")
    value = json.loads(seen.body)
    choice = value["choices"][0]
    text = choice["message"]["content"] if ask.is_chat else choice["text"]
    _check_text(text, choice["finish_reason"], right)
    _check_usage(value["usage"], right)
    return "whole reply"


def _judge_stream(ask: Ask, right: RightReply, seen: Seen, excuses: Excuses) -> str:
    events = events_of(seen.body)
    chunks = [event for event in events if isinstance(event, dict) and "error" not in event]
    text = "".join(_text_of(ask, choice) for chunk in chunks for choice in chunk["choices"])
    error = events[-1]["error"]["code"] if events and isinstance(events[-1], dict) and "error" in events[-1] else None
    if events and events[-1] == DONE and seen.end is End.WHOLE:
        reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
        _check_text(text, " and ".join(filter(None, reasons)), right)
        usages = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
        if len(usages) != ask.is_usage_wanted:
            raise WorldFault(f"{len(usages)} usage chunks, include_usage={ask.is_usage_wanted}")
        for usage in usages:
            _check_usage(usage, right)
        return "stream"
    if not right.text.startswith(text):
        raise WorldFault(f"the stream said {text!r} until it broke, right is {right.text!r}")
    if error is not None and (seen.end is End.WHOLE or excuses.may_cut):
        if not excuses.explain(503 if error == "shutting_down" else 500, error):
            raise WorldFault(f"nothing explains the error event {events[-1]}")
        return f"stream, then {error}"
    if excuses.may_cut:
        return f"stream cut, {seen.end}"
    raise WorldFault(f"a stream of {len(events)} events ends {seen.end} without a word")


def partial_text_is_right(ask: Ask, right: RightReply, seen: Seen) -> None:
    """What a client that left had been told by then."""
    if seen.status != 200 or not ask.is_stream:
        return
    events = events_of(seen.body[: seen.body.rfind(b"\n\n") + 2] if b"\n\n" in seen.body else b"")
    chunks = [event for event in events if isinstance(event, dict) and "error" not in event]
    text = "".join(_text_of(ask, choice) for chunk in chunks for choice in chunk["choices"])
    if not right.text.startswith(text):
        raise WorldFault(f"the stream said {text!r}, right is {right.text!r}")


def events_of(body: bytes) -> list[Any]:
    """JSON values, DONE, and ":" for a comment. Bytes behind the last whole event are left out."""
    events: list[Any] = []
    for block in body.split(b"\n\n")[:-1]:
        if block.startswith(b":"):
            events.append(":")
        elif block.startswith(b"data: ") and b"\n" not in block:
            data = block.removeprefix(b"data: ")
            events.append(DONE if data == b"[DONE]" else json.loads(data))
        else:
            raise WorldFault(f"no server-sent event: {block!r}")
    return events


def _text_of(ask: Ask, choice: dict[str, Any]) -> str:
    return str(choice["delta"].get("content", "") if ask.is_chat else choice["text"])


def _check_text(text: str, reason: str, right: RightReply) -> None:
    if (text, reason) != (right.text, right.reason):
        raise WorldFault(f"the reply is {text!r} ({reason}), right is {right.text!r} ({right.reason})")


def _check_usage(usage: dict[str, Any], right: RightReply) -> None:
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    said = (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"])
    wanted = (right.prompt_tokens, right.completion_tokens, right.prompt_tokens + right.completion_tokens)
    if said != wanted or not 0 <= cached < right.prompt_tokens:
        raise WorldFault(f"usage {usage}, right is {wanted} with fewer than {right.prompt_tokens} cached")
