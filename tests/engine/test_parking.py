"""Conversations that leave the card and come back, judged by the twin: in order, whole, and whatever fails."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import ContentMismatch, TableError, TwinError, UndefinedRead
from strata.core.commands import Command, Copy, GraphLaunch, Launch, Stream
from strata.core.errors import DeviceError
from strata.core.extent import HostExtent, HostSpace
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import GenerationRequest
from tests.engine.every_command import SHARDS, fail_once, indexes_of
from tests.engine.symbolic_card import Card, small_inventory, symbolic_card

INVENTORY = small_inventory(blob_bytes=(700, *(0,) * 19))  # 20 layers: three groups of copies each way
CELL_BYTES = 2 * 2 * 20 * 2  # K and V, two elements of f16, 20 layers
OPTIONS = PlanOptions(1024, num_cache_slots=4, parked_bytes=500 * CELL_BYTES)
MIB = 1 << 20


def card(options: PlanOptions = OPTIONS, **rest: object) -> Card:
    return symbolic_card(INVENTORY, options, arena_bytes=2 * MIB, **rest)  # type: ignore[arg-type]


def ask(name: int, num_tokens: int, *, max_tokens: int = 1) -> GenerationRequest:
    """Prompts of different names share no prefix; a longer one of the same name goes on."""
    return GenerationRequest("r", tuple((name + i * i) % 31 for i in range(num_tokens)), max_tokens)


def listed(served: Card) -> list[int]:
    """Tokens of each parked conversation, least recently used first."""
    return [len(parked.session.ids) for parked in served.runner.snapshot().parked.listed]


def way_of(command: Command) -> str:
    sides = [(p.source, p.target) for p in command.pairs] if isinstance(command, Copy) else []
    for source, target in sides:
        for side, way in ((source, "restore"), (target, "park")):
            if isinstance(side, HostExtent) and side.space is HostSpace.PARKED:
                return way
    return ""


def test_a_session_is_parked_then_the_other_restored_then_the_rest_read():
    served = card()
    served.serve(ask(1, 100))
    served.serve(ask(2, 120))
    del served.commands[:]
    served.serve(ask(1, 150))
    kinds = [way_of(c) or ("launch" if isinstance(c, Launch | GraphLaunch) else "") for c in served.commands]
    order = [kind for kind in kinds if kind]
    assert order == ["park"] * 3 + ["restore"] * 3 + ["launch"] * order.count("launch")
    assert {c.stream for c in served.commands if way_of(c)} == {Stream.VERIFIER}
    assert [len(c.pairs) for c in served.commands if way_of(c)] == [16, 16, 8] * 2
    facts = served.runner.read_facts()
    assert (facts.read_from, facts.unparked_tokens) == (100, 100)
    assert (facts.parked_bytes, facts.unparked_bytes) == (120 * CELL_BYTES, 100 * CELL_BYTES)
    assert facts.chunk_tokens > 0


def test_a_request_that_is_wholly_parked_reads_nothing():
    served = card()
    served.serve(ask(1, 100))
    served.serve(ask(2, 90))
    del served.commands[:]
    served.serve(ask(1, 100))
    assert not any(isinstance(c, Launch) for c in served.commands)
    assert served.runner.read_facts() == replace(served.runner.read_facts(), read_from=99, chunk_tokens=0, lent_slots=0)


REQUESTS = st.tuples(st.integers(0, 4), st.integers(1, 300), st.none() | st.integers(0, 6))


@settings(max_examples=40)
@given(
    requests=st.lists(REQUESTS, min_size=2, max_size=9),
    parked_tokens=st.sampled_from((0, 70, 150, 300, 900)),
    is_reread=st.booleans(),
)
def test_any_conversations_pass_every_check_of_the_twin(requests, parked_tokens: int, is_reread: bool):
    cell_bytes = CELL_BYTES // 20 * 4
    options = replace(OPTIONS, parked_bytes=parked_tokens * cell_bytes, is_reread=is_reread)
    served = symbolic_card(small_inventory(), options, arena_bytes=2 * MIB)
    for name, num_tokens, cancel in requests:
        served.serve(ask(name, num_tokens), cancel_after_steps=cancel)
    told = served.runner.snapshot()
    assert told.parked.used_bytes <= options.parked_bytes
    assert not is_reread or told.counts.unparked_bytes == 0
    assert served.serve(ask(7, 200, max_tokens=3)) == 3


@pytest.mark.slow
@SHARDS
@pytest.mark.parametrize("kind", ["refused", "failed on its way"])
def test_whichever_command_fails_nothing_half_parked_is_listed_and_the_next_is_served(kind: str, shard: int):
    """Every command of a request that parks 120 tokens, restores 100 and reads 50: until it is restored, what was to
    come back is gone; until it was parked, what was to leave is."""
    reference = after_two()
    first = len(reference.commands)
    reference.serve(ask(1, 150))
    ways = [way_of(command) for command in reference.commands]
    parks = [index for index, way in enumerate(ways) if way == "park" and index >= first]
    restores = [index for index, way in enumerate(ways) if way == "restore"]
    for fail_at in indexes_of(len(ways), first + shard):
        served = after_two(faults=fail_once(fail_at, kind))
        try:
            served.serve(ask(1, 150))
        except DeviceError as error:
            if isinstance(error, TwinError) and not isinstance(error, UndefinedRead | TableError):
                raise
            served.runner.recover()
        if fail_at <= parks[-1] + 1:  # the notice behind the copies too
            assert listed(served) == [100], fail_at
        elif fail_at <= restores[-1] + 1:
            assert listed(served) == [120], fail_at
        else:
            assert listed(served) == [120, 100], fail_at
        for name in (1, 2, 1):
            assert served.serve(ask(name, 150, max_tokens=2)) == 2
        assert served.runner.read_facts().read_from == 149


def after_two(**rest: object) -> Card:
    served = card(**rest)  # type: ignore[arg-type]
    served.serve(ask(1, 100))
    served.serve(ask(2, 120))
    return served


@pytest.mark.parametrize(("steps", "left"), [(0, [100, 120]), (1, [120, 100]), (2, [120, 100])])
def test_a_cancel_on_either_way_leaves_both_conversations(steps: int, left: list[int]):
    served = after_two()
    served.serve(ask(1, 150), cancel_after_steps=steps)
    assert listed(served) == left
    for name in (2, 1, 2):
        served.serve(ask(name, 130))
        assert served.runner.read_facts().read_from >= 100


def test_the_twin_sees_k_of_one_layer_come_back_as_that_of_another():
    served = after_two()
    submit = served.device.submit

    def swapped(commands: tuple[Command, ...]) -> None:
        submit([_rotated(c) if isinstance(c, Copy) and way_of(c) == "restore" else c for c in commands])

    served.device.submit = swapped  # type: ignore[method-assign]
    with pytest.raises(ContentMismatch):
        served.serve(ask(1, 150))


def _rotated(copy: Copy) -> Copy:
    sources = [pair.source for pair in copy.pairs]
    moved = (*sources[1:], sources[0])
    pairs = zip(copy.pairs, moved, strict=True)
    return replace(copy, pairs=tuple(replace(pair, source=source) for pair, source in pairs))


def test_the_twin_sees_a_restore_that_does_not_wait_until_the_session_is_parked():
    """Cells overwritten on another stream while their copy to the host is under way."""
    served = after_two()
    submit = served.device.submit

    def moved(commands: tuple[Command, ...]) -> None:
        submit([replace(c, stream=Stream.COPY) if way_of(c) == "restore" else c for c in commands])

    served.device.submit = moved  # type: ignore[method-assign, assignment]
    gather = served.runner._gather
    served.runner._gather = lambda: None if served.runner._awaits else gather()  # type: ignore[method-assign]
    with pytest.raises(TwinError):
        served.serve(ask(1, 150))
