"""A drafter in worlds: it drafts, its drafts are taken and taken back, and every cell of it is judged."""

import gc
from dataclasses import replace

import pytest

from fuzz.garbage import swept_between_worlds
from fuzz.minimize import _plainer
from sim.world.bounds import check_geometry
from sim.world.card import FaultKind
from sim.world.decisions import Advance, Begin, Fault
from sim.world.driver import Driver
from sim.world.errors import WorldFault
from sim.world.geometry import Geometry
from sim.world.sites import SITES, site_of
from strata.core.commands import GraphLaunch, Stream

DRAFTING = Geometry(
    (4096, 2053, 4096),
    num_experts=5,
    context_tokens=700,
    arena_bytes=180_224,
    segment_bytes=2048,
    min_cache_slots=2,
    num_cache_slots=8,
    ring_slots=3,
    parked_bytes=3000 * 32,
    drafter_experts=6,
    drafter_blob_bytes=1027,
    head_bytes=3073,
    draft_head_bytes=1025,
    is_elastic=True,
    lends_block=True,
    lends_head=True,
    repeat_min_tokens=100,
    window_rows=4,
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"least_draft_percent": 50},
        {"recurrent": (1,), "num_checkpoints": 1},
        {"short_read_tokens": 64},
        {"is_elastic": False, "lends_block": False, "lends_head": False, "repeat_min_tokens": -1, "room_min_tokens": 0},
    ],
    ids=str,
)
def test_a_drafter_drafts_and_conversations_take_its_cells_along(changes: dict[str, object]) -> None:
    driver = Driver(replace(DRAFTING, **changes))  # type: ignore[arg-type]
    for begin in (Begin(120, max_tokens=25), Begin(200, salt=1, max_tokens=25), Begin(3, shared=100, base=2)):
        driver.apply(begin)
        driver.apply(Advance(400))
        assert not driver.is_open
    driver.finish()
    for what in ("drafter's draft accepted", "drafter's draft taken back", "parked"):
        assert driver.sometimes[what], what


def test_a_wrong_cell_of_the_drafter_is_seen() -> None:
    driver = Driver(DRAFTING)
    driver.apply(Begin(120, max_tokens=3))
    driver.apply(Advance(400))
    driver.apply(Begin(1, shared=5000, max_tokens=1))
    kv = driver.card.plan.kv[DRAFTING.num_layers]
    driver.card.payload.arena(kv)[4 * 100] ^= 1
    with pytest.raises(WorldFault, match="cell 100 of the drafter"):
        driver.apply(Advance(400))


def test_a_wrong_draft_is_seen() -> None:
    driver = Driver(DRAFTING)
    driver.apply(Begin(120, max_tokens=25))
    while not driver._drafter.drafts:
        driver.apply(Advance())
    driver._drafter.drafts = tuple(draft + 1 for draft in driver._drafter.drafts)
    with pytest.raises(WorldFault, match="the drafter's drafts are"):
        driver.apply(Advance(400))


@pytest.mark.parametrize("site", ["head comes", "draft head comes", "block comes", "copy into a head", "first window"])
def test_an_aimed_failure_strikes_there_and_is_survived(site: str) -> None:
    driver = Driver(DRAFTING)
    driver.apply(Fault(0, FaultKind.REFUSED, at=site))
    driver.apply(Begin(300, max_tokens=9))
    driver.apply(Advance(400))
    assert driver.sometimes[f"survived a fault at {site}"] == 1
    driver.finish()


def test_every_site_is_a_word_for_some_command() -> None:
    assert len(set(SITES)) == len(SITES)
    driver = Driver(DRAFTING)
    window = GraphLaunch(Stream.VERIFIER, "window 1", 1)
    assert site_of(driver.card, window) == "first window"
    driver.apply(Begin(300))
    driver.apply(Advance(400))
    assert site_of(driver.card, window) == ""


def test_no_stages_draft_and_no_drafter_has_more_experts_than_a_mark_can_choose() -> None:
    check_geometry(DRAFTING)
    staged = replace(DRAFTING, is_elastic=False, lends_block=False, lends_head=False, repeat_min_tokens=-1)
    with pytest.raises(ValueError, match="several stages"):
        check_geometry(replace(staged, splits=(1,), arenas=(180_224,)))
    with pytest.raises(ValueError, match="40 experts"):
        check_geometry(replace(DRAFTING, drafter_experts=40))
    check_geometry(replace(DRAFTING, drafter_experts=40, window_rows=1))
    assert replace(DRAFTING, window_rows=1) in list(_plainer(replace(DRAFTING, least_draft_percent=50)))


def test_garbage_is_collected_as_before_behind_a_campaign() -> None:
    gc.unfreeze()  # of whoever froze it
    was_enabled = gc.isenabled()
    with swept_between_worlds() as sweep:
        assert not gc.isenabled() and gc.get_freeze_count() > 0
        for _ in range(40):
            sweep()
    assert (gc.isenabled(), gc.get_freeze_count()) == (was_enabled, 0)
