"""What boot gives the server beside the engine. Everything here runs in a worker thread, off the event loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class TextPort(Protocol):
    """Text to token ids. Both raise RequestError (400) for what cannot be rendered or tokenized."""

    def render_chat(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Prompt ids of a conversation, generation prompt included. Message contents are already plain strings.
        Special-token text inside a message stays text."""

    def encode_prompt(self, text: str) -> tuple[int, ...]:
        """Ids of a raw prompt, with the model's BOS token where it asks for one. Special-token text is parsed."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What the API says about the model."""

    model_id: str
    created_s: int
    context_tokens: int
    vocab_size: int
    default_max_tokens: int | None = None  # None: as many as the context leaves


@dataclass(frozen=True, slots=True)
class ServerLimits:
    host: str = "127.0.0.1"
    port: int = 8080  # 0: any free port
    api_key: str | None = None
    max_connections: int = 512  # below the usual limit of 1,024 open files; one more is answered with a 503
    max_body_bytes: int = 16 * 1024 * 1024
    max_total_body_bytes: int = 64 * 1024 * 1024  # of all requests whose bodies are not parsed yet; beyond it: 503
    write_deadline_s: float = 30.0
    shutdown_grace_s: float = 20.0
    progress_deadline_s: float = 30.0  # /ready turns 503 beyond it
    keep_alive_comment_s: float = 5.0  # gap between SSE comments while a prompt is read
    idle_connection_s: float = 75.0  # a connection without a request is closed; also the time to send the headers
    body_deadline_s: float = 60.0  # a request body must have arrived
    num_text_threads: int = 2  # parse, render and tokenize at once

    def __post_init__(self) -> None:
        assert self.max_connections >= 1 and self.max_body_bytes <= self.max_total_body_bytes
