"""One trace, played several times: where the replays do not agree. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strata.trace.marks import Difference, Step, first_difference
from strata.trace.replay import Replayed, RunDigest


@dataclass(frozen=True, slots=True)
class Played:
    """`marks`: what every launch and every look read, by step."""

    replayed: Replayed
    marks: Mapping[Step, int]


@dataclass(frozen=True, slots=True)
class OrderFound:
    """What a card did in the order of that name. `difference`: the first step that is not as it should be;
    `wrong_run`: the first run of bytes that was left otherwise."""

    order: str
    replayed: Replayed
    num_steps: int
    difference: Difference | None
    wrong_run: RunDigest | None

    @property
    def is_equal(self) -> bool:
        """The card refused nothing either, beside what it had refused when the trace was recorded."""
        is_refused = any(deviation.found for deviation in self.replayed.deviations)
        return self.difference is None and self.wrong_run is None and not is_refused


def compare_orders(twin: Played | None, on_card: Mapping[str, Played]) -> tuple[OrderFound, ...]:
    """Every step against the twin's, as far as the twin got, and against the same step in the first order: where the
    twin refused a command, only a card can say what would have come of it."""
    first = next(iter(on_card.values()))
    found = []
    for order, played in on_card.items():
        difference = None if twin is None else _against_twin(twin, played)
        if difference is None and played is not first:
            difference = first_difference(first.marks, played.marks)
        right = first if twin is None else twin
        wrong_run = _first_wrong_run(right.replayed.digests, played.replayed.digests)
        found.append(OrderFound(order, played.replayed, len(played.marks), difference, wrong_run))
    return tuple(found)


def _against_twin(twin: Played, played: Played) -> Difference | None:
    ended = min((deviation.line for deviation in twin.replayed.deviations), default=None)
    return first_difference(twin.marks, played.marks, before_line=ended)


def _first_wrong_run(expected: Sequence[RunDigest], found: Sequence[RunDigest]) -> RunDigest | None:
    """Where one of them has none, something was refused, and that is told by itself."""
    if not expected or not found:
        return None
    right = set(expected)
    return next((run for run in found if run not in right), None)
