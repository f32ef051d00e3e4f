"""Tests that let every command of a request fail in its turn: every fourth in each run, all of them with the soak."""

from collections.abc import Iterable

import pytest

from sim.device import Faults
from strata.core.commands import Command, Map, Notify, Record, Transfer, Unmap, Wait
from strata.core.errors import DeviceError
from strata.core.events import Failed

STEP = 4
SHARDS = pytest.mark.parametrize(
    "shard", [0, *(pytest.param(shard, marks=pytest.mark.soak) for shard in range(1, STEP))]
)
"""`shard` of a test is where its `indexes_of` begin."""


def kinds_of(commands: Iterable[object]) -> set[str]:
    """What there is to fail, all shards together."""
    return {type(command).__name__ for command in commands}


def indexes_of(num_commands: int, shard: int) -> range:
    return range(shard, num_commands, STEP)


def fail_once(fail_at: int, kind: str) -> Faults:
    """The command of that index is refused, or fails on its way where it can."""

    def faults(index: int, command: Command) -> Failed | None:
        if index != fail_at:
            return None
        if kind == "refused" or isinstance(command, Map | Unmap | Transfer | Wait | Record | Notify):
            raise DeviceError("planted", command)
        return Failed("planted", command)

    return faults
