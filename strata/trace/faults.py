"""Failures planted into any device: its n-th command is refused, or fails on its way.

The device below never learns of a command that is to fail. What a command that failed on its way was to write is
anything then, so those bytes get a byte that nobody would write; the failure is reported with what the device has to
report next. The twin has failures of its own (`sim.faults`), after which it also refuses to read such bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from strata.core.commands import Access, Command, Copy, Fill, GraphLaunch, Launch, Map, Transfer, Unmap
from strata.core.events import Event, Failed
from strata.device import Device
from strata.trace.around import DeviceAround

POISON = 0xDB
PLANTED = "planted"

Faults = Callable[[int, Command], Failed | None]
"""Asked before each command with its index, counted from 0. It may raise DeviceError: the command is refused and
nothing of it happened. Or give a Failed event: the command was taken and failed; what it was to write is undefined."""


class FaultyDevice(DeviceAround):
    """`faults` is asked before every command; None: only what `fail_next` says. `poison`: the byte that is left where a
    command failed on its way."""

    def __init__(self, inner: Device, faults: Faults | None = None, *, poison: int = POISON) -> None:
        super().__init__(inner)
        self._faults, self._poison = faults, poison
        self._index = 0
        self._is_failing = False
        self._failed: list[Event] = []
        self._graphs: dict[str, tuple[Launch, ...]] = {}

    def fail_next(self) -> None:
        """The next command is taken, and what it was to write is anything."""
        self._is_failing = True

    def submit(self, commands: Sequence[Command]) -> None:
        for command in commands:
            failed = self._ask(command)
            if failed is None:
                self._inner.submit((command,))
            else:
                self._inner.submit(tuple(self._spoiling(command)))
                self._failed.append(failed)

    def completions(self) -> Sequence[Event]:
        failed, self._failed = self._failed, []
        return [*failed, *self._inner.completions()]

    def capture(self, name: str, launches: Sequence[Launch]) -> None:
        self._inner.capture(name, launches)
        self._graphs[name] = tuple(launches)

    def _ask(self, command: Command) -> Failed | None:
        index, self._index = self._index, self._index + 1
        if self._is_failing:
            self._is_failing = False
            return Failed(PLANTED, command)
        return None if self._faults is None else self._faults(index, command)

    def _spoiling(self, command: Command) -> Iterator[Fill]:
        assert not isinstance(command, Map | Unmap | Transfer), "what the host does fails at once, or not at all"
        for access in self._targets(command):
            yield Fill(command.stream, access, self._poison)

    def _targets(self, command: Command) -> Iterable[Access]:
        """What of the card the command was to write."""
        match command:
            case Launch():
                return command.writes
            case GraphLaunch():
                return [access for node in self._graphs.get(command.graph, ()) for access in node.writes]
            case Copy():
                return [pair.target for pair in command.pairs if isinstance(pair.target, Access)]
            case Fill():
                return (command.target,)
            case _:
                return ()
