"""The failure tests of `tests/engine` on a card: `python -m pytest -m gpu tests/cuda/test_failures_on_card.py`, with -s
for the figures. Every command of a request that reads on a loan fails in its turn."""

import faulthandler
import time
from collections.abc import Iterator

import pytest

from tests.device.cuda_bodies import why_no_card
from tests.engine.byte_card import SCENARIOS
from tests.engine.failures import fail_each

WHY_NO_CARD = why_no_card()

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(WHY_NO_CARD is not None, reason=str(WHY_NO_CARD))]

WATCHDOG_S = 300


@pytest.fixture(autouse=True)
def _watchdog() -> Iterator[None]:
    """A card that never reports would hold this process for ever."""
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "on its way"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_whatever_fails_every_byte_comes_home(scenario: str, is_refused: bool) -> None:
    began = time.monotonic()
    number = fail_each(scenario, "cuda", step=1, is_refused=is_refused)
    print(f"\n{scenario}: {number} failures, {time.monotonic() - began:.1f} s")
    assert number > 50
