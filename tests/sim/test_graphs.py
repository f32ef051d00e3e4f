"""Captured graphs: what they pin, when they are stale, and that in-place loans leave them valid."""

from dataclasses import replace

import pytest

from sim import errors
from sim.device import SimDevice
from strata.core.commands import Map, TableRead, TableVersion, Transfer, Unmap
from strata.core.extent import Extent
from tests.sim.builders import (
    COPY,
    VERIFIER,
    at,
    copy,
    fill,
    finish,
    make_owned_card,
    pack,
    replay,
    run_all,
    run_ordered,
    staging,
    work,
)

WEIGHTS, HIDDEN, LOGITS = at(0, 9), at(9, 13), at(13, 20)


def make_graph_card() -> SimDevice:
    card = make_owned_card()
    card.capture("window", [work([WEIGHTS], [HIDDEN]), work([HIDDEN], [LOGITS])])
    run_ordered(card, copy(pack(0, 9), WEIGHTS))
    return card


def test_capture_runs_nothing_and_a_launch_runs_the_nodes_in_order() -> None:
    card = make_graph_card()
    with pytest.raises(errors.UndefinedRead):
        run_all(card, work([LOGITS], stream=VERIFIER))
    run_all(card, replay("window"), replay("window"), work([LOGITS], stream=VERIFIER))
    assert (card.statistics().num_launches, card.statistics().num_graph_launches) == (3, 2)


def test_an_unknown_graph_is_refused() -> None:
    with pytest.raises(errors.GraphError):
        run_all(make_graph_card(), replay("widow"))


def test_capture_over_bytes_of_others_is_refused() -> None:
    with pytest.raises(errors.OwnershipError, match="capture of graph bad refused"):
        make_graph_card().capture("bad", [work([at(0, 9, "ring")])])
    with pytest.raises(errors.MappingError):
        make_graph_card().capture("bad", [work([at(40, 41)])])
    with pytest.raises(errors.UnknownProgram):
        make_owned_card().capture("bad", [replace(work(), program="dance")])


LOANS = {
    "one byte lent": [Transfer(Extent(12, 1), "kv", "ring")],
    "one byte lent in place": [Transfer(Extent(12, 1), "kv", "ring", in_place=True)],
    "unmapped": [Unmap(Extent(8, 8))],
    "another segment": [Unmap(Extent(8, 8)), Map(6, Extent(8, 8))],
}


@pytest.mark.parametrize("loan", LOANS.values(), ids=LOANS)
def test_a_graph_is_stale_while_its_bytes_are_away(loan) -> None:
    card = make_graph_card()
    run_ordered(card, replay("window"), *loan)
    with pytest.raises(errors.GraphError, match="stale"):
        run_all(card, replay("window"))


def test_a_loan_of_other_bytes_leaves_a_graph_alone() -> None:
    card = make_graph_card()
    run_ordered(card, replay("window"), Transfer(Extent(20, 12), "kv", "ring"), Unmap(Extent(24, 8)), replay("window"))


def test_a_graph_is_valid_again_once_its_bytes_are_home_and_written() -> None:
    card = make_graph_card()
    run_ordered(
        card, replay("window"), Transfer(Extent(0, 9), "kv", "ring"), Unmap(Extent(0, 8)), Map(0, Extent(40, 8))
    )
    run_ordered(card, Unmap(Extent(40, 8)), Map(0, Extent(0, 8)), Transfer(Extent(0, 9), "ring", "kv"))
    with pytest.raises(errors.UndefinedRead):
        run_all(card, replay("window"))
    run_ordered(card, copy(pack(0, 9), WEIGHTS), replay("window"))


def test_a_graph_is_ordered_like_any_launch() -> None:
    card = make_graph_card()
    run_all(card, copy(pack(0, 9), WEIGHTS))
    with pytest.raises(errors.OrderError, match="graphlaunch window"):
        run_all(card, replay("window"))
    finish(card, COPY)
    run_all(card, replay("window"))
    with pytest.raises(errors.OrderError):
        run_all(card, fill(HIDDEN))


def test_table_reads_are_bound_at_the_launch_not_at_capture() -> None:
    card = make_owned_card()
    card.capture("window", [work([TableRead(0)], [HIDDEN])])
    run_ordered(card, copy(staging(0, 8), at(24, 32), COPY, TableVersion(7, ())))
    run_all(card, replay("window", version=7))
    with pytest.raises(errors.TableError):
        run_all(card, replay("window", version=0))


def test_a_graph_captured_again_is_replaced() -> None:
    card = make_graph_card()
    card.capture("window", [work([], [HIDDEN])])
    run_all(card, replay("window"))
    with pytest.raises(errors.UndefinedRead):
        run_all(card, work([LOGITS], stream=VERIFIER))
