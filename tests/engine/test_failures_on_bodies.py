"""The failure tests on bodies with bytes: the twin, and the CUDA body on the driver without a card. On a card they are
`tests/cuda/test_failures_on_card.py`."""

import pytest

from strata.core.commands import Access, Fill, Stream
from strata.core.extent import Extent
from tests.engine.byte_card import SCENARIOS, byte_card
from tests.engine.failures import fail_each

STEPS = [pytest.param(None, id="each kind"), pytest.param(1, id="all", marks=pytest.mark.soak)]
KINDS = [
    pytest.param(True, id="refused", marks=pytest.mark.soak),
    pytest.param(False, id="on its way"),
]
BODIES = [pytest.param("twin", marks=pytest.mark.soak), "cuda-on-fake-driver"]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_refused", KINDS)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_whatever_fails_every_byte_comes_home(scenario: str, body: str, is_refused: bool, step: int | None) -> None:
    assert fail_each(scenario, body, step=step, is_refused=is_refused) >= 8


def test_one_wrong_byte_in_any_of_them_is_seen() -> None:
    with byte_card(SCENARIOS["lent slots of a hybrid"], "cuda-on-fake-driver") as card:
        assert card.not_home() == []
        changed = [access for access, _ in card.homes()][::30]
        for access in changed:
            byte = Access(Extent(access.extent.end_bytes - 1, 1), access.owner)
            card.device.submit([Fill(Stream.VERIFIER, byte, 0xA8)])
        assert card.not_home() == changed
        with pytest.raises(AssertionError, match=f"owner='{changed[0].owner}'"):
            card.assert_all_home()
