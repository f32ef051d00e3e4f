"""What goes out, as JSON objects in OpenAI's forms: replies, stream chunks, models, errors. Pure.

Decides field names and order only. One `Frames` per request makes both the whole reply and the chunks of a stream, so
that they cannot disagree. Extensions: `timings` (the names of llama.cpp's server) on the whole reply and on the chunk
that carries finish_reason.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from strata.core.errors import RequestError
from strata.engine.updates import Broken, Finished, Timings, Usage
from strata.server.ports import ServedModel

Json = dict[str, Any]

DONE = b"data: [DONE]\n\n"
COMMENT = b": keep-alive\n\n"
RETRY_AFTER_S = 5  # what a 503 tells its client


def encode_json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def encode_event(value: Mapping[str, Any]) -> bytes:
    """One server-sent event. JSON has no raw line break, so the event is one line."""
    return b"data: " + encode_json(value) + b"\n\n"


@dataclass(frozen=True, slots=True)
class Frames:
    """Envelopes of one request. `is_usage_wanted`: stream_options.include_usage."""

    request_id: str
    created_s: int
    model_id: str
    is_chat: bool
    is_usage_wanted: bool = False

    def opening(self) -> list[Json]:
        """What a stream sends before its first text: the role, in a chat."""
        return [self._chunk(self._delta({"role": "assistant", "content": ""}))] if self.is_chat else []

    def piece(self, text: str) -> Json:
        return self._chunk(self._delta({"content": text}) if self.is_chat else self._text(text))

    def closing(self, finished: Finished) -> list[Json]:
        """The chunk with finish_reason, then the usage chunk when it was asked for."""
        choice = self._delta({}, finished.reason) if self.is_chat else self._text("", finished.reason)
        chunks = [self._chunk(choice) | {"timings": render_timings(finished.timings)}]
        if self.is_usage_wanted:
            chunks.append(self._head("chunk") | {"choices": [], "usage": render_usage(finished.usage)})
        return chunks

    def whole(self, text: str, finished: Finished) -> Json:
        if self.is_chat:
            message = {"role": "assistant", "content": text, "refusal": None}
            choice: Json = {"index": 0, "message": message, "logprobs": None, "finish_reason": finished.reason}
        else:
            choice = self._text(text, finished.reason)
        usage, timings = render_usage(finished.usage), render_timings(finished.timings)
        return self._head("whole") | {"choices": [choice], "usage": usage, "timings": timings}

    def _head(self, part: str) -> Json:
        chat = "chat.completion.chunk" if part == "chunk" else "chat.completion"
        kind = chat if self.is_chat else "text_completion"
        return {"id": self.request_id, "object": kind, "created": self.created_s, "model": self.model_id}

    def _chunk(self, choice: Json) -> Json:
        return self._head("chunk") | {"choices": [choice]} | ({"usage": None} if self.is_usage_wanted else {})

    def _delta(self, delta: Json, reason: str | None = None) -> Json:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}

    def _text(self, text: str, reason: str | None = None) -> Json:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}


def render_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def render_timings(timings: Timings) -> Json:
    return {
        "prompt_n": timings.prompt_n,
        "prompt_ms": timings.prompt_ms,
        "prompt_per_second": timings.prompt_per_second,
        "predicted_n": timings.predicted_n,
        "predicted_ms": timings.predicted_ms,
        "predicted_per_second": timings.predicted_per_second,
        "draft_n": timings.draft_n,
        "draft_n_accepted": timings.draft_n_accepted,
        "expert_n": timings.expert_n,
        "expert_n_hit": timings.expert_n_hit,
        "expert_hit_rate": timings.expert_n_hit / timings.expert_n if timings.expert_n else None,
        "swap_n": timings.swap_n,
        "read": asdict(timings.read),
    }


def render_model(model: ServedModel) -> Json:
    return {
        "id": model.model_id,
        "object": "model",
        "created": model.created_s,
        "owned_by": "strata",
        "context_length": model.context_tokens,
    }


def render_error(error: RequestError) -> Json:
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = "server_error" if error.status >= 500 else kinds.get(error.status, "invalid_request_error")
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def error_of(broken: Broken) -> RequestError:
    """A request that the engine gave up, as the error its client gets."""
    return RequestError(broken.message, status=503 if broken.code == "shutting_down" else 500, code=broken.code)
