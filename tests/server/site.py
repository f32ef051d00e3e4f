"""A running server with a scripted engine behind it and a text port that counts letters: on a real socket, or on a
simulated network for claims about time, which then pass in virtual time whatever the machine is busy with."""

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import trio

from sim.world.server.network import SERVER_ADDRESS, Network
from strata.core.errors import RequestError
from strata.server.app import create_app
from strata.server.edge import Edge
from strata.server.ports import ServedModel, ServerLimits
from strata.server.serving import serve, serve_listener
from strata.server.sockets import BoundAddress
from strata.server.surroundings import Surroundings
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
VIRTUAL_GUARD_S = 1e6

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


def make_app(engine: ScriptedEngine, limits: ServerLimits = LIMITS, surroundings: Surroundings | None = None) -> Edge:
    return create_app(engine, LetterText(), MODEL, limits, surroundings=surroundings)


async def run_inline(work: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return work()


def simulated_surroundings() -> Surroundings:
    ids = itertools.count()
    return Surroundings(lambda: MODEL.created_s, lambda: str(next(ids)), lambda: next(ids), run_inline)


@dataclass
class Site:
    app: Edge
    engine: ScriptedEngine
    shutdown: trio.Event
    address: BoundAddress = field(init=False)
    is_over: trio.Event = field(default_factory=trio.Event)
    running: trio.CancelScope = field(default_factory=trio.CancelScope)  # cancel it, and `serve` alone is cancelled
    network: Network | None = None

    async def connect(self) -> Wire:
        if self.network is not None:
            return Wire(await self.network.connect(capacity_bytes=65536, is_reset_lossy=True))
        return Wire(await trio.open_tcp_stream(self.address.host, self.address.port))


@asynccontextmanager
async def serving(
    scripts: Scripts | None = None, *, max_queued: int = 16, network: Network | None = None, **limits: Any
) -> AsyncIterator[Site]:
    """A site for the length of a test; what is left of it is cancelled at the end. With a `network`, the test needs
    pytest-trio's `autojump_clock`: no thread and no socket is in it."""
    engine = ScriptedEngine(scripts or say("Hello", " world"), max_queued=max_queued)
    chosen = replace(LIMITS, **limits)
    app = make_app(engine, chosen, simulated_surroundings() if network else None)
    shutdown = trio.Event()
    with trio.fail_after(VIRTUAL_GUARD_S if network else GUARD_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.run)
            site = Site(app, engine, shutdown, network=network)

            async def run(*, task_status: trio.TaskStatus[BoundAddress] = trio.TASK_STATUS_IGNORED) -> None:
                bound: list[BoundAddress] = []
                with site.running:
                    if network is None:
                        await serve(app, chosen, shutdown=shutdown, on_bound=bound.append, task_status=task_status)
                        assert bound == [site.address]
                    else:
                        address = BoundAddress(*SERVER_ADDRESS)
                        ready = partial(task_status.started, address)
                        await serve_listener(app, chosen, network, shutdown=shutdown, on_ready=ready)
                site.is_over.set()

            site.address = await nursery.start(run)
            yield site
            nursery.cancel_scope.cancel()


def chat(content: str = "hi", **more: Any) -> Json:
    return {"messages": [{"role": "user", "content": content}], **more}
