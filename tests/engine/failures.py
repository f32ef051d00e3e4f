"""Commands of a request fail in their turn, on one card of real bytes: what is the master's is the master's again, and
the next request leaves the state that it leaves on a card where nothing ever failed."""

from collections.abc import Sequence

import pytest

from strata.core.commands import Command
from strata.core.errors import DeviceError
from strata.core.serving.request import GenerationRequest
from tests.engine.byte_card import SCENARIOS, ByteCard, byte_card
from tests.engine.every_command import kinds_of
from tests.engine.symbolic_card import prompt

FRESH_TOKENS = 300
KINDS = {"Copy", "Launch", "GraphLaunch", "Transfer", "Record", "Wait", "Notify", "Fill"}
MOVES = {"Map", "Unmap"}


def fail_each(scenario: str, body: str, *, step: int | None, is_refused: bool) -> int:
    """Every `step`-th command of a request, or the first of each kind; the number of commands that failed."""
    with byte_card(SCENARIOS[scenario], body) as card:
        card.fail(None)
        assert card.serve(_request(0)) == 3
        commands = list(card.asked)
        card.assert_all_home()
        states = card.state_digests()
        numbers = first_of_each_kind(commands) if step is None else range(0, len(commands), step)
        for number in numbers:
            _fail(card, number, is_refused=is_refused)
            assert card.serve(_request(2 * number + 2)) == 3
            card.assert_all_home()
            assert card.state_digests() == states
    assert kinds_of(commands) >= KINDS | (MOVES if card.plan.zone is not None else set())
    assert bool(states) == ("hybrid" in scenario)
    return len(numbers)


def first_of_each_kind(commands: Sequence[Command]) -> list[int]:
    kinds = [type(command) for command in commands]
    return sorted(kinds.index(kind) for kind in set(kinds))


def _fail(card: ByteCard, number: int, *, is_refused: bool) -> None:
    card.fail(number, is_refused=is_refused)
    with pytest.raises(DeviceError):  # the planted one, or what comes of it: a table that was never published
        card.serve(_request(2 * number + 1))
    assert len(card.asked) > number
    card.fail(None)
    card.runner.recover()
    card.assert_all_home()


def _request(number: int) -> GenerationRequest:
    """Shares no prefix with the one before it."""
    return prompt(FRESH_TOKENS, max_tokens=3, first=number % 31)
