"""Everything the machine submits, judged by the twin: ownership, definedness, contents and every missing edge."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sim.errors import TwinError
from strata.core.commands import Copy, GraphLaunch, Launch, Map, Stream, Wait
from strata.core.errors import DeviceError
from strata.core.memory.shapes import STREAM_ALL_TOKENS, PlanOptions
from strata.core.programs import EXPERTS
from tests.engine.symbolic_card import SEGMENT_BYTES, Card, prompt, small_inventory, symbolic_card

MIB = 1024 * 1024
OPTIONS = PlanOptions(context_tokens=4096, ring_slots=5, num_cache_slots=7)


def card(options: PlanOptions = OPTIONS, *, seed: int = 0, **rest: object) -> Card:
    return symbolic_card(small_inventory(), options, arena_bytes=2 * MIB, seed=seed, **rest)  # type: ignore[arg-type]


@example(num_tokens=2, ring_slots=1, num_cache_slots=2, chunk_tokens=256, cancel=None, seed=47)
@given(
    num_tokens=st.integers(1, 700),
    ring_slots=st.integers(1, 9),
    num_cache_slots=st.integers(2, 36),
    chunk_tokens=st.sampled_from((256, 512)),
    cancel=st.none() | st.integers(0, 12),
    seed=st.integers(0, 99),
)
def test_routed_reads_pass_every_check_of_the_twin(num_tokens, ring_slots, num_cache_slots, chunk_tokens, cancel, seed):
    options = PlanOptions(4096, chunk_tokens=chunk_tokens, ring_slots=ring_slots, num_cache_slots=num_cache_slots)
    served = card(options, seed=seed)
    served.serve(prompt(num_tokens), cancel_after_steps=cancel)
    assert served.serve(prompt(300, max_tokens=3, first=1)) == 3
    assert served.runner.read_facts().read_from == 0


@given(ring_slots=st.integers(1, 40), extra=st.integers(0, 600), cancel=st.none() | st.integers(0, 12))
def test_streaming_reads_pass_every_check_of_the_twin(ring_slots, extra, cancel):
    options = PlanOptions(4096, chunk_tokens=1024, ring_slots=ring_slots, num_cache_slots=7)
    served = card(options)
    served.serve(prompt(STREAM_ALL_TOKENS + 1 + extra), cancel_after_steps=cancel)
    assert served.serve(prompt(STREAM_ALL_TOKENS + 1, first=1)) == 2
    assert served.runner.read_facts().read_from == 0


def test_streaming_reads_every_missing_blob_once_a_chunk_in_layer_order():
    options = PlanOptions(4096, chunk_tokens=1024, ring_slots=5, num_cache_slots=7)
    served = card(options)
    del served.commands[:]
    served.serve(prompt(2 * STREAM_ALL_TOKENS + 1))
    copied = [
        pair.target.content
        for command in served.commands
        if isinstance(command, Copy) and command.stream is Stream.COPY
        for pair in command.pairs
    ]
    resident = {(slot.layer, slot.expert) for slot in served.plan.slots}
    missing = [f"blob {layer} {e}" for layer in (0, 2, 3) for e in range(12) if (layer, e) not in resident]
    assert copied == missing * 2
    assert served.runner.snapshot().counts.ring_entries == len(copied)


def test_streaming_copies_run_ahead_of_their_layer():
    options = PlanOptions(4096, chunk_tokens=1024, ring_slots=40, num_cache_slots=7)
    served = card(options)
    del served.commands[:]
    served.serve(prompt(STREAM_ALL_TOKENS + 1))
    kinds = [c.program if isinstance(c, Launch) else "copy" for c in served.commands if _is_copy_or_launch(c)]
    assert kinds.index(EXPERTS) > max(i for i, kind in enumerate(kinds) if kind == "copy")


def _is_copy_or_launch(command: object) -> bool:
    return isinstance(command, Launch) or (isinstance(command, Copy) and command.stream is Stream.COPY)


def test_a_window_is_one_graph_launch_one_copy_home_and_one_notice():
    served = card()
    served.serve(prompt(1, max_tokens=1))
    del served.commands[:]
    served.serve(prompt(1, max_tokens=5))
    windows = [command for command in served.commands if isinstance(command, GraphLaunch)]
    assert len(windows) == 5
    assert not [command for command in served.commands if isinstance(command, Launch)]
    assert len(served.commands) == 3 * 5 + 3  # sampler inputs, their fill, and the first position


def test_nothing_is_mapped_after_start():
    served = card()
    assert served.device.statistics().num_maps == 2 * MIB // SEGMENT_BYTES
    served.serve(prompt(900))
    assert served.device.statistics().num_maps == 2 * MIB // SEGMENT_BYTES
    assert sum(isinstance(command, Map) for command in served.commands) == 2 * MIB // SEGMENT_BYTES


@pytest.mark.parametrize("event", ["copied", "used"])
def test_the_twin_sees_each_missing_wait_of_the_ring(event):
    """The checks above can fail: without either wait the same read is refused."""
    plain = card()
    plain.serve(prompt(600))
    waits = [c for c in plain.commands if isinstance(c, Wait) and c.event.startswith(event)]
    assert waits
    served = card()
    submit = served.device.submit
    served.device.submit = lambda commands: submit(  # type: ignore[method-assign]
        [c for c in commands if not (isinstance(c, Wait) and c.event.startswith(event))]
    )
    with pytest.raises(TwinError):
        served.serve(prompt(600))


def test_a_failing_command_breaks_one_request_and_the_next_is_served():
    """Every command of a read and two windows fails once: refused, and failed on its way."""
    reference = card()
    first = len(reference.commands)
    reference.serve(prompt(300))
    last = len(reference.commands)
    for fail_at in range(first, last):
        served = card(faults=_fail_once(fail_at))
        with pytest.raises(DeviceError, match="planted"):
            served.serve(prompt(300))
        served.runner.recover()
        assert served.serve(prompt(300)) == 2


def _fail_once(fail_at: int):
    def faults(index: int, command: object) -> None:
        if index == fail_at:
            raise DeviceError("planted", command)

    return faults
