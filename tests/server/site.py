"""A running server on a real socket, with a scripted engine behind it and a text port that counts letters."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import trio

from strata.core.errors import RequestError
from strata.server.app import create_app
from strata.server.edge import Edge
from strata.server.ports import ServedModel, ServerLimits
from strata.server.serving import serve
from strata.server.sockets import BoundAddress
from tests.server.scripted_engine import ScriptedEngine, Scripts, say
from tests.server.wire import Wire

MODEL = ServedModel("tiny", created_s=1_700_000_000, context_tokens=64, vocab_size=300)
LIMITS = ServerLimits(
    port=0,
    max_body_bytes=256 * 1024,
    write_deadline_s=20.0,
    shutdown_grace_s=20.0,
    keep_alive_comment_s=20.0,
    idle_connection_s=20.0,
)
GUARD_S = 20.0  # an upper guard, far above what anything here takes

Json = dict[str, Any]


class LetterText:
    """One token a character, its code point modulo the vocabulary; one more for each message."""

    def render_chat(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        ids: list[int] = []
        for message in messages:
            if "UNRENDERABLE" in message["content"]:
                raise RequestError("the template refused the messages", code="template_error", param="messages")
            if "BUG" in message["content"]:
                raise ZeroDivisionError("a mistake of ours")
            ids += [1, *self.encode_prompt(message["content"])]
        return tuple(ids)

    def encode_prompt(self, text: str) -> tuple[int, ...]:
        return tuple(ord(letter) % MODEL.vocab_size for letter in text)


def make_app(engine: ScriptedEngine, limits: ServerLimits = LIMITS) -> Edge:
    return create_app(engine, LetterText(), MODEL, limits)


@dataclass
class Site:
    app: Edge
    engine: ScriptedEngine
    shutdown: trio.Event
    address: BoundAddress = field(init=False)
    is_over: trio.Event = field(default_factory=trio.Event)
    running: trio.CancelScope = field(default_factory=trio.CancelScope)  # cancel it, and `serve` alone is cancelled

    async def connect(self) -> Wire:
        return Wire(await trio.open_tcp_stream(self.address.host, self.address.port))


@asynccontextmanager
async def serving(scripts: Scripts | None = None, *, max_queued: int = 16, **limits: Any) -> AsyncIterator[Site]:
    """A site for the length of a test; what is left of it is cancelled at the end."""
    engine = ScriptedEngine(scripts or say("Hello", " world"), max_queued=max_queued)
    chosen = replace(LIMITS, **limits)
    app, shutdown = make_app(engine, chosen), trio.Event()
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.run)
            bound: list[BoundAddress] = []
            site = Site(app, engine, shutdown)

            async def run(*, task_status: trio.TaskStatus[BoundAddress] = trio.TASK_STATUS_IGNORED) -> None:
                with site.running:
                    await serve(app, chosen, shutdown=shutdown, on_bound=bound.append, task_status=task_status)
                site.is_over.set()

            site.address = await nursery.start(run)
            assert bound == [site.address]
            yield site
            nursery.cancel_scope.cancel()


def chat(content: str = "hi", **more: Any) -> Json:
    return {"messages": [{"role": "user", "content": content}], **more}
