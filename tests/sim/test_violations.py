"""Every check fires on a planted violation, and not on the right sequence beside it."""

import pytest

from sim import errors
from sim.device import SimDevice
from strata.core.commands import Command, Copy, CopyPair, Digest, Launch, Map, Transfer, Unmap, Wait
from strata.core.extent import Extent
from tests.sim.builders import (
    ARENA,
    COPY,
    PROMPT,
    SEGMENT,
    at,
    copy,
    fill,
    make_card,
    make_owned_card,
    pack,
    run_all,
    run_ordered,
    staging,
    work,
)

RIGHT: list[tuple[str, list[Command]]] = [
    ("fill then read", [fill(at(3, 13)), work([at(3, 13)], [at(13, 20)])]),
    ("read across a segment border", [fill(at(0, 32)), work([at(7, 25)])]),
    ("named content", [copy(pack(0, 5), at(0, 5, content="blob 0 1"), PROMPT), work([at(0, 5, content="blob 0 1")])]),
    ("a reader that names nothing", [copy(pack(0, 5), at(0, 5, content="blob 0 1"), PROMPT), work([at(1, 4)])]),
    ("to staging and back", [fill(at(0, 7)), copy(at(0, 7), staging(2, 9), PROMPT)]),
    ("digest", [fill(at(0, 7)), Digest(PROMPT, at(0, 7), staging(0, 8))]),
    (
        "transfer, write, read",
        [Transfer(Extent(5, 6), "kv", "ring"), fill(at(5, 11, "ring")), work([at(5, 11, "ring")])],
    ),
    (
        "passed on in place",
        [fill(at(0, 8)), Transfer(Extent(3, 5), "kv", "ring", in_place=True), work([at(0, 3), at(3, 8, "ring")])],
    ),
    ("remap", [Unmap(Extent(8, 8)), Map(1, Extent(32, 8)), Unmap(Extent(32, 8)), Map(6, Extent(8, 8))]),
    ("empty extents", [work([at(40, 40)], [at(0, 0)]), Transfer(Extent(0, 0), "", "nobody here")]),
    ("write declared, read in place", [work([], [at(0, 9)]), work([at(0, 9)], [at(0, 9)])]),
]


@pytest.mark.parametrize(("name", "commands"), RIGHT, ids=[name for name, _ in RIGHT])
def test_a_right_sequence_is_accepted(name: str, commands: list[Command]) -> None:
    card = make_owned_card()
    run_ordered(card, *commands)
    assert card.statistics().num_commands == 5 + 5 * len(commands)


WRONG: list[tuple[str, type[errors.TwinError], list[Command]]] = [
    ("foreign owner", errors.OwnershipError, [fill(at(0, 4, "ring"))]),
    ("one foreign byte", errors.OwnershipError, [Transfer(Extent(3, 1), "kv", "ring"), fill(at(0, 9))]),
    ("no owner", errors.OwnershipError, [Transfer(Extent(0, 8), "kv", ""), fill(at(0, 8, ""))]),
    ("wrong giver", errors.OwnershipError, [Transfer(Extent(0, 8), "ring", "cache")]),
    ("giver of too much", errors.OwnershipError, [Transfer(Extent(0, 33), "kv", "cache")]),
    ("giver is taker", errors.OwnershipError, [Transfer(Extent(0, 8), "kv", "kv")]),
    ("read after transfer", errors.UndefinedRead, [fill(at(0, 8)), Transfer(Extent(7, 1), "kv", "a"),
                                                   Transfer(Extent(7, 1), "a", "kv"), work([at(0, 8)])]),
    ("in place, what was undefined stays so", errors.UndefinedRead,
     [fill(at(0, 7)), Transfer(Extent(0, 8), "kv", "a", in_place=True), work([at(0, 8, "a")])]),
    ("in place, the giver has it no more", errors.OwnershipError,
     [fill(at(0, 8)), Transfer(Extent(7, 1), "kv", "a", in_place=True), work([at(0, 8)])]),
    ("in place, wrong giver", errors.OwnershipError, [Transfer(Extent(0, 8), "ring", "cache", in_place=True)]),
    ("in place, content stays", errors.ContentMismatch,
     [copy(pack(0, 5), at(0, 5, content="blob 0 1"), PROMPT), Transfer(Extent(0, 5), "kv", "a", in_place=True),
      work([at(0, 5, "a", content="blob 0 2")])]),
    ("read after remap", errors.UndefinedRead, [fill(at(8, 16)), _u := Unmap(Extent(8, 8)), Map(1, Extent(8, 8)),
                                                work([at(8, 16)])]),
    ("one byte never written", errors.UndefinedRead, [fill(at(0, 8)), work([at(0, 9)])]),
    ("copy of undefined", errors.UndefinedRead, [copy(at(0, 8), staging(0, 8))]),
    ("digest of undefined", errors.UndefinedRead, [Digest(PROMPT, at(0, 8), staging(0, 8))]),
    ("other content", errors.ContentMismatch, [copy(pack(0, 5), at(0, 5, content="blob 0 1"), PROMPT),
                                               work([at(0, 5, content="blob 0 2")])]),
    ("half other content", errors.ContentMismatch, [copy(pack(0, 5), at(0, 5, content="blob 0 1"), PROMPT),
                                                    copy(pack(5, 8), at(4, 7, content="blob 0 2"), PROMPT),
                                                    work([at(0, 5, content="blob 0 1")])]),
    ("written twice by one launch, under a name", errors.ContentMismatch,
     [fill(at(0, 3)), fill(at(3, 8)), work([], [at(0, 8), at(3, 6, content="x")]), work([at(2, 6, content="y")])]),
    ("unmapped", errors.MappingError, [fill(at(40, 44, ""))]),
    ("half unmapped", errors.MappingError, [_u, fill(at(0, 16))]),
    ("map twice", errors.MappingError, [Map(5, Extent(8, 8))]),
    ("segment used twice", errors.MappingError, [Map(1, Extent(40, 8))]),
    ("map off the grid", errors.MappingError, [Map(5, Extent(41, 8))]),
    ("map of two segments", errors.MappingError, [Map(5, Extent(40, 16))]),
    ("unmap off the grid", errors.MappingError, [Unmap(Extent(4, 8))]),
    ("unmap of part", errors.MappingError, [Unmap(Extent(8, 4))]),
    ("unmap of nothing", errors.MappingError, [Unmap(Extent(40, 8))]),
    ("unmap twice", errors.MappingError, [_u, _u]),
    ("too many segments", errors.OutOfMemory, [Map(ARENA // SEGMENT, Extent(40, 8))]),
    ("beyond the arena", errors.OutOfBounds, [fill(at(50, 57, ""))]),
    ("beyond the pack", errors.OutOfBounds, [copy(pack(30, 32), at(0, 2))]),
    ("beyond staging", errors.OutOfBounds, [copy(staging(20, 24), at(0, 4))]),
    ("write into the pack", errors.PackError, [fill(at(0, 4)), copy(at(0, 4), pack(0, 4), PROMPT)]),
    ("event never recorded", errors.EventError, [Wait(PROMPT, "copied 3")]),
    ("unknown program", errors.UnknownProgram, [Launch(PROMPT, "dance", None, (), ())]),
    ("group writes one byte twice", errors.OrderError,
     [Copy(COPY, (CopyPair(pack(0, 4), at(0, 4)), CopyPair(pack(4, 8), at(3, 7))))]),
    ("group reads what it writes", errors.OrderError,
     [fill(at(0, 4)), Copy(PROMPT, (CopyPair(at(0, 4), staging(0, 4)), CopyPair(staging(4, 8), at(3, 7))))]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "commands"), WRONG, ids=[name for name, _, _ in WRONG])
def test_a_violation_is_refused_by_kind(name: str, kind: type[errors.TwinError], commands: list[Command]) -> None:
    card = make_owned_card()
    run_ordered(card, *commands[:-1])
    with pytest.raises(kind) as caught:
        card.submit([commands[-1]])
    assert type(caught.value) is kind
    assert caught.value.command is commands[-1]


def _facts(card: SimDevice) -> tuple:
    return card.card_map(), card.statistics()


@pytest.mark.parametrize(("name", "kind", "commands"), WRONG, ids=[name for name, _, _ in WRONG])
def test_a_refused_command_changes_nothing(name: str, kind: type[errors.TwinError], commands: list[Command]) -> None:
    card = make_owned_card()
    run_ordered(card, *commands[:-1])
    before = _facts(card)
    with pytest.raises(kind):
        card.submit([commands[-1]])
    assert _facts(card) == before


def test_commands_before_the_refused_one_stand() -> None:
    card = make_owned_card()
    with pytest.raises(errors.OwnershipError):
        card.submit([fill(at(0, 8)), fill(at(0, 8, "ring")), fill(at(8, 16))])
    run_all(card, work([at(0, 8)]))
    with pytest.raises(errors.UndefinedRead):
        run_all(card, work([at(8, 16)]))


def test_the_message_names_operation_bytes_owners_and_the_map_around() -> None:
    card = make_owned_card()
    run_all(card, Transfer(Extent(3, 5), "kv", "ring"))
    with pytest.raises(errors.OwnershipError) as caught:
        run_all(card, work([], [at(0, 8)]))
    assert str(caught.value) == (
        "launch work #6 on stream prompt refused: arena [0, 8) expected owner='kv', but [3, 8) has owner='ring' "
        "generation=2. Map around it: [0, 3) owner='kv'/1, [3, 8) owner='ring'/2, [8, 16) owner='kv'/1; segments 0 1"
    )


def test_the_pack_is_read_only_after_seal_and_unreadable_before() -> None:
    card = make_owned_card()
    with pytest.raises(TypeError):
        card.host(pack(0, 4))[0] = 1
    with pytest.raises(errors.PackError):
        card.seal()


def test_a_command_may_not_read_the_pack_before_seal() -> None:
    sealed = make_card()
    open_card = SimDevice(sealed.describe(), {}, sealed._payload)
    run_all(open_card, Map(0, Extent(0, 8)), Transfer(Extent(0, 8), "", "kv"))
    with pytest.raises(errors.PackError):
        run_all(open_card, copy(pack(0, 4), at(0, 4)))
    open_card.seal()
    run_all(open_card, copy(pack(0, 4), at(0, 4)))


def test_a_copy_of_the_wrong_blob_is_caught_by_the_manifest() -> None:
    card = make_owned_card(manifest=[(pack(0, 7), "blob 0 0"), (pack(7, 14), "blob 0 1")])
    run_all(card, copy(pack(7, 14), at(0, 7, content="blob 0 1")), copy(pack(7, 14), at(0, 7)))
    with pytest.raises(errors.ContentMismatch):
        run_all(card, copy(pack(6, 13), at(0, 7, content="blob 0 1")))


BLOBS = [(pack(0, 7), "blob 0 0"), (pack(7, 14), "blob 0 1")]


def test_a_blob_copied_home_by_pieces_is_read_as_a_whole() -> None:
    card = make_owned_card(manifest=BLOBS)
    pieces = [copy(pack(7 + a, 7 + b), at(9 + a, 9 + b, content="blob 0 1")) for a, b in ((4, 7), (0, 3), (3, 4))]
    run_ordered(card, *pieces, work([at(9, 16, content="blob 0 1")]))
    with pytest.raises(errors.ContentMismatch, match="is 'blob 0 1'"):
        run_all(card, copy(pack(6, 9), at(8, 11, content="blob 0 0")))


@pytest.mark.parametrize("place", [(9, 12), (11, 14), (12, 15)])
def test_a_piece_in_the_wrong_place_of_its_blob_is_no_blob(place: tuple[int, int]) -> None:
    card = make_owned_card(manifest=BLOBS)
    whole, piece = at(9, 16, content="blob 0 1"), at(*place, content="blob 0 1")
    run_ordered(card, copy(pack(7, 14), whole), copy(pack(8, 11), piece))
    with pytest.raises(errors.ContentMismatch, match="not where the rest of it would have it"):
        run_all(card, work([whole], stream=COPY))
    run_ordered(card, copy(pack(7, 14), whole), work([whole]))


def test_staging_that_nobody_wrote_is_not_copied() -> None:
    card = make_card()
    run_all(card, Map(0, Extent(0, 8)), Transfer(Extent(0, 8), "", "kv"))
    card.host(staging(0, 4))
    run_all(card, copy(staging(0, 4), at(0, 4)))
    with pytest.raises(errors.UndefinedRead):
        run_all(card, copy(staging(1, 5), at(0, 4)))


def test_ownership_outlives_a_loan_of_the_segment_under_it() -> None:
    card = make_owned_card()
    run_all(card, Unmap(Extent(8, 8)), Map(1, Extent(8, 8)), fill(at(0, 16)), work([at(0, 16)]))
    assert [(row.offset_bytes, row.size_bytes, row.owner) for row in card.card_map()] == [(0, 32, "kv"), (32, 24, "")]
