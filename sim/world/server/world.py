"""One simulated server from its start to its end: clients come and go, failures and signals strike, and then

    liveness     failures stop, and one more request is answered rightly (unless the server was told to stop)
    quiescence   after the end: the card is what it was at start, no request is open, no task is left

A world is a value (`WorldPlan`), so it can be drawn from a seed, written by hand, and run again.
"""

import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import trio

from sim.world.card import FaultKind
from sim.world.checks import WorldFault
from sim.world.server.asks import Ask
from sim.world.server.clients import Client, Tally
from sim.world.server.journal import Journal
from sim.world.server.site import Site, SiteOptions, watched_logs
from sim.world.server.virtual_time import run_in_virtual_time
from sim.world.server.visits import Call, Failure, Visit
from strata.server.serving import CLOSING_S, FAREWELL_S

HORIZON_S = 3600.0
PROBE = Ask((("user", "is anybody there"),), max_tokens=3, seed=11)
FAULTS_TO_LOSE_A_DEVICE = 2
"""A mending is tried three times, and a failure may cost two tries: see `sim/world/driver.py`."""


@dataclass(frozen=True, slots=True)
class WorldPlan:
    """`start_failure`: this command of the start-up is refused, which ends the process before anybody is served.
    `signals_s`: when the process is told to stop; a second one means at once."""

    seed: str
    options: SiteOptions
    visits: tuple[Visit, ...]
    failures: tuple[Failure, ...] = ()
    start_failure: int | None = None
    signals_s: tuple[float, ...] = ()

    @property
    def num_steps(self) -> int:
        return sum(len(visit.acts) for visit in self.visits)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`faults_found` is empty for a world in which every promise was kept."""

    tally: Tally
    digest: str
    faults_found: tuple[str, ...]
    num_failures: int
    virtual_s: float


def run_world(plan: WorldPlan, sink: Callable[[str], None] | None = None) -> Outcome:
    """Never raises for what it finds. The same plan gives the same digest everywhere."""
    journal, tally = Journal(sink), Tally()
    site = Site(plan.options, Random(f"{plan.seed} site"), journal)
    with watched_logs(site):
        virtual_s = run_in_virtual_time(lambda: _run(plan, site, tally), seed=f"{plan.seed} turns")
    return Outcome(tally, journal.digest(), tuple(site.faults_found), site.num_faults, virtual_s)


async def _run(plan: WorldPlan, site: Site, tally: Tally) -> float:
    num_tasks = trio.lowlevel.current_statistics().tasks_living
    try:
        with trio.fail_after(HORIZON_S), site.scope:
            await _live_through(plan, site, tally)
            _check_end(plan, site)
    except trio.TooSlowError:
        site.accuse(f"the world does not end within {HORIZON_S} s")
    except Exception as error:  # whatever comes out of a server is what these worlds look for
        site.accuse("".join(traceback.format_exception(error)))
    if not site.faults_found and trio.lowlevel.current_statistics().tasks_living != num_tasks:
        site.accuse("tasks are left")
    now = trio.current_time()
    site.journal.note("world", "is over")
    return now


async def _live_through(plan: WorldPlan, site: Site, tally: Tally) -> None:
    async with trio.open_nursery() as process:
        if plan.start_failure is not None:
            site.card.device.faults.plan(plan.start_failure, FaultKind.REFUSED)
        process.start_soon(site.serve)
        await site.is_ready_or_over.wait()
        async with trio.open_nursery() as happening:
            for number, visit in enumerate(plan.visits):
                happening.start_soon(Client(site, visit, f"client{number}", tally).run)
            for failure in plan.failures:
                happening.start_soon(_plant, site, failure)
            for at_s in plan.signals_s:
                happening.start_soon(_signal, site, at_s)
        site.card.device.faults.planned.clear()
        if not site.is_stopping:
            await _probe(site, tally)
            site.signal()
        await site.is_over.wait()
        _check_duration(plan, site)
        _note(site, tally)


async def _plant(site: Site, failure: Failure) -> None:
    await trio.sleep(failure.at_s)
    kind = FaultKind.REFUSED if failure.is_refused else FaultKind.FAILED
    site.journal.note("failure", f"{kind} after {failure.after}")
    site.card.device.faults.plan(failure.after, kind)


async def _signal(site: Site, at_s: float) -> None:
    await trio.sleep(at_s)
    site.signal()


async def _probe(site: Site, tally: Tally) -> None:
    """Nobody else asks any more, so this one must be served, and rightly."""
    while site.steward.statistics().num_queued or site.steward.statistics().num_running:  # noqa: ASYNC110
        await trio.sleep(1.0)  # in virtual time; the steward has no event for it
    before = tally.outcomes["whole reply"]
    await Client(site, Visit(0.0, (Call(PROBE),)), "probe", tally).run()
    if tally.outcomes["whole reply"] == before:
        raise WorldFault("the last request was not answered")


def _note(site: Site, tally: Tally) -> None:
    statistics = site.steward.statistics()
    tally.sometimes["bytes lent"] += statistics.lent_bytes > 0
    tally.sometimes["failure survived"] += site.num_faults > 0 and site.lost_s == math.inf
    tally.sometimes["device lost"] += site.lost_s < math.inf and site.is_started
    tally.sometimes["device lost at start"] += not site.is_started
    tally.sometimes["stopped at once"] += len(site.signalled_s) > 1


def _check_duration(plan: WorldPlan, site: Site) -> None:
    """A server that is told to stop has stopped once its last client is answered, and in time however they behave."""
    longest_step_s = plan.options.step_s[1] + plan.options.slow_step_s
    limits = plan.options.limits
    bound_s = site.stopping_since_s + limits.shutdown_grace_s + CLOSING_S
    if len(site.signalled_s) > 1:
        bound_s = min(bound_s, site.signalled_s[1] + FAREWELL_S)
    bound_s = min(bound_s, max(site.stopping_since_s, site.last_act_s) + FAREWELL_S)
    if site.ended_s > bound_s + 2 * longest_step_s:
        raise WorldFault(f"the server was told to stop at {site.signalled_s} and ended at {site.ended_s}")


def _check_end(plan: WorldPlan, site: Site) -> None:
    statistics = site.steward.statistics()
    ended = statistics.num_finished + statistics.num_cancelled + statistics.num_broken
    if statistics.num_queued or statistics.num_running or site.open_tickets():
        raise WorldFault(f"requests are open at the end: {statistics}")
    if site.num_submitted < ended:
        raise WorldFault(f"{site.num_submitted} requests were accepted, {ended} ended")
    if site.app.bodies.held_bytes:
        raise WorldFault(f"{site.app.bodies.held_bytes} B of bodies are held at the end")
    is_lost = site.lost_s < math.inf
    if is_lost and site.num_faults < FAULTS_TO_LOSE_A_DEVICE and plan.start_failure is None:
        raise WorldFault(f"the device is lost after {site.num_faults} failures")
    if not is_lost and len(site.signalled_s) < 2:
        site.check_rest()
