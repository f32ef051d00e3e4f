"""The address table: which version a launch may name, and what it may reach through it."""

import pytest

from sim import errors
from sim.device import SimDevice
from sim.symbolic import SymbolicPayload
from strata.core.commands import Map, Notify, Record, TableRead, TableVersion, Transfer, Unmap, Wait
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

TABLE = at(24, 32)
SLOTS = (at(0, 7, content="blob 0 0"), at(7, 14, content="blob 0 1"))


def upload(version: int, entries=SLOTS, table=TABLE, stream=VERIFIER):
    return copy(staging(0, table.extent.size_bytes), table, stream, TableVersion(version, tuple(entries)))


def make_table_card() -> SimDevice:
    """Both slots filled and version 1 published, all known to the host."""
    card = make_owned_card()
    run_all(card, copy(pack(0, 7), SLOTS[0]), copy(pack(7, 14), SLOTS[1]), upload(1))
    finish(card, COPY, VERIFIER)
    return card


def window(version: int = 1, stream=VERIFIER):
    return work([TableRead(version)], stream=stream)


def test_every_stream_reads_the_published_version_again_and_again() -> None:
    card = make_table_card()
    run_all(card, window(), window(), window(stream=PROMPT), window(), window(stream=PROMPT))


def test_nobody_reads_through_a_table_before_the_pack_is_sealed() -> None:
    description = make_owned_card().describe()
    card = SimDevice(description, {"work": lambda memory, args: None}, SymbolicPayload(description))
    run_all(card, Map(3, Extent(24, 8)), Transfer(Extent(24, 8), "", "kv"))
    card.host(staging(0, 8))
    run_all(card, upload(1, ()))
    with pytest.raises(errors.PackError):
        run_all(card, window())
    card.seal()
    run_all(card, window())


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(errors.TableError, match="not published yet"):
        run_all(make_table_card(), window(2))


def test_a_version_is_superseded_once_its_bytes_are_uploaded_anew() -> None:
    card = make_table_card()
    run_all(card, window(), upload(2), window(2))
    with pytest.raises(errors.TableError, match="superseded"):
        run_all(card, window(1))


def test_a_version_whose_table_bytes_were_written_over_is_refused() -> None:
    card = make_table_card()
    run_all(card, window(), fill(at(30, 31), VERIFIER))
    with pytest.raises(errors.TableError, match="written over"):
        run_all(card, window(1))


def test_two_tables_in_different_places_live_side_by_side() -> None:
    card = make_table_card()
    run_all(card, upload(2, SLOTS[:1], at(16, 24)), window(1), window(2), window(1))


def test_versions_go_up() -> None:
    card = make_table_card()
    with pytest.raises(errors.TableError, match="numbers go up"):
        run_all(card, upload(1))


def test_a_reader_waits_for_the_upload() -> None:
    card = make_table_card()
    run_all(card, upload(2))
    with pytest.raises(errors.OrderError):
        run_all(card, window(2, PROMPT))
    run_all(card, Record(VERIFIER, "table"), Wait(PROMPT, "table"), window(2, PROMPT))


def test_an_upload_waits_for_the_readers_of_the_version_before() -> None:
    card = make_table_card()
    run_all(card, window(1, PROMPT), window(1, PROMPT))
    with pytest.raises(errors.OrderError):
        run_all(card, upload(2))


def test_a_reader_waits_for_the_copies_into_the_entries() -> None:
    card = make_table_card()
    run_all(card, copy(pack(0, 7), SLOTS[0], COPY))
    with pytest.raises(errors.OrderError):
        run_all(card, window())


@pytest.mark.parametrize("again", [1, 2, 5])
def test_a_slot_is_rewritten_only_after_the_last_read_through_the_table(again: int) -> None:
    card = make_table_card()
    run_all(card, *[window()] * again, Record(VERIFIER, "window"), window())
    run_all(card, Wait(COPY, "window"))
    with pytest.raises(errors.OrderError, match="may reach through table version=1"):
        run_all(card, copy(pack(0, 7), SLOTS[0], COPY))
    run_all(card, Record(VERIFIER, "window"), Wait(COPY, "window"), copy(pack(0, 7), SLOTS[0], COPY))


def test_a_reader_of_a_later_version_does_not_hide_one_of_an_earlier_version() -> None:
    card = make_table_card()
    run_all(card, window(1, DRAFTER), upload(2, SLOTS, at(16, 24)), window(2), Record(VERIFIER, "w"), Wait(COPY, "w"))
    with pytest.raises(errors.OrderError, match="table version=1"):
        run_all(card, copy(pack(0, 7), SLOTS[0], COPY))


def test_two_versions_over_one_slot_do_not_hide_each_others_later_readers() -> None:
    card = make_table_card()
    run_all(card, upload(2, SLOTS, at(16, 24)), window(1), window(2), Record(VERIFIER, "early"), window(1))
    run_all(card, Wait(COPY, "early"))
    with pytest.raises(errors.OrderError, match="table version=1"):
        run_all(card, copy(pack(0, 7), SLOTS[0], COPY))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda: (Transfer(Extent(13, 1), "kv", "ring"),), errors.OwnershipError),
        (lambda: (Unmap(Extent(8, 8)),), errors.MappingError),
        (lambda: (copy(pack(0, 3), at(3, 6, content="blob 9 9"), COPY), Notify(COPY, "x")), errors.ContentMismatch),
    ],
    ids=["owner", "mapping", "content"],
)
def test_a_change_under_an_entry_is_seen_by_the_next_reader(change, kind) -> None:
    card = make_table_card()
    run_all(card, window(), window())
    finish(card, VERIFIER)
    run_all(card, *change())
    card.completions()
    with pytest.raises(kind):
        run_all(card, window())


def test_an_entry_with_other_content_than_published_is_refused() -> None:
    card = make_table_card()
    run_all(card, upload(2, [at(0, 7, content="blob 0 1")]))
    with pytest.raises(errors.ContentMismatch):
        run_all(card, window(2))


def test_an_entry_outside_the_version_is_not_held_against_anybody() -> None:
    card = make_table_card()
    run_all(card, upload(2, SLOTS[:1]), window(2), copy(pack(7, 14), SLOTS[1], COPY))
    with pytest.raises(errors.OrderError):
        run_all(card, copy(pack(0, 7), SLOTS[0], COPY))
