"""Worlds one after another, from seeds, for a while: the bare front end.

A run is one world: its geometry and decisions are drawn, applied, and finished. Whatever is raised on the way is a
failure of the tree, kept with the decisions that led to it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from fuzz.draw import Drawn, draw_world, geometry_that_lends
from fuzz.garbage import swept_between_worlds
from sim.world.decisions import Decision
from sim.world.driver import Driver
from sim.world.geometry import Geometry
from sim.world.pairs import Pair
from sim.world.worlds import AnyDriver, make_world

PAIRS_EVERY = 8
"""Counting pairs takes about as long as judging, and what one world in eight shows is enough."""


@dataclass(frozen=True, slots=True)
class Failure:
    """`kind` is the class of what was raised: bugs are told apart by it."""

    seed: int
    kind: str
    message: str
    geometry: Geometry
    decisions: tuple[Decision, ...]


@dataclass(slots=True)
class Tally:
    """What a campaign did. `sometimes` of every world, `pairs` of one in PAIRS_EVERY, summed."""

    runs: int = 0
    steps: int = 0
    decisions: int = 0
    failures: list[Failure] = field(default_factory=list)
    sometimes: Counter[str] = field(default_factory=Counter)
    pairs: Counter[Pair] = field(default_factory=Counter)


class Chooser(Protocol):
    """Which worlds are played, and which of them to their end."""

    def begins(self) -> None:
        """Before a world is drawn."""

    def wants(self, drawn: Drawn) -> bool:
        """Asked once of each world that was drawn."""

    def wants_end(self) -> bool:
        """Asked of the world that is played, behind its last decision."""


class Everything:
    def begins(self) -> None:
        return

    def wants(self, drawn: Drawn) -> bool:
        return True

    def wants_end(self) -> bool:
        return True


EVERYTHING = Everything()


def run_seed(
    seed: int,
    tally: Tally,
    *,
    with_drawn_order: bool = True,
    with_all_loans: bool = True,
    chooser: Chooser = EVERYTHING,
) -> Failure | None:
    """One world, drawn from `seed`; see `draw_world`. What `chooser` does not want is not in the tally."""
    drawn: Drawn | None = None
    taken: list[Decision] = []
    chooser.begins()
    try:
        drawn = draw_world(seed, with_drawn_order=with_drawn_order, with_all_loans=with_all_loans)
        if not chooser.wants(drawn):
            return None
        geometry = drawn.geometry
        others = (geometry.drafter_experts, geometry.work_bytes, geometry.short_read_tokens, geometry.num_swaps)
        is_plain = not any(others) and geometry.pinned_bytes is None
        is_counting_pairs = seed % PAIRS_EVERY == 0 and is_plain and not geometry.splits
        driver = _run(drawn, taken, is_counting_pairs=is_counting_pairs, chooser=chooser)
    except Exception as error:  # whatever the core or a check raises is what a campaign looks for
        geometry = drawn.geometry if drawn else geometry_that_lends()
        failure = Failure(seed, type(error).__name__, str(error), geometry, tuple(taken))
        tally.failures.append(failure)
        return failure
    tally.runs += 1
    tally.steps += driver.num_steps
    tally.decisions += len(taken)
    tally.sometimes += driver.sometimes
    if isinstance(driver, Driver) and driver.card.device.pairs is not None:
        tally.pairs += driver.card.device.pairs.counts
    return None


def _run(
    drawn: Drawn,
    taken: list[Decision],
    *,
    is_recording: bool = False,
    is_counting_pairs: bool = False,
    chooser: Chooser = EVERYTHING,
) -> AnyDriver:
    driver = make_world(drawn.geometry, is_recording=is_recording, is_counting_pairs=is_counting_pairs)
    drawer = drawn.drawer()
    for _ in range(drawn.num_decisions()):
        taken.append(drawer.draw(driver))
        driver.apply(taken[-1])
    if chooser.wants_end():
        driver.finish()
    return driver


def digest_of_seed(seed: int) -> str:
    """Of all commands of one world: two cores that do the same have the same digests."""
    return _run(draw_world(seed), [], is_recording=True).digest()


def run_campaign(first_seed: int, is_over: Callable[[Tally], bool]) -> Tally:
    """Seeds from `first_seed` on, until `is_over`, which is asked before every run."""
    tally = Tally()
    seed = first_seed
    with swept_between_worlds() as sweep:
        while not is_over(tally):
            run_seed(seed, tally)
            sweep()
            seed += 1
    return tally
