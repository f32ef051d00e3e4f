"""States on their way to checkpoints and back, judged by the twin: in order, each to its own place, whatever fails."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import TableError, TwinError, UndefinedRead
from strata.core.commands import Command, Copy, Launch, Stream
from strata.core.errors import DeviceError
from strata.core.extent import HostExtent, HostSpace
from strata.core.inventory import ModelInventory
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.checkpoints import num_checkpoints, parked_space_bytes
from strata.core.serving.cuts import cuts_of
from strata.core.serving.request import GenerationRequest
from tests.engine.every_command import fail_once
from tests.engine.symbolic_card import Card, hybrid_inventory, small_inventory, symbolic_card

MIB = 1 << 20
SLOT_BYTES = 768
OPTIONS = PlanOptions(1024, num_cache_slots=4, checkpoint_bytes=4 * SLOT_BYTES)
END = 1
ENDS = frozenset({1, 2})


def card(options: PlanOptions = OPTIONS, inventory: ModelInventory | None = None, **rest: object) -> Card:
    return symbolic_card(inventory or hybrid_inventory(), options, arena_bytes=2 * MIB, **rest)  # type: ignore[arg-type]


def ask(*turns: tuple[int, int], max_tokens: int = 1) -> GenerationRequest:
    """Each turn is (name, tokens), the last of which ends it; three more begin the reply."""
    ids = [token for name, size in turns for token in (*((name + i * i) % 28 + 3 for i in range(size - 1)), END)]
    return GenerationRequest("r", (*ids, 5, 6, 7), max_tokens)


TALK, EDITED = ask((0, 20), (1, 30), (2, 40)), ask((0, 20), (1, 30), (3, 45))


def positions(served: Card) -> list[int]:
    return [each.position for each in served.runner.snapshot().checkpoints.listed]


def way_of(command: Command) -> str:
    for pair in command.pairs if isinstance(command, Copy) else ():
        for side, way in ((pair.source, "use"), (pair.target, "keep")):
            if isinstance(side, HostExtent) and side.space is HostSpace.PARKED:
                return way
    return ""


def test_a_state_comes_back_before_the_read_and_one_is_left_behind_each_turn():
    served = card()
    served.serve(TALK)
    assert positions(served) == [20, 50, 90]
    del served.commands[:]
    served.serve(EDITED)
    ways = [(way_of(c), c.stream) for c in served.commands if way_of(c)]  # type: ignore[attr-defined]
    assert ways == [("use", Stream.VERIFIER), ("keep", Stream.PROMPT)]
    launches = [index for index, command in enumerate(served.commands) if isinstance(command, Launch)]
    used, kept = (index for index, command in enumerate(served.commands) if way_of(command))
    assert used < launches[0] < kept < launches[-1]
    facts = served.runner.read_facts()
    assert (facts.read_from, facts.checkpoint_tokens, facts.unparked_bytes, facts.parked_bytes) == (50, 50, 0, 0)
    assert positions(served) == [20, 50, 95]


def test_a_prompt_that_ends_behind_a_checkpoint_reads_nothing():
    served = card()
    served.serve(TALK)
    del served.commands[:]
    served.serve(GenerationRequest("r", (*TALK.prompt_ids[:50], 9), 1))
    assert not any(isinstance(command, Launch) for command in served.commands)
    assert served.runner.read_facts().read_from == 50


def test_a_model_that_attends_everywhere_asks_for_the_same_commands_as_without_a_budget():
    told = []
    for options in (OPTIONS, replace(OPTIONS, checkpoint_bytes=0)):
        served = symbolic_card(small_inventory(), options, arena_bytes=2 * MIB)
        assert (num_checkpoints(served.plan), parked_space_bytes(served.plan)) == (0, 0)
        for request in (TALK, EDITED):
            served.serve(request)
        told.append(served.commands)
    assert told[0] == told[1]


def test_without_a_budget_a_read_stops_at_no_cut():
    served = card(replace(OPTIONS, checkpoint_bytes=SLOT_BYTES - 1))
    served.serve(TALK)
    served.serve(EDITED)
    assert served.runner.read_facts().read_from == 0
    assert not any(way_of(command) for command in served.commands)


TURNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 70)), min_size=1, max_size=4)


@settings(max_examples=40)
@given(
    requests=st.lists(st.tuples(TURNS, st.none() | st.integers(0, 30)), min_size=2, max_size=7),
    num_slots=st.integers(0, 4),
    parked_bytes=st.sampled_from((0, 20_000)),
    is_reread=st.booleans(),
)
def test_any_conversations_pass_every_check_of_the_twin(requests, num_slots: int, parked_bytes: int, is_reread: bool):
    options = replace(OPTIONS, checkpoint_bytes=num_slots * SLOT_BYTES, parked_bytes=parked_bytes, is_reread=is_reread)
    served = card(options)
    for turns, cancel in requests:
        request = ask(*turns, max_tokens=2)
        served.serve(request, cancel_after_steps=cancel)
        session = served.runner._state.at.session.ids
        assert set(positions(served)) <= set(cuts_of(session, turn_ends=ENDS))
        if cancel is None:
            wanted = cuts_of(request.prompt_ids[:-1], turn_ends=ENDS)[-num_slots:] if num_slots else ()
            read_from = served.runner.read_facts().read_from
            assert {cut for cut in wanted if cut > read_from} <= set(positions(served))
    assert served.runner.snapshot().checkpoints.num_restored == 0 or not is_reread


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["refused", "failed on its way"])
def test_whichever_command_fails_no_checkpoint_is_left_and_the_next_is_served(kind: str):
    """Every command of a request that goes on from one checkpoint and leaves another."""
    inventory = replace(small_inventory(blob_bytes=(700, 0)), state_bytes=(0, 768))
    reference = card(inventory=inventory)
    reference.serve(TALK)
    first = len(reference.commands)
    reference.serve(EDITED)
    assert {way_of(command) for command in reference.commands[first:]} == {"", "use", "keep"}
    for fail_at in range(first, len(reference.commands)):
        served = card(inventory=inventory, faults=fail_once(fail_at, kind))
        served.serve(TALK)
        try:
            served.serve(EDITED)
        except DeviceError as error:
            if isinstance(error, TwinError) and not isinstance(error, UndefinedRead | TableError):
                raise
            served.runner.recover()
        assert positions(served) == [], fail_at
        for request, read_from in ((TALK, 0), (EDITED, 50)):
            served.serve(request)
            assert served.runner.read_facts().read_from == read_from, fail_at


def test_wherever_a_read_is_cancelled_what_landed_stays_and_what_did_not_is_unknown():
    """At every step of a request that goes on from one checkpoint and leaves another."""
    seen = set()
    for steps in range(40):
        served = card()
        served.serve(TALK)
        if served.serve(EDITED, cancel_after_steps=steps):
            break
        seen.add(tuple(positions(served)))
        assert tuple(positions(served)) in {(20, 50), (20, 50, 95)}
        session = served.runner._state.at.session
        assert len(session.ids) in (50, 95, 97, 98)
        assert session.is_torn == (steps > 0 and len(session.ids) < 97)  # wholly read, or not yet begun
        served.serve(EDITED)
        assert served.runner.read_facts().read_from == (len(session.ids) if len(session.ids) < 98 else 95)
    assert seen == {(20, 50), (20, 50, 95)}
    assert steps > 8
