"""Traces on a card, or on the driver without one, held against the twin; and the commands that planted bugs give."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fuzz.planted import MUTANTS
from fuzz.strength import run_child
from strata.boot_replay import play_on_card, play_on_twin, streams_of
from strata.replay_card import ReplayCard
from strata.trace.command_trace import CommandTrace, read_trace
from strata.trace.compared import OrderFound, Played, compare_orders
from strata.trace.order import Late, orders_for
from tests.cuda.builders import fake_driver
from tests.cuda.host_fingerprint import host_fingerprint
from tests.cuda.host_views import HostViews
from tests.trace.builders import RECORDABLE, REGRESS

MAX_ENTRIES = 2000
"""Of a planted bug's commands: a request that never ends gives 32,000, all alike."""
PLANTED = [path.stem for path in RECORDABLE if (MUTANTS / path.name).with_suffix(".py").exists()]
"""Planted bugs that have a trace of one card."""


@dataclass(frozen=True)
class Compared:
    twin: Played
    orders: tuple[OrderFound, ...]

    @property
    def is_dead(self) -> bool:
        """The twin refuses something of it."""
        return bool(self.twin.replayed.deviations)

    @property
    def shows(self) -> bool:
        """A card does something else than it should, in some order, or refuses what it was asked for."""
        refuses = any(deviation.found for order in self.orders for deviation in order.replayed.deviations)
        return refuses or not all(order.is_equal for order in self.orders)


def on_twin(trace: CommandTrace) -> tuple[CommandTrace, Played]:
    """With the trace, for whoever does this in another process."""
    return trace, play_on_twin(trace)


def compare(trace: CommandTrace, card: ReplayCard, orders: dict[str, Late] | None = None) -> Compared:
    """In those of `orders`, or all that may show something."""
    twin = play_on_twin(trace)
    chosen = orders_for(streams_of(trace)) if orders is None else orders
    return Compared(twin, compare_orders(twin, play_on_card(trace, card, chosen)))


@contextmanager
def card_on_fake() -> Iterator[ReplayCard]:
    """Afterwards nothing of it is kept."""
    with fake_driver(total_bytes=1 << 33) as fake:
        card = ReplayCard(api=fake, make_views=HostViews, launch=host_fingerprint)
        yield card
        card.close()
        assert fake.leftovers() == {}


def record_planted(names: Sequence[str], folder: Path) -> tuple[dict[str, CommandTrace], list[str]]:
    """What the core with this planted bug asks of a card in the trace that finds it; nothing where there is not even a
    plan. And the bugs that their traces do not find. A process each, as many at once as there are processors."""

    def record(name: str) -> bool:
        out = folder / f"{name}.jsonl"
        report = run_child([MUTANTS / f"{name}.py"], traces=[REGRESS / f"{name}.jsonl"], record=out)
        return bool(report["detected"])

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = dict(zip(names, threads.map(record, names), strict=True))
    written = {name: folder / f"{name}.jsonl" for name in names if found[name]}
    traces = {name: _beginning_of(path) for name, path in written.items() if path.exists()}
    return traces, [name for name in names if not found[name]]


def _beginning_of(path: Path) -> CommandTrace:
    trace = read_trace(path.read_text("utf-8"))
    return replace(trace, entries=trace.entries[:MAX_ENTRIES])
