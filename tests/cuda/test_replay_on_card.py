"""Command traces on a card: `python -m pytest -m gpu tests/cuda/test_replay_on_card.py`, with -s for the figures.

One process, one context, one card, and nobody else on it: processes share a card in slices of milliseconds, and each
step waits for it. A stream that is never let go on would hold up this process for ever, so it dumps its stack and ends.
`python -m bench.replay_all` does the same in a shard, within a time, and says in one line what it found.
"""

import faulthandler
import time
from collections.abc import Iterator

import pytest

from strata.boot_replay import play_on_card, streams_of
from strata.core.errors import DeviceError
from strata.replay_card import ReplayCard
from strata.trace.command_trace import CommandTrace
from strata.trace.compared import Played, compare_orders
from strata.trace.order import ORDERS, orders_for
from tests.cuda.replays import PLANTED, Compared, on_twin, record_planted
from tests.device.cuda_bodies import why_no_card
from tests.trace.builders import RECORDABLE, recorded

WHY_NO_CARD = why_no_card()

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(WHY_NO_CARD is not None, reason=str(WHY_NO_CARD))]

KEPT = [path.stem for path in RECORDABLE]
WATCHDOG_S = 570

Prepared = dict[str, tuple[CommandTrace, Played]]


@pytest.fixture(scope="module")
def card() -> Iterator[ReplayCard]:
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
    made = ReplayCard()
    yield made
    made.close()
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def kept() -> Prepared:
    return {name: on_twin(recorded(name).commands) for name in KEPT}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    traces, lost = record_planted(PLANTED, tmp_path_factory.mktemp("planted"))
    assert lost == []
    return {name: on_twin(trace) for name, trace in traces.items()}


@pytest.mark.parametrize("order", ORDERS)
def test_every_kept_trace_is_hash_equal(order: str, card: ReplayCard, kept: Prepared) -> None:
    began, num_steps, wrong = time.monotonic(), 0, []
    for name, (trace, twin) in kept.items():
        try:
            (found,) = compare_orders(twin, play_on_card(trace, card, {order: ORDERS[order]}))
        except DeviceError as error:
            raise AssertionError(f"{name} ended the card: {error}") from error
        num_steps += found.num_steps
        if twin.replayed.deviations or found.replayed.deviations or not found.is_equal:
            wrong.append((name, found.difference, found.wrong_run, found.replayed.deviations))
    seconds = time.monotonic() - began
    print(f"\n{order}: {len(kept)} traces, {num_steps:,} steps, {len(wrong)} differ, {seconds:.1f} s")
    assert wrong == []
    assert len(kept) > 200 and num_steps > 20_000


def test_a_planted_bug_that_shows_is_dead_on_the_twin(card: ReplayCard, planted: Prepared) -> None:
    """In every order that may show something. Most planted bugs cannot show here: they ask for what is right on a card
    and wrong for the reply, or stop at a rule that no byte tells of."""
    began, shown, alive = time.monotonic(), [], []
    for name, (trace, twin) in planted.items():
        try:
            found = Compared(twin, compare_orders(twin, play_on_card(trace, card, orders_for(streams_of(trace)))))
        except DeviceError as error:
            raise AssertionError(f"{name} ended the card: {error}") from error
        if found.shows:
            shown.append(name)
            alive += [] if found.is_dead else [name]
    seconds = time.monotonic() - began
    print(f"\n{len(planted)} planted bugs, {len(shown)} show on the card, {seconds:.1f} s: {', '.join(shown)}")
    assert alive == []
    assert len(planted) > 200 and len(shown) >= 10
