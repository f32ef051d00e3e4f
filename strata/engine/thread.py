"""One thread for everything that blocks on the device, so that the event loop never does."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class StepRunner(Protocol):
    """Runs a blocking step and gives its result; boot says which one the steward uses."""

    def __call__(self, step: Callable[[], T], /) -> Awaitable[T]: ...


class DeviceThread:
    """A thread of its own, always the same one: CUDA contexts and OpenMP pools belong to threads."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="device")

    async def run(self, step: Callable[[], T], /) -> T:
        """Never abandoned: a cancelled caller waits for the step to end, since it holds the device."""
        loop = trio.lowlevel.current_trio_token()
        done = trio.Event()
        future = self._executor.submit(step)
        future.add_done_callback(lambda _: loop.run_sync_soon(done.set))
        with trio.CancelScope(shield=True):
            await done.wait()
        return future.result()

    def close(self) -> None:
        self._executor.shutdown()


async def run_inline(step: Callable[[], T], /) -> T:
    """Steps on the event loop itself: for simulated worlds, where time is virtual and order must be deterministic."""
    await trio.lowlevel.checkpoint()
    return step()
