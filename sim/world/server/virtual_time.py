"""One run of trio that depends on nothing but its seed: time is virtual, and tasks that are ready together take turns
in an order that the seed draws.

What trio still leaves open: in which order tasks are told of one cancellation, and which of two deadlines at the same
moment is seen first. Both put tasks into one batch, and batches are sorted before they are shuffled, so nothing shows
as long as an abort function has no visible effect.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TypeVar

import trio
from trio.testing import MockClock

T = TypeVar("T")


def run_in_virtual_time(main: Callable[[], Awaitable[T]], *, seed: str) -> T:
    """`main()`, with a clock that starts at 0 and jumps whenever every task waits."""
    with _turns_drawn_from(Random(seed)):
        return trio.run(main, clock=MockClock(autojump_threshold=0.0))


@contextmanager
def _turns_drawn_from(rng: Random) -> Iterator[None]:
    """trio has this mode for Hypothesis, as two globals of its scheduler."""
    scheduler = vars(trio._core._run)
    names = {"_ALLOW_DETERMINISTIC_SCHEDULING": True, "_r": rng}
    before = {name: scheduler[name] for name in names}
    scheduler.update(names)
    try:
        yield
    finally:
        scheduler.update(before)
