"""Cache slots lent to a read, judged by the twin: everything comes home, whatever ends the read and whatever fails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import TableError, TwinError, UndefinedRead
from strata.core.commands import Command, Copy, Notify, Stream, Transfer, Wait
from strata.core.errors import DeviceError
from strata.core.memory.shapes import PlanOptions
from tests.engine.every_command import fail_once
from tests.engine.symbolic_card import Card, lending_inventory, prompt, symbolic_card

OPTIONS = PlanOptions(4096, min_cache_slots=4)
ARENA_BYTES = 1 << 19


def card(options: PlanOptions = OPTIONS, **rest: object) -> Card:
    served = symbolic_card(lending_inventory(), options, arena_bytes=ARENA_BYTES, **rest)  # type: ignore[arg-type]
    assert served.plan.lendable is not None
    return served


def lent_bytes(served: Card) -> int:
    return sum(c.extent.size_bytes for c in served.commands if isinstance(c, Transfer) and c.taker == "prompt")


def assert_all_home(served: Card, before: object) -> None:
    assert served.device.card_map() == before
    assert served.runner._state.at.loan is None
    assert served.runner._state.at.ledger.is_owner("cache", served.plan.regions[-1].extent)


@given(
    num_tokens=st.integers(2, 2600),
    cancel=st.none() | st.integers(0, 30),
    min_cache_slots=st.integers(2, 20),
    ring_slots=st.none() | st.integers(1, 9),
    max_chunk_tokens=st.sampled_from((256, 512, 2048, None)),
)
def test_reads_on_lent_slots_pass_every_check(num_tokens, cancel, min_cache_slots, ring_slots, max_chunk_tokens):
    options = PlanOptions(
        4096, min_cache_slots=min_cache_slots, ring_slots=ring_slots, max_chunk_tokens=max_chunk_tokens
    )
    served = card(options)
    before = served.device.card_map()
    served.serve(prompt(num_tokens), cancel_after_steps=cancel)
    assert lent_bytes(served) > 0 or cancel == 0
    assert_all_home(served, before)
    assert served.serve(prompt(300, max_tokens=3, first=1)) == 3
    assert served.runner.read_facts().lent_slots > 0
    assert_all_home(served, before)


def test_a_read_borrows_no_more_than_its_chunk_needs():
    short, long = card(), card()
    short.serve(prompt(100))
    long.serve(prompt(4000))
    assert 0 < lent_bytes(short) < lent_bytes(long)


def test_a_request_that_reads_nothing_borrows_nothing():
    served = card()
    served.serve(prompt(200))
    del served.commands[:]
    served.serve(prompt(200))
    assert lent_bytes(served) == 0


def test_refill_copies_each_lent_blob_once_and_nothing_else():
    served = card()
    served.serve(prompt(200))
    lent = served.plan.read(199).lent
    home = [
        pair.target.content
        for c in served.commands[served.commands.index(_transfer_back(served)) :]
        if isinstance(c, Copy) and c.stream is Stream.COPY
        for pair in c.pairs
    ]
    assert home == [f"blob {slot.layer} {slot.expert}" for slot in lent]


def _transfer_back(served: Card) -> Transfer:
    return next(c for c in served.commands if isinstance(c, Transfer) and c.giver == "prompt")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["refused", "failed on its way"])
@pytest.mark.parametrize("cancel", [None, 5])
def test_everything_comes_home_whichever_command_fails(kind: str, cancel: int | None):
    """Every command of a read, a reclaim and two windows; the next request is answered, by the same card."""
    reference = card()
    first = len(reference.commands)
    before = reference.device.card_map()
    reference.serve(prompt(600), cancel_after_steps=cancel)
    last = len(reference.commands)
    hit = set()
    for fail_at in range(first, last):
        served = card(faults=fail_once(fail_at, kind))
        _serve_through(served, cancel)
        hit.add(type(reference.commands[fail_at]).__name__)
        assert_all_home(served, before)
        assert served.serve(prompt(600, first=1)) == 2
        assert served.runner.read_facts().lent_slots > 0
        assert_all_home(served, before)
    assert hit == {"Copy", "Record", "Wait", "Notify", "Transfer", "Launch"} | (
        set() if cancel else {"Fill", "GraphLaunch"}
    )


def _serve_through(served: Card, cancel: int | None) -> None:
    """What is submitted behind a failed command may read what it did not write, or a table that it did not publish: the
    twin refuses that, as it should. Any other word of the twin is a fault of ours."""
    try:
        served.serve(prompt(600), cancel_after_steps=cancel)
    except DeviceError as error:
        if isinstance(error, TwinError) and not isinstance(error, UndefinedRead | TableError):
            raise
        served.runner.recover()


@pytest.mark.slow
def test_a_failure_while_a_failure_is_mended_is_mended_too():
    reference = card()
    first = len(reference.commands)
    before = reference.device.card_map()
    for fail_at in range(first + 5, first + 60, 6):
        for again in range(fail_at + 1, fail_at + 12):

            def faults(index: int, command: Command) -> None:
                if index in (fail_at, again):  # noqa: B023  used within this turn of the loop
                    raise DeviceError("planted", command)

            served = card(faults=faults)
            _serve_through(served, None)
            assert_all_home(served, before)
            assert served.serve(prompt(600)) == 2


@pytest.mark.parametrize("num_steps", [1, 2, 3, 4])
def test_a_cancelled_read_waits_for_copies_that_ran_ahead(num_steps: int):
    """What is awaited before the bytes go back, whatever was under way: both prompt streams (invariant 17)."""
    served = card(PlanOptions(4096, min_cache_slots=4, chunk_tokens=1024, ring_slots=12))
    served.runner.begin(prompt(2000))
    for _ in range(num_steps):
        served.play()
        served.runner.advance(is_cancelled=False)
    del served.commands[:]
    served.play()
    served.runner.advance(is_cancelled=True)
    assert {c.stream for c in served.commands if isinstance(c, Notify)} == {Stream.PROMPT, Stream.COPY}
    assert len(served.runner._awaits) == 2
    assert not any(isinstance(c, Transfer) for c in served.commands)


def test_a_loan_that_is_withdrawn_before_anything_was_lent_copies_nothing():
    served = card()
    served.serve(prompt(600), cancel_after_steps=0)
    counts = served.runner.snapshot().counts
    assert (counts.num_loans, counts.lent_bytes, counts.refilled_bytes) == (0, 0, 0)
    assert served.serve(prompt(600)) == 2


def test_the_twin_sees_a_window_that_does_not_wait_for_the_refill():
    served = card()
    submit = served.device.submit
    served.device.submit = lambda commands: submit(  # type: ignore[method-assign]
        [c for c in commands if not (isinstance(c, Wait) and c.event == "back")]
    )
    with pytest.raises(TwinError):
        served.serve(prompt(600))


def test_the_twin_sees_bytes_taken_back_while_copies_into_them_are_under_way():
    """A cancelled read whose copies ran ahead, and a closing that does not drain their stream."""
    served = card(PlanOptions(4096, min_cache_slots=4, chunk_tokens=1024, ring_slots=12))
    served.runner.begin(prompt(2000))
    served.play()
    served.runner.advance(is_cancelled=False)  # the loan is out, the first copies are under way
    submit, gather = served.device.submit, served.runner._gather

    def without_notice(commands: tuple[Command, ...]) -> None:
        submit([c for c in commands if not (isinstance(c, Notify) and c.stream is Stream.COPY)])

    def hasty() -> None:
        served.runner._awaits = tuple(tag for tag in served.runner._awaits if not tag.startswith("copy "))
        gather()

    served.device.submit = without_notice  # type: ignore[method-assign]
    served.runner._gather = hasty  # type: ignore[method-assign]
    served.runner.advance(is_cancelled=True)
    with pytest.raises(TwinError, match="copy"):
        served.runner.advance(is_cancelled=True)
