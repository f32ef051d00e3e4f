"""Body 1 of `strata.device.Device`: a CUDA card. Executes commands, decides nothing, waits for nothing.

    submit --> check what would lose the context --> driver calls on the command's stream --> completions: event queries

Checked here, since a card would answer with silence or with the loss of the context: bounds, mapped segments, host
ranges, the seal, known programs, graphs, events and table versions, stale segments under a graph, and what a program
asks of its memory. Checked by the twin alone: owners, definedness, content, the order of streams, the host's own
access to staging, and what kernels do with addresses. `Transfer` therefore moves nothing and is only counted.

A failure that loses the context makes the device lost: every later command is refused with its cause, and every
`completions` reports it, so that nobody waits for an event that cannot come.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from strata.core.commands import (
    Command,
    Copy,
    Digest,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Record,
    Transfer,
    Unmap,
    Wait,
)
from strata.core.errors import DeviceError
from strata.core.events import Event, Failed, Reached
from strata.core.extent import HostExtent, HostSpace
from strata.cuda.arena import Arena
from strata.cuda.driver import Driver
from strata.cuda.errors import CudaFailure
from strata.cuda.gates import Gates
from strata.cuda.held import Held
from strata.cuda.launches import Launches
from strata.cuda.memory import Views
from strata.cuda.moves import Moves
from strata.cuda.pinned import HostMemory
from strata.cuda.streams import Streams
from strata.cuda.tables import Tables
from strata.device import DeviceDescription, DeviceStatistics, Programs


@dataclass(frozen=True, slots=True)
class CardParts:
    """What a device is made of; `held` gives all of it back."""

    driver: Driver
    arena: Arena
    pack: HostMemory
    staging: HostMemory
    parked: HostMemory
    streams: Streams
    views: Views
    held: Held


class CudaDevice:
    """Made by `strata.cuda.open.open_device`. May be used from one thread at a time, any thread."""

    def __init__(self, description: DeviceDescription, parts: CardParts, programs: Programs) -> None:
        self._description = description
        self._driver, self._arena, self._streams = parts.driver, parts.arena, parts.streams
        self._host = {
            HostSpace.PACK: parts.pack,
            HostSpace.STAGING: parts.staging,
            HostSpace.PARKED: parts.parked,
        }
        self._views, self._held = parts.views, parts.held
        self._moves = Moves(parts.driver, parts.arena, parts.streams, self._host)
        self._tables = Tables(parts.arena, parts.pack)
        self._launches = Launches(
            description,
            parts.driver,
            parts.arena,
            parts.streams,
            parts.views,
            self._tables,
            programs,
            pinned_pack_bytes=parts.pack.pinned_bytes,
        )
        self._num_maps = self._num_commands = 0
        self._lost: CudaFailure | None = None
        self._gates: list[Gates] = []
        self._is_closed = False

    def describe(self) -> DeviceDescription:
        return self._description

    def describe_pinning(self) -> tuple[str, ...]:
        """A line for each host space: how much is pinned, and why not all of it."""
        return tuple(memory.describe_pinning() for memory in self._host.values())

    def open_gates(self) -> Gates:
        """From now on somebody may say when the streams go on. Closed with the device; raises DeviceError."""
        self._enter()
        gates = Gates(self._driver, self._arena, self._streams)
        self._held.add(gates.close)
        self._gates.append(gates)
        return gates

    @property
    def pinned_pack_bytes(self) -> int:
        """Kernels reach the pack up to here; what lies behind must be copied into a slot."""
        return self._host[HostSpace.PACK].pinned_bytes

    @property
    def pageable_bytes(self) -> int:
        """Of all host memory. A copy from or to it holds up whoever submits it."""
        return sum(memory.pageable_bytes for memory in self._host.values())

    def submit(self, commands: Sequence[Command]) -> None:
        self._enter()
        for command in commands:
            try:
                self._check_alive()
                self._apply(command)
            except DeviceError as error:
                self._note(error)
                error.command = command if error.command is None else error.command
                raise
            self._num_commands += 1

    def completions(self) -> Sequence[Event]:
        """A lost device reports its loss at every call."""
        self._enter()
        events: list[Event] = []
        if self._lost is None:
            try:
                for tag in self._streams.reached():
                    events.append(Reached(tag))  # one by one: a failure must not take back what came before it
            except CudaFailure as failure:
                self._note(failure)
                if not failure.is_fatal:
                    events.append(Failed(str(failure), failure.command))
        if self._lost is not None:
            events.append(Failed(f"the card is lost: {self._lost}", self._lost.command, is_fatal=True))
        return events

    def rest(self) -> None:
        """For whoever has nothing to do until the card reports: wait until it will, without a turn of the
        interpreter. What fails meanwhile is told by `completions`."""
        self._enter()
        if self._lost is None:
            with suppress(CudaFailure):
                self._streams.rest()

    def capture(self, name: str, launches: Sequence[Launch]) -> None:
        """Programs run once, queueing into the graph: see `graphs.py` for what they must not do."""
        self._enter()
        self._check_alive()
        try:
            self._launches.capture(name, launches)
        except DeviceError as error:
            self._note(error)
            raise

    def host(self, extent: HostExtent) -> memoryview:
        """The host is not kept from bytes that the card still uses: ask only once a `Reached` says they are free."""
        assert not self._is_closed
        view = self._host[extent.space].view(offset_bytes=extent.offset_bytes, size_bytes=extent.size_bytes)
        return view.toreadonly() if extent.space is HostSpace.PACK and self._host[HostSpace.PACK].is_sealed else view

    def seal(self) -> None:
        """From here on commands may read the pack. Views given out before must not be written any more."""
        if self._host[HostSpace.PACK].is_sealed:
            raise DeviceError("seal refused: the pack is sealed already")
        self._host[HostSpace.PACK].is_sealed = True

    def statistics(self) -> DeviceStatistics:
        """`pack_read_bytes` counts what programs viewed through `memory.view`; kernels that follow a table on the
        card count for themselves."""
        return DeviceStatistics(
            mapped_bytes=self._arena.mapped_bytes,
            num_maps=self._num_maps,
            num_commands=self._num_commands,
            num_launches=self._launches.num_launches,
            num_graph_launches=self._launches.num_graph_launches,
            copied_to_device_bytes=self._moves.to_device_bytes,
            copied_to_host_bytes=self._moves.to_host_bytes,
            pack_read_bytes=self._launches.pack_read_bytes,
        )

    def close(self) -> None:
        """Wait for what runs, then give back everything. No tensor over the card may be used after it. A lost card
        gives nothing back by itself; its memory goes with the process."""
        if self._is_closed:
            return
        self._enter()
        self._is_closed = True
        for gates in self._gates:
            gates.open()  # or what runs would never end
        was_lost = self._lost is not None
        try:
            self._launches.hand_over(self._held)
            self._held.add(self._driver.call, "cuCtxSynchronize")
            self._held.give_back()
        except CudaFailure:
            if not was_lost:
                raise

    def _enter(self) -> None:
        assert not self._is_closed
        self._driver.attach()

    def _check_alive(self) -> None:
        if self._lost is not None:
            raise DeviceError(f"refused: the card is lost: {self._lost}")

    def _note(self, error: DeviceError) -> None:
        if isinstance(error, CudaFailure) and error.is_fatal and self._lost is None:
            self._lost = error

    def _apply(self, command: Command) -> None:
        match command:
            case Launch():
                self._launches.launch(command)
            case GraphLaunch():
                self._launches.launch_graph(command)
            case Copy():
                self._copy(command)
            case Fill():
                self._moves.fill(command)
            case Digest():
                self._moves.digest(command, self._views)
            case Record():
                self._streams.record(command.stream, command.event)
            case Wait():
                self._streams.wait(command.stream, command.event)
            case Notify():
                self._streams.notify(command.stream, command.tag)
            case Map():
                self._arena.map(command.segment_index, command.extent)
                self._num_maps += 1
            case Unmap():
                self._arena.unmap(command.extent)
            case Transfer():
                self._arena.check_inside(command.extent)

    def _copy(self, command: Copy) -> None:
        if command.publishes is not None:
            self._tables.check(command.publishes)
        self._moves.copy(command)
        if command.publishes is not None:
            self._tables.publish(command)
