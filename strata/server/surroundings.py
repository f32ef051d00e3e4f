"""What the server takes from the world beside bytes and time: the date, ids, seeds, threads.

Injected, so that a simulated server takes none of it from the machine and can be run twice alike. Waiting and deadlines
go by trio's clock everywhere.
"""

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import trio

from strata.server.schemas_sampling import NUM_SEEDS

T = TypeVar("T")


class Offload(Protocol):
    """Runs blocking work off the event loop. A cancelled caller does not wait; the work ends by itself then."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`unix_s`: seconds since 1970; `new_id`: a text that no other request has; `new_seed`: 0 .. NUM_SEEDS - 1, for a
    request that brings none; `run_text`: for parsing, rendering and tokenizing."""

    unix_s: Callable[[], int]
    new_id: Callable[[], str]
    new_seed: Callable[[], int]
    run_text: Offload


def real_surroundings(*, num_text_threads: int) -> Surroundings:
    """The machine's own. At most `num_text_threads` threads run text at once."""
    limiter = trio.CapacityLimiter(num_text_threads)

    async def run_text(work: Callable[[], T], /) -> T:
        # A thread whose client left ends by itself and holds its place in the limiter until then.
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)

    return Surroundings(
        unix_s=lambda: int(time.time()),
        new_id=lambda: secrets.token_hex(12),
        new_seed=lambda: secrets.randbelow(NUM_SEEDS),
        run_text=run_text,
    )
