"""Failures on demand. Who draws them is not known here; every one of them is recoverable by specification."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from sim.graphs import Graph
from sim.shadow import Side
from strata.core.commands import Command, Copy, Digest, Fill, GraphLaunch, Launch
from strata.core.events import Failed

Faults: TypeAlias = Callable[[int, Command], Failed | None]
"""Asked before each command with its index, counted from 0. It may raise DeviceError: the command is refused and
nothing of it happened. Or give a Failed event: the command was taken and failed; what it was to write is undefined."""


def targets_of(command: Command, graphs: Mapping[str, Graph]) -> list[Side]:
    """Everything that `command` was to write."""
    match command:
        case Launch():
            return list(command.writes)
        case GraphLaunch() if command.graph in graphs:
            return [target for node in graphs[command.graph].nodes for target in node.launch.writes]
        case Copy():
            return [pair.target for pair in command.pairs]
        case Fill() | Digest():
            return [command.target]
        case _:
            return []
