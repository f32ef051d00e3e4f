"""How engine and server live in one process and end together.

    a first signal      the server drains: what was accepted is served within its grace, nothing new comes in
    a second one        ends everything at once
    the engine is lost  the server ends in order: whoever waits has its error already; then the error goes up

The engine runs in the nursery that also serves, so its death ends the process, and health never lies. Which signals
there are, and what the process then says and returns, is the caller's.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Protocol

import trio

from strata.core.errors import DeviceError

Signals = Callable[[], AbstractContextManager[AsyncIterator[object]]]


class LivingEngine(Protocol):
    """The part of a steward that has a life of its own."""

    async def run(self) -> None:
        """Until cancelled, or drained and idle. Raises DeviceError when the device is lost."""

    def drain(self) -> None: ...


async def live(
    engine: LivingEngine,
    serve: Callable[[trio.Event], Awaitable[None]],
    *,
    signals: Signals,
    on_signal: Callable[[bool], None] = lambda is_first: None,
) -> None:
    """Run `serve(shutdown)` and the engine until both are over; `on_signal(is_first)` is told of each signal. Raises
    DeviceError, in a group, for a lost device."""
    shutdown, served = trio.Event(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run_engine, engine, shutdown, served, nursery.cancel_scope)
        nursery.start_soon(_watch_signals, engine, signals, shutdown, nursery.cancel_scope, on_signal)
        try:
            await serve(shutdown)
        finally:
            served.set()


async def _run_engine(
    engine: LivingEngine, shutdown: trio.Event, served: trio.Event, everything: trio.CancelScope
) -> None:
    """Serve requests until the server is over. A device that is lost ends the server in order: whoever waits has its
    error already, nobody new comes in, and the device's error goes up once the last reply is out."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.run)
            await served.wait()
            nursery.cancel_scope.cancel()
    except* DeviceError:
        shutdown.set()
        with trio.CancelScope(shield=True):  # `serve` ends within its own bounds; the error must not be lost meanwhile
            await served.wait()
        raise
    everything.cancel()


async def _watch_signals(
    engine: LivingEngine,
    signals: Signals,
    shutdown: trio.Event,
    everything: trio.CancelScope,
    on_signal: Callable[[bool], None],
) -> None:
    is_asked = False  # by a signal: a lost device sets `shutdown` too, and a first signal then is no second one
    with signals() as arriving:
        async for _ in arriving:
            on_signal(not is_asked)
            if is_asked:
                everything.cancel()
            is_asked = True
            shutdown.set()
            engine.drain()
