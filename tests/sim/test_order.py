"""The clocks: each missing edge is found, each edge that is there is accepted. One case an edge of `lending.md` 4.1."""

import pytest

from sim.errors import OrderError
from strata.core.commands import Copy, CopyPair, Map, Notify, Record, Transfer, Unmap, Wait
from strata.core.extent import Extent
from tests.sim.builders import (
    COPY,
    DRAFTER,
    PROMPT,
    VERIFIER,
    at,
    copy,
    fill,
    finish,
    make_owned_card,
    pack,
    run_all,
    staging,
    work,
)

SLOT = at(0, 8)
BLOB = pack(0, 8)


def edge(event: str, before: object, after: object) -> tuple:
    return Record(before, event), Wait(after, event)


def test_a_reader_waits_for_the_copy_of_its_slot() -> None:
    card = make_owned_card()
    run_all(card, copy(BLOB, SLOT), *edge("copied", COPY, PROMPT), work([SLOT]))
    card = make_owned_card()
    run_all(card, copy(BLOB, SLOT))
    with pytest.raises(OrderError):
        run_all(card, work([SLOT]))


def test_a_copy_into_a_slot_waits_for_its_last_reader() -> None:
    card = make_owned_card()
    run_all(card, copy(BLOB, SLOT), *edge("copied", COPY, PROMPT), work([SLOT]))
    with pytest.raises(OrderError):
        run_all(card, copy(BLOB, SLOT))
    run_all(card, *edge("used", PROMPT, COPY), copy(BLOB, SLOT))


@pytest.mark.parametrize("in_place", [False, True])
def test_bytes_are_passed_on_only_when_their_writer_and_readers_are_known_to_be_over(in_place: bool) -> None:
    card = make_owned_card()
    passing = Transfer(SLOT.extent, "kv", "ring", in_place=in_place)
    run_all(card, copy(BLOB, SLOT), *edge("copied", COPY, PROMPT))
    with pytest.raises(OrderError):
        run_all(card, passing)
    run_all(card, work([SLOT]))
    finish(card, COPY)
    with pytest.raises(OrderError):
        run_all(card, passing)
    finish(card, PROMPT)
    run_all(card, passing)


def test_waiting_for_an_event_from_before_the_work_orders_nothing() -> None:
    card = make_owned_card()
    run_all(card, Record(COPY, "copied"), copy(BLOB, SLOT), Wait(PROMPT, "copied"))
    with pytest.raises(OrderError):
        run_all(card, work([SLOT]))


def test_a_record_after_the_wait_orders_nothing() -> None:
    card = make_owned_card()
    run_all(card, Record(COPY, "copied"), Wait(PROMPT, "copied"), copy(BLOB, SLOT), Record(COPY, "copied"))
    with pytest.raises(OrderError):
        run_all(card, work([SLOT]))


def test_order_passes_through_a_third_stream() -> None:
    card = make_owned_card()
    run_all(card, copy(BLOB, SLOT), *edge("a", COPY, DRAFTER), *edge("b", DRAFTER, PROMPT), work([SLOT]))


def test_one_of_two_readers_is_not_enough() -> None:
    card = make_owned_card()
    run_all(card, copy(BLOB, SLOT), Record(COPY, "copied"), Wait(PROMPT, "copied"), Wait(VERIFIER, "copied"))
    run_all(card, work([SLOT]), work([SLOT], stream=VERIFIER), *edge("used", VERIFIER, COPY))
    with pytest.raises(OrderError, match=r"launch work #9 on stream prompt"):
        run_all(card, copy(BLOB, SLOT))
    run_all(card, *edge("used too", PROMPT, COPY), copy(BLOB, SLOT))


def test_only_the_bytes_that_meet_need_order() -> None:
    card = make_owned_card()
    run_all(card, copy(BLOB, SLOT), fill(at(8, 16)), work([at(8, 16)], [at(16, 24)]))


@pytest.mark.parametrize(
    "change",
    [
        lambda: Transfer(Extent(7, 1), "kv", "ring"),
        lambda: Unmap(Extent(0, 8)),
    ],
    ids=["transfer", "unmap"],
)
@pytest.mark.parametrize("use", [lambda: fill(SLOT), lambda: work([], [SLOT]), lambda: copy(BLOB, SLOT)])
def test_bytes_change_hands_only_once_the_host_knows_that_work_on_them_is_over(change, use) -> None:
    card = make_owned_card()
    run_all(card, use(), Notify(PROMPT, "done"), Notify(COPY, "done"))
    with pytest.raises(OrderError):
        run_all(card, change())
    card.completions()
    run_all(card, change())


def test_a_notify_from_before_the_work_tells_the_host_nothing() -> None:
    card = make_owned_card()
    run_all(card, Notify(PROMPT, "early"), fill(SLOT))
    card.completions()
    with pytest.raises(OrderError):
        run_all(card, Transfer(Extent(0, 8), "kv", "ring"))


def test_a_reader_holds_a_transfer_as_a_writer_does() -> None:
    card = make_owned_card()
    run_all(card, fill(SLOT))
    finish(card, PROMPT)
    run_all(card, work([SLOT], stream=VERIFIER))
    with pytest.raises(OrderError):
        run_all(card, Transfer(Extent(0, 8), "kv", "ring"))
    finish(card, VERIFIER)
    run_all(card, Transfer(Extent(0, 8), "kv", "ring"))


def test_what_the_host_did_comes_before_what_it_issues_next() -> None:
    card = make_owned_card()
    run_all(card, Transfer(Extent(0, 8), "kv", "ring"), Unmap(Extent(24, 8)), Map(3, Extent(32, 8)))
    run_all(card, Transfer(Extent(32, 8), "", "ring"))
    run_all(card, fill(at(0, 8, "ring")), fill(at(32, 40, "ring"), DRAFTER))


def test_staging_is_reused_only_after_its_copy() -> None:
    card = make_owned_card()
    run_all(card, copy(staging(0, 8), SLOT))
    with pytest.raises(OrderError):
        card.host(staging(7, 9))
    card.host(staging(8, 9))
    finish(card, COPY)
    card.host(staging(7, 9))


def test_a_result_is_read_only_after_its_notify() -> None:
    card = make_owned_card()
    run_all(card, fill(SLOT, VERIFIER), copy(SLOT, staging(0, 8), VERIFIER))
    with pytest.raises(OrderError):
        card.host(staging(0, 8))
    finish(card, VERIFIER)
    card.host(staging(0, 8))


def test_two_streams_meet_in_staging_too() -> None:
    card = make_owned_card()
    run_all(card, fill(SLOT, VERIFIER), copy(SLOT, staging(0, 8), VERIFIER))
    with pytest.raises(OrderError, match=r"staging \[0, 8\)"):
        run_all(card, copy(staging(0, 8), at(8, 16)))


def test_the_message_names_both_operations_and_the_missing_edge() -> None:
    card = make_owned_card()
    run_all(card, copy(BLOB, SLOT))
    with pytest.raises(OrderError) as caught:
        run_all(card, work([at(3, 5)]))
    assert str(caught.value) == (
        "launch work #6 on stream prompt reads bytes that copy #5 on stream copy wrote, arena [3, 5): no path "
        "copy #5 on stream copy -> launch work #6 on stream prompt; record an event on copy after #5 and let prompt "
        "wait for it"
    )


def test_a_group_of_copies_of_one_source_is_one_order() -> None:
    card = make_owned_card()
    group = Copy(COPY, (CopyPair(BLOB, SLOT), CopyPair(BLOB, at(8, 16))))
    run_all(card, group, *edge("copied", COPY, PROMPT), work([at(0, 16)]))
