"""`--verify-lent`: digests of what came home are held against the pack; a wrong byte breaks a request, not more."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from strata.config.values import Mtp
from strata.core.commands import Access, Command, Copy, Digest, Stream
from strata.core.errors import DeviceError
from strata.core.extent import Extent
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from tests.end_to_end.real_card import RealCard, real_card
from tests.engine import test_room
from tests.engine.symbolic_card import prompt
from tests.fixtures.lend_model import NUM_LAYERS

MIB = 1 << 20
IDS = tuple((11 * i * i + 5 * i) % 290 for i in range(600))
ROOM = LendingPolicy(room_min_tokens=0, is_verified=True)
ELASTIC = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True, is_verified=True)


def options(policy: LendingPolicy) -> PlanOptions:
    return PlanOptions(2_048, min_cache_slots=16, ring_slots=8, policy=policy, segment_bytes=1 << 16)


def _note(commands: list[Command], index: int, command: Command) -> None:
    commands.append(command)


def homes_of(commands: list[Command]) -> list[Extent]:
    """What the copy stream brought to the card and is no ring entry: those are the prompt's and the trunk's."""
    targets = [
        pair.target
        for command in commands
        if isinstance(command, Copy) and command.stream is Stream.COPY
        for pair in command.pairs
        if isinstance(pair.target, Access)
    ]
    return [
        target.extent
        for target in targets
        if target.owner != "prompt" or (target.content or "").startswith(f"blob {NUM_LAYERS} ")
    ]


def spoil_the_next_piece(card: RealCard) -> None:
    """A byte of the next piece that is digested is changed on the card before the digest is taken."""
    payload = card.device._payload
    digest = payload.digest

    def spoilt(source, target):  # type: ignore[no-untyped-def]
        payload.digest = digest  # type: ignore[method-assign]
        payload._arena_tensor[source.offset_bytes] ^= 1  # type: ignore[attr-defined]
        digest(source, target)

    payload.digest = spoilt  # type: ignore[method-assign]


@pytest.mark.slow
@pytest.mark.parametrize("policy", [ROOM, ELASTIC], ids=["room", "elastic"])
def test_everything_that_came_home_is_verified_and_changes_no_token(lend_model: Path, policy: LendingPolicy) -> None:
    commands: list[Command] = []
    watch = partial(_note, commands)
    with real_card(lend_model, options(policy), arena_bytes=16 * MIB, mtp=Mtp(), faults=watch) as card:
        del commands[:]
        ids = card.serve(IDS)
        digested = [command.source.extent for command in commands if isinstance(command, Digest)]
        assert sorted(digested) == sorted(homes_of(commands)) != []
        assert card.runner.snapshot().counts.num_verified == len(digested)
    with real_card(lend_model, options(replace(policy, is_verified=False)), arena_bytes=16 * MIB, mtp=Mtp()) as card:
        assert card.serve(IDS) == ids
        assert card.runner.snapshot().counts.num_verified == 0


@pytest.mark.slow
@pytest.mark.parametrize("policy", [ROOM, ELASTIC], ids=["room", "elastic"])
def test_a_wrong_byte_breaks_the_request_and_is_made_right(lend_model: Path, policy: LendingPolicy) -> None:
    with real_card(lend_model, options(policy), arena_bytes=16 * MIB, mtp=Mtp()) as card:
        spoil_the_next_piece(card)
        with pytest.raises(DeviceError, match="verify-lent: bytes came home"):
            card.serve(IDS)
        card.runner.recover()
        again = card.serve(IDS)
    with real_card(lend_model, options(policy), arena_bytes=16 * MIB, mtp=Mtp()) as card:
        assert card.serve(IDS) == again


def test_digests_are_only_taken_where_they_are_asked_for() -> None:
    served = test_room.card()
    served.serve(prompt(300))
    assert not any(isinstance(command, Digest) for command in served.commands)
