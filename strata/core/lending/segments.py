"""The elastic loan: physical segments of idle regions, moved behind the prompt arena and home again.

    release   give up the parts in order, the cache's slots before the head -> unmap at home -> map behind -> grow
    restore   the same backwards, from wherever a failure left it

Addresses never change, so nothing is captured anew. The segments that come home are those that went, so there is
always room for them (`lending.md` 5, invariants 28, 29 and 33). Their bytes are copied from the pack by others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from strata.core.commands import Map, Transfer, Unmap
from strata.core.extent import Extent
from strata.core.lending.ledger import Ledger
from strata.core.lending.loan import PROMPT, LoanPhase
from strata.core.memory.fixed import HEAD
from strata.core.memory.zone import Zone

Act = Map | Unmap | Transfer
"""What the host does to the card by itself, at once: it is done or refused when the call returns."""
NOBODY = ""


@dataclass(frozen=True, slots=True)
class SegmentLoan:
    """Every segment of the zone is lent or on its way home. A failure repeats the way home."""

    zone: Zone
    phase: LoanPhase = LoanPhase.LENT

    def restoring(self) -> "SegmentLoan":
        return replace(self, phase=LoanPhase.RESTORING)

    def check_settled(self, backing: "Backing") -> None:
        """The way home was ordered, and every segment is there."""
        assert self.phase is LoanPhase.RESTORING, self
        assert backing == at_home(self.zone), (self, backing)


@dataclass(frozen=True, slots=True)
class Backing:
    """`places[i]`: the addresses that segment i of the zone backs, None for none."""

    places: tuple[Extent | None, ...]

    def after(self, acts: Iterable[Act]) -> "Backing":
        """Once `acts` have taken place. Segments beyond the zone never move."""
        places, backed = list(self.places), {place: index for index, place in enumerate(self.places)}
        for act in acts:
            if isinstance(act, Map):
                assert places[act.segment_index] is None, (act, self)
                places[act.segment_index], backed[act.extent] = act.extent, act.segment_index
            elif isinstance(act, Unmap):
                places[backed.pop(act.extent)] = None
        return Backing(tuple(places))


def at_home(zone: Zone | None) -> Backing:
    return Backing(tuple(zone.home(i) for i in range(zone.num_segments)) if zone else ())


def release(zone: Zone, lend: tuple[Transfer, ...]) -> tuple[Act, ...]:
    """From all at home to all lent; `lend` passes the cache's slots on, in its place of the order."""
    first = [part for part in zone.parts if part.name != HEAD]
    last = [part for part in zone.parts if part.name == HEAD]
    segments = range(zone.num_segments)
    return (
        *(Transfer(part.extent, part.name, NOBODY) for part in first),
        *lend,
        *(Transfer(part.extent, part.name, NOBODY) for part in last),
        *(Unmap(zone.home(i)) for i in segments),
        *(Map(i, zone.behind(i)) for i in segments),
        Transfer(zone.all_behind, NOBODY, PROMPT),
    )


def restore(zone: Zone, backing: Backing, ledger: Ledger, give_back: tuple[Transfer, ...]) -> tuple[Act, ...]:
    """What is missing until all is at home, whatever has taken place of a release or of a restore."""
    return (*_shrink(zone, backing, ledger), *_take_back(zone, ledger, give_back))


def _shrink(zone: Zone, backing: Backing, ledger: Ledger) -> Iterator[Act]:
    if ledger.is_owner(PROMPT, zone.all_behind):
        yield Transfer(zone.all_behind, PROMPT, NOBODY)
    for i in reversed(range(zone.num_segments)):
        if backing.places[i] == zone.behind(i):
            yield Unmap(zone.behind(i))
        if backing.places[i] != zone.home(i):
            yield Map(i, zone.home(i))


def _take_back(zone: Zone, ledger: Ledger, give_back: tuple[Transfer, ...]) -> Iterator[Act]:
    """Owners in the reverse order of release."""
    away = [part for part in reversed(zone.parts) if ledger.is_owner(NOBODY, part.extent)]
    yield from (Transfer(part.extent, NOBODY, part.name) for part in away if part.name == HEAD)
    yield from give_back
    yield from (Transfer(part.extent, NOBODY, part.name) for part in away if part.name != HEAD)
