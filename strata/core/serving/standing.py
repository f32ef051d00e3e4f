"""What every state of the serving machine carries, and how the books follow what the shell did."""

from dataclasses import dataclass, replace

from strata.core.commands import Notify, Stream, Transfer
from strata.core.lending.ledger import Holding, Ledger
from strata.core.lending.loan import Loan, LoanPhase
from strata.core.lending.room import Room
from strata.core.lending.segments import Act, Backing, SegmentLoan, at_home
from strata.core.memory.planner import Plan
from strata.core.memory.residency import Residency
from strata.core.serving.checkpoints import NO_CHECKPOINTS, Checkpoints, num_checkpoints
from strata.core.serving.conversations import NOTHING_PARKED, ParkedConversations
from strata.core.serving.prefix import NO_SESSION, Session
from strata.core.serving.startup import FIRST_TABLE_VERSION
from strata.core.serving.steps import Check, Orders


@dataclass(frozen=True, slots=True)
class Standing:
    """`serial` numbers the notices, so that no two tags are equal; `session` is what K/V holds, `parked` what host
    memory holds, `checkpoints` which states of the session it has; `cache` which blobs lie in the slots of the expert
    cache; `table_version` the table published last. Three kinds of loan may be out: `loan` of cache slots, `room` and
    `segments`; `checks` are still to be made of what comes home of these. `is_broken`: a command failed since all was
    at rest, so what it was to write is anything; `ordered`: the acts that are in the books once the shell says that
    they took place; `num_passes`: of one stage of several, chunks and windows that it has begun since all were at
    rest."""

    ledger: Ledger
    backing: Backing
    cache: Residency
    serial: int = 0
    session: Session = NO_SESSION
    parked: ParkedConversations = NOTHING_PARKED
    checkpoints: Checkpoints = NO_CHECKPOINTS
    table_version: int = FIRST_TABLE_VERSION
    loan: Loan | None = None
    room: Room | None = None
    segments: SegmentLoan | None = None
    checks: tuple[Check, ...] = ()
    is_broken: bool = False
    ordered: tuple[Act, ...] = ()
    num_passes: int = 0

    @property
    def is_lending(self) -> bool:
        return not (self.loan is None and self.room is None and self.segments is None)

    @property
    def is_restoring(self) -> bool:
        """Whether anything that was lent is on its way home, as far as the host knows."""
        loans = (self.loan, self.room, self.segments)
        return self.is_lending and any(loan is not None and loan.phase is LoanPhase.RESTORING for loan in loans)

    @property
    def is_coming_home(self) -> bool:
        """Copies that the first window does not wait for may be under way: nothing drafts, and no loan is over, before
        they have landed (`lending.md` 5, 7 and 21)."""
        return not (self.room is None and self.segments is None)

    def booked(self, num_acts: int | None = None) -> "Standing":
        """The first `num_acts` of what was ordered took place, or all of it."""
        if not self.ordered:
            return self
        done = self.ordered[:num_acts]
        ledger = self.ledger.after(act for act in done if isinstance(act, Transfer))
        return replace(self, ledger=ledger, backing=self.backing.after(done), ordered=())

    def reached(self) -> "Standing":
        """All that was ordered took place, and all that was awaited has come."""
        booked, checkpoints = self.booked(), self.checkpoints.landed()
        if booked.cache.landing:
            booked = replace(booked, cache=replace(booked.cache, landing=()))
        return booked if checkpoints is booked.checkpoints else replace(booked, checkpoints=checkpoints)

    def check(self) -> None:
        """No swap is under way while anything is lent (`lending.md` 5, invariant 8). Where the act that closes a room
        failed, the swap ordered behind it never began, and what it was to move is mended with the room."""
        assert self.is_broken or not (self.is_lending and (self.cache.moving or self.cache.landing)), self


def first_standing(plan: Plan, cache: Residency) -> Standing:
    """After start: every region belongs to the owner of its name, and every segment is at home."""
    holdings = [Holding(region.extent, region.name) for region in plan.regions]
    if plan.zone is not None:
        holdings.append(Holding(plan.zone.all_behind, ""))
    parked = ParkedConversations(plan.options.parked_bytes)
    checkpoints = Checkpoints(num_checkpoints(plan))
    ledger = Ledger(tuple(holdings))
    ledger.check()
    return Standing(ledger, at_home(plan.zone), cache, parked=parked, checkpoints=checkpoints)


def forgetful(at: Standing, plan: Plan) -> Standing:
    """The same card, at rest, and nothing that was said: no session, none parked, no checkpoint, none counted."""
    first = first_standing(plan, at.cache)
    return replace(at, session=NO_SESSION, parked=first.parked, checkpoints=first.checkpoints)


HOME = "home"
"""First word of the notice behind the last copy home."""


def tell_home(at: Standing) -> tuple[Standing, Orders]:
    """A notice of the copies that the first window waits for too, for whoever measures them. Nothing else does."""
    return replace(at, serial=at.serial + 1), Orders((), (Notify(Stream.COPY, f"{HOME} {at.serial}"),))


def notify(at: Standing, streams: tuple[Stream, ...]) -> tuple[Standing, Orders]:
    """Await all that was issued on `streams`."""
    notices = tuple(Notify(stream, f"{stream} {at.serial}") for stream in streams)
    return replace(at, serial=at.serial + 1), Orders((), notices, tuple(notice.tag for notice in notices))
