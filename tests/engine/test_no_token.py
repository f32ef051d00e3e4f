"""A card cannot raise where no token can follow: it leaves -1 in the result, and the runner refuses it."""

import struct

import pytest

from strata.core.errors import DeviceError
from strata.core.memory.shapes import PlanOptions
from tests.engine.symbolic_card import prompt, small_inventory, symbolic_card


def test_a_token_below_zero_breaks_the_request_and_the_next_one_is_served():
    card = symbolic_card(small_inventory(), PlanOptions(900, chunk_tokens=256), arena_bytes=4 * 1024 * 1024)
    card.runner.begin(prompt(1))
    card.play()
    card.payload.host(card.plan.staging.result)[:8] = struct.pack("<q", -1)
    with pytest.raises(DeviceError, match="no token can follow"):
        card.runner.advance(is_cancelled=False)
    card.runner.recover()
    assert card.serve(prompt(5, max_tokens=2)) == 2


def test_a_touched_runner_has_served_a_chunk_and_a_window_that_count_for_nothing():
    card = symbolic_card(small_inventory(), PlanOptions(900, chunk_tokens=256), arena_bytes=4 * 1024 * 1024)
    before = card.runner.snapshot()
    num_launches = before.device.num_launches
    card.play()
    card.runner._touch()
    after = card.runner.snapshot()
    assert after.device.num_launches > num_launches and after.device.num_graph_launches == 1
    assert after.counts == before.counts
    assert card.serve(prompt(5, max_tokens=2)) == 2
