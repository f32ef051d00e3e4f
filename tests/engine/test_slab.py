"""The slab under the twin's clocks and books: scratch in the tail of a loan, and nowhere else."""

import logging
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import TwinError
from strata.core.commands import Launch, Stream, Transfer
from strata.core.errors import DeviceError
from strata.core.extent import Extent
from strata.core.inventory import ModelInventory
from strata.core.memory.planner import Plan
from strata.core.memory.shapes import PlanOptions
from strata.core.units import MIB
from tests.engine.every_command import fail_once
from tests.engine.scratch_models import WORK, working_inventory
from tests.engine.symbolic_card import Card, prompt, symbolic_card

ON = PlanOptions(2500, min_cache_slots=8, has_slab=True)
OFF = replace(ON, has_slab=False)
WORKERS = {program for work in WORK for program in work.programs}


def card(options: PlanOptions = ON, *, arena_bytes: int = 6 * MIB, **rest: object) -> Card:
    return symbolic_card(working_inventory(), options, arena_bytes=arena_bytes, **rest)  # type: ignore[arg-type]


def wide_inventory() -> ModelInventory:
    """Its router needs more than 2 MiB for a chunk of 1,024 tokens."""
    attention, moe, ffn = WORK
    counts, act = moe.areas
    moe = replace(moe, areas=(counts, replace(act, row_bytes=2000)))
    return replace(working_inventory(), prompt_work=(attention, moe, ffn))


def workplaces(served: Card) -> list[Extent]:
    """Where programs of chunks worked beside their buffers, launch by launch."""
    launches = [each for each in served.commands if isinstance(each, Launch) and each.stream is Stream.PROMPT]
    for launch in launches:
        place = launch.args.buffers.scratch  # type: ignore[union-attr]
        assert (place.size_bytes > 0) == (launch.program in WORKERS), launch
        assert not place.size_bytes or any(write.extent == place for write in launch.writes), launch
    places = [launch.args.buffers.scratch for launch in launches]  # type: ignore[union-attr]
    return [place for place in places if place.size_bytes]


def lent(served: Card) -> Extent:
    """Of the last loan."""
    return next(
        each.extent for each in reversed(served.commands) if isinstance(each, Transfer) and each.giver == "cache"
    )


@given(
    num_tokens=st.integers(2, 2400), cancel=st.none() | st.integers(0, 30), max_chunk=st.sampled_from((256, 512, None))
)
def test_reads_with_a_slab_pass_every_check(num_tokens: int, cancel: int | None, max_chunk: int | None):
    """Invariants 35 and 37, on every way out of a read; the books of the twin see every byte that a launch writes."""
    served = card(replace(ON, max_chunk_tokens=max_chunk))
    before = served.device.card_map()
    served.serve(prompt(num_tokens), cancel_after_steps=cancel)
    assert served.device.card_map() == before
    assert served.serve(prompt(300, max_tokens=3, first=1)) == 3
    assert served.runner.read_facts().slab_bytes > 0
    assert served.device.card_map() == before


def test_tail_bytes_are_used_a_class_is_reused_and_nothing_is_taken_beside_the_loan(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        served = card()
        served.serve(prompt(2000))
    places, facts = workplaces(served), served.runner.read_facts()
    assert all(lent(served).contains(place) for place in places)
    assert sum(place.size_bytes for place in set(places)) == facts.slab_bytes > 0
    by_program = {
        each.program: each.args.buffers.scratch  # type: ignore[union-attr]
        for each in served.commands
        if isinstance(each, Launch) and each.program in WORKERS and each.stream is Stream.PROMPT
    }
    assert len(set(by_program.values())) < len(by_program)
    assert served.runner.snapshot().counts.slab_bytes == facts.slab_bytes
    assert len(served.plan.slots) > len(card(OFF).plan.slots)
    assert "prefill scratch" not in caplog.text


def test_without_it_a_large_class_is_told_of_once(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        served = symbolic_card(wide_inventory(), replace(OFF, chunk_tokens=1024, ring_slots=8), arena_bytes=10 * MIB)
        for first in (0, 1):
            served.serve(prompt(600, first=first))
    told = [record.message for record in caplog.records if "scratch" in record.message]
    assert told == ["prefill scratch: device 0 takes a new 4 MiB buffer"]
    region = served.plan.region("scratch")
    assert all(region.contains(place) for place in workplaces(served))
    assert served.runner.read_facts().slab_bytes == 0


def test_a_moved_tail_drops_every_old_buffer():
    """A long read, then a short one, which borrows less and so further back: no launch of it works where one did
    before. And the same tail again gives the same buffers."""
    served = card()
    served.serve(prompt(2000))
    old = set(workplaces(served))
    del served.commands[:]
    served.serve(prompt(200, first=1))
    new = set(workplaces(served))
    assert old and new and not old & new
    assert all(lent(served).contains(place) for place in new)
    del served.commands[:]
    served.serve(prompt(200, first=2))
    assert set(workplaces(served)) == new


def test_nothing_works_in_the_slab_once_the_read_has_ended():
    """Invariant 37: it is withdrawn before the refill. No launch behind the transfer home knows the tail, and no state
    behind the read has a layout."""
    served = card()
    served.serve(prompt(2000, max_tokens=4))
    home = next(
        i
        for i, each in enumerate(served.commands)
        if isinstance(each, Transfer) and each.taker == "cache" and each.giver
    )
    assert not [each for each in served.commands[home:] if isinstance(each, Launch) and each.stream is Stream.PROMPT]
    assert not hasattr(served.runner._state, "layout") and not hasattr(served.runner._state, "chunk")


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["refused", "failed"])
def test_a_slab_comes_home_whichever_command_fails(kind: str):
    clean = card(replace(ON, max_chunk_tokens=256))
    start = len(clean.commands)
    clean.serve(prompt(400))
    for index in range(start, len(clean.commands)):
        served = card(replace(ON, max_chunk_tokens=256), faults=fail_once(index, kind))
        before = served.device.card_map()
        with pytest.raises(DeviceError):
            served.serve(prompt(400))
        served.runner.recover()
        assert served.device.card_map() == before, index
        assert served.serve(prompt(300, max_tokens=2, first=1)) == 2


def test_the_twin_sees_a_slab_of_another_loan():
    """What guards invariant 35: launches are judged by who owns the bytes at that moment."""
    served = card()
    served.serve(prompt(2000))
    stale = served.plan.read(1999).layout.scratch

    read_of = Plan.read

    def stale_read(plan: Plan, path_tokens: int, **rest):  # type: ignore[no-untyped-def]
        read = read_of(plan, path_tokens, **rest)
        return replace(read, layout=replace(read.layout, scratch=stale))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "read", stale_read)
        with pytest.raises(TwinError):
            served.serve(prompt(200, first=1))


def test_a_slab_that_was_never_lent_is_not_counted():
    """The client leaves while the loan is reserved."""
    served = card()
    served.serve(prompt(2000), cancel_after_steps=0)
    counts = served.runner.snapshot().counts
    assert (counts.lent_bytes, counts.slab_bytes) == (0, 0)
