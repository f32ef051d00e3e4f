"""All kept traces and all planted bugs' commands on a card, each in every order that may show something, held against
the twin; one line of JSON at the end.

    CUDA_VISIBLE_DEVICES=0 python -m bench.replay_all [--shard 0/4] [--seconds 150] [--fake]

One process a card: two share it in slices of milliseconds, and a replay waits for the card at each of its commands.
`--shard I/N` takes every N-th trace from the I-th on, so that N cards play them all. `--fake` plays on the driver
without a card. Exit code 1 when a trace differs, a bug that shows is not dead on the twin, or time was up before all
were played, which the line says too.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from strata.core.errors import DeviceError
from strata.replay_card import ReplayCard
from tests.cuda.replays import PLANTED, Compared, card_on_fake, compare, record_planted
from tests.trace.builders import RECORDABLE, recorded

MAX_FAILED = 5
"""Traces that could not be played to their end, a lost card's included; then nothing else is tried."""

KEPT = [path.stem for path in RECORDABLE]


@dataclass
class Summary:
    """`steps` of all orders together. A trace of a planted bug *shows* where the card does something else than it
    should, and is dead where the twin refuses it. `failed`: what could not be played to its end."""

    traces: int = 0
    hash_equal: int = 0
    steps: int = 0
    planted: int = 0
    planted_shown: int = 0
    planted_shown_dead: int = 0
    not_played: int = 0
    seconds: float = 0.0
    different: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not (self.different or self.alive or self.not_played or self.failed)

    def note_kept(self, name: str, found: Compared) -> None:
        self.traces += 1
        self.steps += sum(order.num_steps for order in found.orders)
        if found.is_dead or found.shows:
            wrong = [order.order for order in found.orders if not order.is_equal or order.replayed.deviations]
            self.different.append(f"{name}: {', '.join(wrong) or 'refused by the twin'}")
        else:
            self.hash_equal += 1

    def note_planted(self, name: str, found: Compared) -> None:
        self.planted += 1
        self.steps += sum(order.num_steps for order in found.orders)
        self.planted_shown += found.shows
        self.planted_shown_dead += found.shows and found.is_dead
        if found.shows and not found.is_dead:
            self.alive.append(name)


def play_all(card: ReplayCard, kept: Sequence[str], planted: Sequence[str], *, seconds: float) -> Summary:
    began, summary = time.monotonic(), Summary()
    with tempfile.TemporaryDirectory() as folder:
        traces, lost = record_planted(planted, Path(folder))
    summary.failed += [f"{name}: its trace finds nothing" for name in lost]
    jobs = [(summary.note_kept, name, None) for name in kept] + [
        (summary.note_planted, name, trace) for name, trace in traces.items()
    ]
    for note, name, trace in jobs:
        if len(summary.failed) - len(lost) >= MAX_FAILED or time.monotonic() - began > seconds:
            summary.not_played += 1
            continue
        commands = recorded(name).commands if trace is None else trace
        try:
            note(name, compare(commands, card))
        except (DeviceError, AssertionError) as error:
            summary.failed.append(f"{name}: {type(error).__name__}: {error}")
    summary.seconds = round(time.monotonic() - began, 1)
    return summary


@contextmanager
def _real_card() -> Iterator[ReplayCard]:
    card = ReplayCard()
    try:
        yield card
    finally:
        card.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shard", default="0/1", metavar="I/N")
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--most", type=int, help="so many kept traces and so many planted bugs at most")
    parser.add_argument("--fake", action="store_true")
    options = parser.parse_args(arguments)
    index, number = (int(part) for part in options.shard.split("/"))
    kept, planted = KEPT[index::number][: options.most], PLANTED[index::number][: options.most]
    with card_on_fake() if options.fake else _real_card() as card:
        summary = play_all(card, kept, planted, seconds=options.seconds)
    print(json.dumps({"shard": options.shard, **asdict(summary)}))
    return 0 if summary.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
