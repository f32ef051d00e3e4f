"""A card's speeds are measured through the body itself, on real bytes; what fails is a sentence, and nothing stays."""

import pytest

from strata.card_speed import LOADS, ROUNDS, CardSpeed, measure_card
from tests.cuda.builders import PAGE_BYTES, fake_driver
from tests.cuda.fake_driver import GRANULARITY_BYTES, CUresult, FakeDriver
from tests.cuda.host_views import HostViews


def measured(fake: FakeDriver) -> CardSpeed | str:
    sizes = {"block_bytes": 4 * GRANULARITY_BYTES, "segment_bytes": GRANULARITY_BYTES}
    return measure_card(0, **sizes, api=fake, make_views=HostViews)


def test_link_and_memory_are_measured_and_everything_is_given_back():
    with fake_driver() as fake:
        speed = measured(fake)
        assert isinstance(speed, CardSpeed)
        assert speed.link_gb_s > 0 and speed.hbm_gb_s > 0
        assert (speed.free_bytes, speed.pinned_bytes) == (1 << 30, speed.asked_bytes)
        assert len(fake.named("cuMemcpyHtoDAsync")) == ROUNDS * LOADS
        assert fake.leftovers() == {}


def test_what_could_not_be_pinned_is_told():
    with fake_driver(pinnable_bytes=PAGE_BYTES) as fake:
        speed = measured(fake)
        assert isinstance(speed, CardSpeed) and speed.pinned_bytes < speed.asked_bytes


@pytest.mark.parametrize("name", ["cuInit", "cuMemCreate", "cuStreamCreate", "cuMemMap", "cuEventRecord"])
def test_a_refusal_at_any_point_is_a_sentence_and_nothing_stays(name):
    with fake_driver() as fake:
        fake.refuse(name, nth=1, code=CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        speed = measured(fake)
        assert isinstance(speed, str) and speed
        assert fake.leftovers() == {}
