"""Failures on demand: refused, or taken and failed. Either way the twin stays consistent and can go on."""

import pytest

from sim import errors
from sim.device import SimDevice
from strata.core.commands import Command, TableRead, TableVersion
from strata.core.errors import DeviceError
from strata.core.events import Failed
from tests.sim.builders import (
    COPY,
    PROMPT,
    at,
    copy,
    fill,
    finish,
    make_owned_card,
    pack,
    replay,
    run_all,
    staging,
    work,
)


class Faults:
    """Acts on chosen commands, counted from 0."""

    def __init__(self) -> None:
        self.plan: dict[int, Exception | str] = {}
        self.asked: list[tuple[int, Command]] = []

    def __call__(self, index: int, command: Command) -> Failed | None:
        self.asked.append((index, command))
        found = self.plan.get(index)
        if isinstance(found, Exception):
            raise found
        return None if found is None else Failed(found, command)


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def card(faults: Faults) -> SimDevice:
    return make_owned_card(faults=faults)


def test_faults_are_asked_about_every_command_in_order(card: SimDevice, faults: Faults) -> None:
    commands = [fill(at(0, 4)), work([at(0, 4)])]
    card.submit(commands)
    assert faults.asked[5:] == [(5, commands[0]), (6, commands[1])]


def test_a_refused_command_is_raised_and_does_nothing(card: SimDevice, faults: Faults) -> None:
    faults.plan[6] = DeviceError("out of luck")
    before = card.statistics()
    with pytest.raises(DeviceError, match="out of luck"):
        card.submit([fill(at(0, 4)), fill(at(4, 8)), fill(at(8, 12))])
    assert card.statistics().num_commands == before.num_commands + 1
    assert list(card.completions()) == []
    with pytest.raises(errors.UndefinedRead):
        run_all(card, work([at(0, 8)]))
    run_all(card, fill(at(4, 8)), work([at(0, 8)]))


@pytest.mark.parametrize(
    "command",
    [fill(at(0, 4)), copy(pack(0, 4), at(0, 4), PROMPT), work([], [at(0, 4)])],
    ids=["fill", "copy", "launch"],
)
def test_a_failed_command_is_reported_and_leaves_its_target_undefined(card, faults, command) -> None:
    run_all(card, fill(at(0, 8)))
    faults.plan[6] = "bus error"
    run_all(card, command)
    assert list(card.completions()) == [Failed("bus error", command)]
    run_all(card, work([at(4, 8)]))
    with pytest.raises(errors.UndefinedRead):
        run_all(card, work([at(0, 4)]))
    run_all(card, command, work([at(0, 4)]))


def test_a_failed_copy_to_the_host_leaves_staging_undefined(card: SimDevice, faults: Faults) -> None:
    faults.plan[6] = "bus error"
    run_all(card, fill(at(0, 4)), copy(at(0, 4), staging(0, 4), PROMPT))
    with pytest.raises(errors.UndefinedRead):
        run_all(card, copy(staging(0, 4), at(8, 12), PROMPT))


def test_a_failed_upload_publishes_nothing(card: SimDevice, faults: Faults) -> None:
    faults.plan[5] = "bus error"
    run_all(card, copy(staging(0, 8), at(24, 32), COPY, TableVersion(1, ())))
    with pytest.raises(errors.TableError):
        run_all(card, work([TableRead(1)], stream=COPY))


def test_a_failed_graph_leaves_all_that_it_writes_undefined(card: SimDevice, faults: Faults) -> None:
    card.capture("window", [work([], [at(0, 4)]), work([at(0, 4)], [at(4, 8)])])
    run_all(card, replay("window"), work([at(0, 8)], stream=replay("window").stream))
    faults.plan[7] = "bus error"
    run_all(card, replay("window"))
    for access in (at(0, 4), at(4, 8)):
        with pytest.raises(errors.UndefinedRead):
            run_all(card, work([access], stream=replay("window").stream))


def test_a_failure_is_still_a_write_that_others_are_ordered_after(card: SimDevice, faults: Faults) -> None:
    faults.plan[5] = "bus error"
    run_all(card, copy(pack(0, 4), at(0, 4)))
    with pytest.raises(errors.OrderError):
        run_all(card, fill(at(0, 4), PROMPT))
    finish(card, COPY)
    run_all(card, fill(at(0, 4), PROMPT))


def test_a_command_that_was_wrong_anyway_is_refused_not_failed(card: SimDevice, faults: Faults) -> None:
    faults.plan[5] = "bus error"
    with pytest.raises(errors.OwnershipError):
        run_all(card, fill(at(0, 4, "ring")))
    assert list(card.completions()) == []
