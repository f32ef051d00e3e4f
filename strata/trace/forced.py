"""A device whose streams go on when they are told to: the order in which a card's commands take effect becomes one that
somebody chose (`order.py`), one command after the other.

    submit --> hold | the command | mark     on its stream; nothing runs yet
                 ^                  |
    go --> raise the word           +--> the host sees that it is over, then lets the next one go

Commands are submitted when the trace says so, with all of the card's own streams, events and graphs, so a wait that is
missing is really missing. A capture and a digest may allocate, and on a card what allocates may wait for every stream:
nothing is held meanwhile. An unmap under a command that is still held would cost the card's context: it is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from strata.core.commands import (
    Access,
    Command,
    Copy,
    Digest,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Stream,
    Transfer,
    Unmap,
)
from strata.core.errors import DeviceError
from strata.core.events import Event, Reached
from strata.core.extent import Extent
from strata.device import Device
from strata.trace.around import DeviceAround
from strata.trace.order import Late, Order


class Gates(Protocol):
    """Of the streams of one device. Per stream there are as many marks as holds, in turn."""

    def hold(self, stream: Stream) -> None:
        """What is submitted to `stream` from now on waits for one more `go`."""

    def mark(self, stream: Stream) -> None:
        """What was submitted since the last `hold` is one turn."""

    def go(self, stream: Stream) -> None:
        """Let the next turn go on, and return when it is over. Raises DeviceError where it does not end."""


class ForcedDevice(DeviceAround):
    """Over `inner`, whose streams `gates` hold. `poison` makes bytes wrong that nobody may read: those that are newly
    mapped, or pass to another owner."""

    def __init__(self, inner: Device, gates: Gates, late: Late, poison: Callable[[Extent], None]) -> None:
        super().__init__(inner)
        self._gates, self._poison = gates, poison
        self._order = Order(late)
        self._graphs: dict[str, tuple[Launch, ...]] = {}
        self._is_forcing = True

    def submit(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Map | Unmap | Transfer):
                self._change(command)
            elif self._is_forcing and not isinstance(command, Digest):
                self._take_turn(command)
            else:
                self._go(self._order.rest())
                self._inner.submit((command,))

    def tell(self, event: Event) -> None:
        """The host is about to learn this, so it must have come about."""
        if isinstance(event, Reached):
            self._go(self._order.learn(event.tag))

    def settle(self) -> None:
        """Everything that is held goes on, and nothing is held from now on."""
        self._go(self._order.rest())
        self._is_forcing = False

    def completions(self) -> Sequence[Event]:
        """Raises DeviceError for a notice that came before its turn."""
        events = self._inner.completions()
        for event in events:
            if self._is_forcing and isinstance(event, Reached) and not self._order.is_over(event.tag):
                raise DeviceError(f"tag={event.tag!r} was reported while its stream was held before it")
        return events

    def capture(self, name: str, launches: Sequence[Launch]) -> None:
        self._go(self._order.rest())
        self._inner.capture(name, launches)
        self._graphs[name] = tuple(launches)

    def _take_turn(self, command: Command) -> None:
        assert not isinstance(command, Map | Unmap | Transfer), command
        stream, taken = command.stream, None  # what is refused takes a turn too, and does nothing in it
        self._gates.hold(stream)
        try:
            self._inner.submit((command,))
            taken = command
        finally:
            self._gates.mark(stream)
            self._go(self._order.add(stream, taken))

    def _change(self, command: Map | Unmap | Transfer) -> None:
        if isinstance(command, Unmap):
            self._check_unused(command)
        self._inner.submit((command,))
        if isinstance(command, Map) or (isinstance(command, Transfer) and not command.in_place):
            self._poison(command.extent)

    def _check_unused(self, command: Unmap) -> None:
        for held in self._order.held():
            if any(extent.overlaps(command.extent) for extent in self._extents(held)):
                raise DeviceError(
                    f"unmap refused: {type(held).__name__.lower()} on {held.stream} has still to touch "  # type: ignore[union-attr]
                    f"[{command.extent.offset_bytes}, {command.extent.end_bytes}), and nothing made the host wait for "
                    "it; a card would lose its context",
                    command,
                )

    def _extents(self, command: Command) -> Iterator[Extent]:
        """Bytes of the card that the command touches by name."""
        match command:
            case Launch():
                yield from (side.extent for side in (*command.reads, *command.writes) if isinstance(side, Access))
            case GraphLaunch():
                for node in self._graphs.get(command.graph, ()):
                    yield from self._extents(node)
            case Copy():
                sides = [side for pair in command.pairs for side in (pair.source, pair.target)]
                yield from (side.extent for side in sides if isinstance(side, Access))
            case Fill():
                yield command.target.extent
            case _:
                pass

    def _go(self, streams: Iterable[Stream]) -> None:
        for stream in streams:
            self._gates.go(stream)
