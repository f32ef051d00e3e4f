"""Parked memory: what the card wrote there comes home under its name, in order, and nothing else does."""

import pytest

from sim import errors
from sim.device import SimDevice
from strata.core.commands import Command, Copy, CopyPair, Record, Stream, Wait
from strata.core.events import Failed
from tests.sim.builders import (
    COPY,
    PARKED,
    PROMPT,
    VERIFIER,
    at,
    copy,
    fill,
    finish,
    make_owned_card,
    parked,
    run_all,
    run_ordered,
    staging,
)

PARK = copy(at(0, 7, content="k 0"), parked(3, 10), VERIFIER)


def card_with_cells(**options: object) -> SimDevice:
    card = make_owned_card(**options)
    run_ordered(card, fill(at(0, 32)))
    return card


def test_what_was_parked_comes_home_in_parts() -> None:
    run_ordered(card_with_cells(), PARK, copy(parked(5, 9), at(2, 6, content="k 0"), VERIFIER))


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (copy(parked(5, 9), at(2, 6, content="v 0"), VERIFIER), errors.ContentMismatch),
        (copy(parked(5, 11), at(2, 8, content="k 0"), VERIFIER), errors.UndefinedRead),
        (copy(at(0, 4), parked(PARKED - 3, PARKED + 1), VERIFIER), errors.OutOfBounds),
        (copy(parked(PARKED - 3, PARKED + 1), at(0, 4), VERIFIER), errors.OutOfBounds),
        (Copy(VERIFIER, (CopyPair(at(0, 4), parked(0, 4)), CopyPair(at(4, 8), parked(3, 7)))), errors.OrderError),
    ],
    ids=["under another name", "beyond what was written", "write beyond the end", "read beyond the end", "group meets"],
)
def test_a_violation_is_refused_by_kind(command: Command, kind: type[errors.TwinError]) -> None:
    card = card_with_cells()
    run_ordered(card, PARK)
    with pytest.raises(kind):
        card.submit([command])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PARK, copy(parked(3, 10), at(8, 15), COPY)),
        (copy(parked(3, 10), at(8, 15), COPY), copy(at(16, 20), parked(9, 13), VERIFIER)),
        (PARK, copy(at(16, 20), parked(9, 13), PROMPT)),
        (PARK, fill(at(3, 4), PROMPT)),
    ],
    ids=["read after write", "write after read", "write after write", "cells overwritten while they are parked"],
)
def test_two_streams_meet_in_parked_memory(first: Copy, second: Command) -> None:
    card = card_with_cells()
    run_ordered(card, copy(at(0, 7), parked(3, 10), VERIFIER))
    card.submit([first])
    with pytest.raises(errors.OrderError):
        card.submit([second])
    ordered = card_with_cells()
    run_ordered(ordered, copy(at(0, 7), parked(3, 10), VERIFIER))
    stream: Stream = second.stream  # type: ignore[union-attr]
    run_all(ordered, first, Record(first.stream, "first"), Wait(stream, "first"), second)


def test_the_host_sees_parked_bytes_only_once_their_copy_is_over() -> None:
    card = card_with_cells()
    card.submit([PARK])
    with pytest.raises(errors.OrderError, match="access to parked by the host"):
        card.host(parked(9, 12))
    finish(card, VERIFIER)
    card.host(parked(9, 12))


def test_a_copy_that_failed_leaves_nothing_that_could_be_restored() -> None:
    card = card_with_cells(faults=lambda index, command: Failed("planted", command) if command is PARK else None)
    card.submit([PARK])
    finish(card, VERIFIER)
    with pytest.raises(errors.UndefinedRead):
        card.submit([copy(parked(3, 4), at(0, 1), VERIFIER)])


def test_staging_has_no_names() -> None:
    card = card_with_cells()
    run_ordered(card, copy(at(0, 7, content="k 0"), staging(0, 7), VERIFIER))
    run_ordered(card, copy(staging(0, 7), at(0, 7, content="params"), VERIFIER))
