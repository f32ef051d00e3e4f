"""A world is a knot of objects that know one another, and Python looks for such knots some hundred times while one is
played: a fifteenth of the time. Here it looks between worlds, every WORLDS_A_SWEEP.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WORLDS_A_SWEEP = 16


@contextmanager
def swept_between_worlds() -> Iterator[Callable[[], None]]:
    """Gives what is to be called behind each world. On the way out Python does as it did before."""
    num_worlds = 0

    def sweep() -> None:
        nonlocal num_worlds
        num_worlds += 1
        if num_worlds % WORLDS_A_SWEEP == 0:
            gc.collect()

    was_enabled = gc.isenabled()
    gc.freeze()  # what is there now stays, and need not be looked at
    gc.disable()
    try:
        yield sweep
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
