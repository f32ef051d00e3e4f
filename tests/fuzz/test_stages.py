"""Several stages on as many twins: worlds hold, what each rule is for shows, and the checks for it fire."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from fuzz.campaign import Tally, run_seed
from fuzz.draw_stages import is_staged, two_stages
from fuzz.sometimes import STAGED
from sim.world.decisions import Advance, Begin, Cancel, Fault, Turn
from sim.world.errors import WorldFault
from sim.world.geometry import Delivery, Geometry
from sim.world.recording import record_commands
from sim.world.staged.driver import StagedDriver
from sim.world.staged.watch import Borders, StageDevice
from sim.world.trace import Trace, read_trace, write_trace
from strata.core.commands import Access, Copy, CopyPair, Stream
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.serving.steps import Orders
from strata.trace.entries import FaultKind
from strata.trace.jsonl import TraceError
from tests.engine.every_command import SHARDS, indexes_of

FIRST_SEED, NUM_WORLDS = 346, 6
"""From there the worlds show all of it soonest; whoever draws stages in another way looks for another place."""
READ = 300
HYBRID = replace(two_stages(), recurrent=(1, 3), num_checkpoints=2, parked_bytes=40_000)
LENDING = replace(two_stages(), arena_bytes=6 << 14, arenas=(6 << 14,))
SLAB = replace(
    two_stages(),
    blob_bytes=(7 * 4097, 7 * 2053, 7 * 5003, 7 * 4099),
    mixer_work_bytes=400,
    moe_work_bytes=400,
    has_slab=True,
    arena_bytes=24 << 14,
    arenas=(24 << 14,),
)
ONE_LENDS = replace(two_stages(), arenas=(6 << 14,))
"""The first stage reads in an arena of its own."""
ROOMED = replace(
    LENDING, drafter_experts=5, drafter_blob_bytes=7001, head_bytes=3001, room_min_tokens=0, arenas=(10 << 14,)
)


def answered(driver: StagedDriver, begin: Begin) -> None:
    driver.apply(begin)
    while driver.is_open:
        driver.apply(Advance())


def words_of(driver: StagedDriver) -> list[list[str]]:
    return [list(card.device.journal.words) for card in driver.cards]


@pytest.mark.slow
def test_worlds_of_several_stages_hold_and_show_what_they_should() -> None:
    tally, seeds = Tally(), (seed for seed in count(FIRST_SEED) if is_staged(seed))
    for _ in range(NUM_WORLDS):
        run_seed(next(seeds), tally)
    assert tally.failures == []
    assert [what for what in STAGED if not tally.sometimes[f"staged: {what}"]] == []


@pytest.mark.slow
def test_a_participant_lends_its_own_cache_and_nobody_elses() -> None:
    """Invariant 4: each stage acts and refills for its own loan; one that needs nothing lends and refills nothing."""
    both, one = StagedDriver(LENDING), StagedDriver(ONE_LENDS)
    for driver in (both, one):
        answered(driver, Begin(READ, max_tokens=2))
    assert words_of(both) == [["cache goes", "cache comes"]] * 2
    assert words_of(one) == [[], ["cache goes", "cache comes"]]
    refilled = [[card.runner.snapshot().counts.refilled_bytes for card in driver.cards] for driver in (both, one)]
    assert refilled[0][0] > 0 and refilled[0][0] != refilled[0][1]
    assert refilled[1] == [0, refilled[0][1]]


@pytest.mark.slow
def test_the_room_is_opened_on_the_drafters_card_alone() -> None:
    """Invariant 43."""
    driver = StagedDriver(ROOMED)
    answered(driver, Begin(READ, max_tokens=2))
    first, last = words_of(driver)
    assert first == ["cache goes", "cache comes"]
    assert last[0] == "room opens" and last[-1] == "room closes"
    driver.finish()


@pytest.mark.slow
def test_the_slab_of_each_stage_lies_in_what_that_stage_lends() -> None:
    """Invariant 43: on both cards programs of chunks worked behind the carve of their own loan (`check_workplaces`)."""
    driver = StagedDriver(SLAB)
    answered(driver, Begin(READ, max_tokens=2))
    for card in driver.cards:
        assert card.plan.prompt.slab_bytes > 0 and not any(region.name == "scratch" for region in card.plan.regions)
        assert any(work.place.size_bytes for work in card.device.journal.workplaces)
    driver.finish()


@pytest.mark.slow
def test_checkpoints_stand_where_all_stages_stand() -> None:
    """Invariant 42: a client that leaves at any step, with either stage ahead; the driver holds sessions, states and
    checkpoints of both against the ids, and the same prompt is answered rightly from what is left."""
    positions = set()
    for ahead in (0, 1):
        for steps in (1, 13, 17, 21, 26, 200):
            driver = StagedDriver(HYBRID)
            driver.apply(Turn(ahead, 1000))
            driver.apply(Begin(520, max_tokens=2))
            driver.apply(Advance(steps))
            driver.apply(Cancel())
            driver.apply(Advance(200))
            assert not driver.is_open
            positions.add(driver.checkpoints)
            answered(driver, Begin(1, shared=520, base=1))
            assert driver.sometimes["staged: window answered"] > 0
    assert () in positions and len(positions) > 2


@pytest.mark.slow
def test_two_windows_are_in_flight_and_none_sees_what_prompts_work_in() -> None:
    """Invariant 44: a prompt read in chunks, then one read by windows, whose rows cross the border two at a time; each
    command is held against it (`sim/world/staged/watch.py`)."""
    driver = StagedDriver(replace(LENDING, short_read_tokens=40, window_rows=3))
    answered(driver, Begin(READ, max_tokens=2))
    num_handed = driver.borders.num_handed
    answered(driver, Begin(30, salt=1))
    assert driver.borders.num_handed - num_handed == 11
    assert driver.sometimes["staged: windows read on two stages at once"] > 0
    assert driver.sometimes["staged: two passes in flight"] > 0


@pytest.mark.slow
@SHARDS
@pytest.mark.parametrize("geometry", [ROOMED, HYBRID], ids=["room", "hybrid"])
@pytest.mark.parametrize("stage", [0, 1])
def test_everything_comes_home_whichever_command_fails_on_either_stage(
    geometry: Geometry, stage: int, shard: int
) -> None:
    """And the next request is answered; the driver judges both. Every 64th command, or with the soak every 16th."""
    reference = StagedDriver(geometry)
    first = reference.cards[stage].device.statistics().num_commands
    answered(reference, Begin(520, max_tokens=2))
    last = reference.cards[stage].device.statistics().num_commands
    for number, after in enumerate(indexes_of(last - first, shard)):
        if number % 16:
            continue
        driver = StagedDriver(geometry)
        driver.apply(Fault(after, FaultKind.FAILED if number % 32 else FaultKind.REFUSED, stage))
        answered(driver, Begin(520, max_tokens=2))
        assert driver.cards[stage].device.faults.num_fired == 1
        assert driver.sometimes["staged: recovered"] == 1
        answered(driver, Begin(17, salt=1, max_tokens=2))
        assert driver.sometimes["staged: window answered"] >= 2


def test_what_a_request_was_told_of_early_is_forgotten_when_the_next_begins() -> None:
    driver = StagedDriver(LENDING)
    answered(driver, Begin(READ))
    assert any(runner._early for runner in driver.runner.runners)
    driver.apply(Begin(17, salt=1))
    assert not any(runner._early for runner in driver.runner.runners)


def test_rows_that_are_written_over_or_taken_twice_are_seen() -> None:
    borders, rows = Borders(), HostExtent(HostSpace.STAGING, 0, 64)
    borders.leave(0, rows)
    with pytest.raises(WorldFault, match="nobody has taken in"):
        borders.leave(0, rows)
    taking = Orders(handed=((rows, rows),))
    borders.take(1, taking)
    with pytest.raises(WorldFault, match="left None B"):
        borders.take(1, taking)


def device_of(driver: StagedDriver, stage: int) -> StageDevice:
    device = driver.cards[stage].device
    assert isinstance(device, StageDevice)
    return device


def wrong_commands(driver: StagedDriver) -> Iterator[Copy]:
    """Each is right for the twin, and breaks one rule of stages."""
    card = driver.cards[1]
    plan, staging = card.plan, card.plan.staging
    slot = plan.slots[0]
    home = Access(slot.extent.part(offset_bytes=0, size_bytes=5003), "cache", f"blob {slot.layer} {slot.expert}")
    yield Copy(Stream.COPY, (CopyPair(plan.pack.blobs[slot.layer][slot.expert], home),))
    hidden = Access(Extent(plan.verifier.buffers.hidden.offset_bytes, 16), "verifier")
    yield Copy(Stream.VERIFIER, (CopyPair(staging.chunk_rows.part(offset_bytes=0, size_bytes=16), hidden),))


def test_a_refill_that_nobody_lent_for_and_a_prompts_rows_in_a_window_are_seen() -> None:
    driver = StagedDriver(LENDING)
    refill, peek = wrong_commands(driver)
    device = device_of(driver, 1)
    device.host(driver.cards[1].plan.staging.chunk_rows)[:] = bytes(driver.cards[1].plan.staging.chunk_rows.size_bytes)
    for command, words in ((refill, "refills"), (peek, "no window sees")):
        with pytest.raises(WorldFault, match=words):
            device.submit((command,))


def test_a_staged_world_is_a_trace_of_decisions_and_none_of_commands() -> None:
    trace = Trace(replace(two_stages(Delivery.DRAWN)), (Begin(READ), Turn(1, 3), Fault(3, FaultKind.FAILED, 1)))
    assert read_trace(write_trace(trace)) == trace
    with pytest.raises(ValueError, match="one card's, and this world has 2"):
        record_commands(trace, {})
    with pytest.raises(TraceError, match="exchange blobs"):
        read_trace(write_trace(replace(trace, geometry=replace(two_stages(), num_swaps=1))))
