"""The twin: a card that keeps no secrets. It obeys `strata.device.Device`, and checks what a card would not.

A payload applies commands; ownership, definedness, content and order are checked around it (`shadow.py`). Commands
take effect in the order of submission, which is one legal order among many: the clocks find what another order would
have broken. With `queues` they are judged as they are submitted and take effect later, in whatever order the owner of
the queues lets the streams go on. The twin knows nothing of the core's plans, tables or ledgers; it judges them.

    submit --> faults --> shadow: check, note --> (queues) --> payload: apply --> completions

**Host access.** `host(extent)` on staging or parked memory counts as an access by the host that reads and writes
exactly `extent`, at the moment of the call: every command that touches those bytes must be known to be over, which the
host learns only from the `Reached` of a later `Notify`. Ask for a view each time, and for no more than is needed; what
is done later through a view that was kept goes unseen.

**Reads.** Every byte of a declared read must be defined. A declared write defines its whole extent, and may read it.
A publishing copy makes its version known when it is applied; `tables.py` says which version a launch may name. No
program may follow an address into the pageable part of the pack, nor have one before it in its address row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sim.cells import UNNAMED, Content, named
from sim.clock import VirtualClock, work_of
from sim.errors import GraphError, PackError, UnknownProgram
from sim.faults import Faults, targets_of
from sim.graphs import Graph, Node, capture_graph, check_graph
from sim.payload import Payload
from sim.queues import Queues
from sim.scope import LaunchScope
from sim.shadow import Shadow, Side, content_of
from sim.streams import ACTOR_OF, HOST, Operation
from sim.tables import Readers
from strata.core.commands import (
    Access,
    Command,
    Copy,
    CopyPair,
    Digest,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Record,
    Stream,
    Transfer,
    Unmap,
    Wait,
)
from strata.core.events import Event, Failed, Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.programs import ExpertsArgs
from strata.device import DeviceDescription, DeviceStatistics, Programs

ARENA_ADDRESS = 0x1000_0000_0000
PACK_ADDRESS = 0x2000_0000_0000
"""Fixed and far apart: addresses in tables are the same in every run, and none is a place in this process."""

DIGEST_BYTES = 8
OF_HOST = (Map, Unmap, Transfer)
"""What the host does itself; all else goes to a stream."""

__all__ = ["ARENA_ADDRESS", "PACK_ADDRESS", "CardRow", "Faults", "SimDevice", "describe_twin"]


def describe_twin(
    *,
    arena_bytes: int,
    segment_bytes: int,
    pack_bytes: int,
    staging_bytes: int,
    behind_bytes: int = 0,
    parked_bytes: int = 0,
    pageable_pack_bytes: int = 0,
) -> DeviceDescription:
    """A virtual card, on which programs may not read the last `pageable_pack_bytes` of the pack. Raises ValueError when
    the arena, or what is reserved behind it, is not whole segments."""
    if segment_bytes <= 0 or arena_bytes <= 0 or arena_bytes % segment_bytes:
        raise ValueError(f"arena_bytes={arena_bytes} must be a multiple of segment_bytes={segment_bytes}, both above 0")
    if behind_bytes < 0 or behind_bytes % segment_bytes:
        raise ValueError(f"behind_bytes={behind_bytes} must be a multiple of segment_bytes={segment_bytes}, 0 or more")
    return DeviceDescription(
        name="twin",
        arena_bytes=arena_bytes,
        segment_bytes=segment_bytes,
        pack_bytes=pack_bytes,
        staging_bytes=staging_bytes,
        arena_address=ARENA_ADDRESS,
        pack_address=PACK_ADDRESS,
        behind_bytes=behind_bytes,
        parked_bytes=parked_bytes,
        pageable_pack_bytes=pageable_pack_bytes,
    )


class CardRow(NamedTuple):
    """A run of bytes with one owner, "" for nobody."""

    offset_bytes: int
    size_bytes: int
    owner: str


@dataclass(slots=True)
class _Counts:
    commands: int = 0
    launches: int = 0
    graph_launches: int = 0
    to_device_bytes: int = 0
    to_host_bytes: int = 0
    pack_read_bytes: int = 0


class SimDevice:
    """`manifest` names what lies where in the pack, from the model file: copies out of it are held against that.
    `queues`: where commands wait until somebody runs them; None applies them at once. `clock`: told of every command,
    to say in virtual time when it would be over; it changes nothing, and goes with commands applied at once."""

    def __init__(
        self,
        description: DeviceDescription,
        programs: Programs,
        payload: Payload,
        *,
        faults: Faults | None = None,
        manifest: Sequence[tuple[HostExtent, str]] = (),
        queues: Queues | None = None,
        clock: VirtualClock | None = None,
    ) -> None:
        assert queues is None or clock is None, "time is charged in the order of submission"
        self._description = description
        self._pinned_bytes = description.pack_bytes - description.pageable_pack_bytes
        self._programs = programs
        self._payload = payload
        self._faults = faults
        self._queues, self._clock = queues, clock
        self._shadow = Shadow(description, manifest)
        self._graphs: dict[str, Graph] = {}
        self._events: list[tuple[Event, tuple[int, ...] | None]] = []
        self._counts = _Counts()
        self._index = 0
        self._map: tuple[CardRow, ...] = ()
        self._map_at = -1  # changes of the card when `_map` was made
        self._is_closed = False

    def describe(self) -> DeviceDescription:
        return self._description

    def submit(self, commands: Sequence[Command]) -> None:
        """Raises the class of `errors.py` that fits; commands before the refused one stand."""
        assert not self._is_closed
        counts, clocks = self._counts, self._shadow.clocks
        for command in commands:
            index, self._index = self._index, self._index + 1
            failed = self._faults(index, command) if self._faults is not None else None
            by = clocks.issue(HOST if isinstance(command, OF_HOST) else ACTOR_OF[command.stream], index, command)
            if failed is not None:
                self._spoil(command, failed, by)
            else:
                pack_read_bytes = counts.pack_read_bytes
                self._apply(command, by)
                if self._clock is not None:
                    viewed_bytes = counts.pack_read_bytes - pack_read_bytes
                    work, pinned_bytes = work_of(command, self._graphs), self._pinned_bytes
                    self._clock.charge(command, work, pack_read_bytes=viewed_bytes, pinned_bytes=pinned_bytes)
            counts.commands += 1

    def completions(self) -> Sequence[Event]:
        """Everything reached since the last call: without queues a command is over once it is submitted. With a clock
        one event, so that a host which awaits no more than that does not wait longer. By taking a Reached, the host
        knows that all before its Notify is over."""
        if not self._events:
            return []
        num_taken = len(self._events) if self._clock is None else 1
        taken, self._events = self._events[:num_taken], self._events[num_taken:]
        for event, snapshot in taken:
            if snapshot is not None:
                self._shadow.clocks.join_host(snapshot)
            if self._clock is not None and isinstance(event, Reached):
                self._clock.take(event.tag)
        return [event for event, _ in taken]

    def capture(self, name: str, launches: Sequence[Launch]) -> None:
        """Runs nothing; a graph of that name is replaced. Programs must be known and the bytes mapped and owned now."""
        assert launches, name
        for launch in launches:
            self._check_program(launch)
        by = Operation(HOST, self._shadow.clocks.of(HOST)[HOST], self._index, f"capture of graph {name}")
        self._graphs[name] = capture_graph(name, launches, self._shadow.vram, by)

    def host(self, extent: HostExtent) -> memoryview:
        """See the module's head for what this counts as. The pack is read-only once sealed."""
        assert not self._is_closed
        by = self._shadow.clocks.issue(HOST, self._index, extent)
        self._shadow.host_access(extent, by)
        view = self._payload.host(extent)
        is_master = extent.space is HostSpace.PACK and self._shadow.host.is_sealed
        return view.toreadonly() if is_master else view

    def seal(self) -> None:
        """From here on commands may read the pack. Views given out before must not be written any more; where the
        payload can, it makes that impossible."""
        if self._shadow.host.is_sealed:
            raise PackError("seal refused: the pack is sealed already")
        self._payload.seal()
        self._shadow.host.is_sealed = True

    def statistics(self) -> DeviceStatistics:
        counts, vram = self._counts, self._shadow.vram
        return DeviceStatistics(
            mapped_bytes=vram.mapped_bytes,
            num_maps=vram.num_maps,
            num_commands=counts.commands,
            num_launches=counts.launches,
            num_graph_launches=counts.graph_launches,
            copied_to_device_bytes=counts.to_device_bytes,
            copied_to_host_bytes=counts.to_host_bytes,
            pack_read_bytes=counts.pack_read_bytes,
        )

    def card_map(self) -> tuple[CardRow, ...]:
        """Who owns which bytes now, in address order, the whole range."""
        vram = self._shadow.vram
        if self._map_at != vram.num_changes:
            self._map = tuple([CardRow(start, end - start, owner) for start, end, owner in vram.owners()])
            self._map_at = vram.num_changes
        return self._map

    def close(self) -> None:
        """Gives back all memory. No view, of the host's or of a program's, may be used after it."""
        if not self._is_closed:
            self._is_closed = True
            self._payload.close()

    def _apply(self, command: Command, by: Operation) -> None:
        match command:
            case Copy():
                self._copy(command, by)
            case Map():
                self._shadow.map(command, by)
                self._payload.map(command.segment_index, command.extent)
                self._payload.poison(command.extent)
            case Launch():
                self._launch(Node(command), by)
                self._counts.launches += 1
            case Record():
                self._shadow.clocks.record(command)
                if self._queues is not None:
                    self._queues.record(command.stream, command.event)
            case Wait():
                self._shadow.clocks.wait(command, by)
                if self._queues is not None:
                    self._queues.wait(command.stream, command.event)
            case Notify():
                snapshot = self._shadow.clocks.snapshot(by.actor)
                self._then(command.stream, partial(self._report, Reached(command.tag), snapshot))
            case Unmap():
                self._shadow.unmap(command, by)
                self._payload.unmap(command.extent)
            case GraphLaunch():
                self._launch_graph(command, by)
                self._counts.launches += 1
                self._counts.graph_launches += 1
            case Transfer():
                self._shadow.transfer(command, by)
                if not command.in_place:
                    self._poison(command.extent)
            case Fill():
                assert 0 <= command.value <= 255, command
                self._access(by, reads=(), writes=(command.target,))
                self._then(command.stream, partial(self._payload.fill, command.target.extent, command.value))
            case Digest():
                assert command.target.size_bytes == DIGEST_BYTES, command
                self._access(by, reads=(command.source,), writes=(command.target,))
                self._then(command.stream, partial(self._payload.digest, command.source.extent, command.target))

    def _copy(self, command: Copy, by: Operation) -> None:
        if command.publishes is not None:
            self._shadow.tables.check_publish(command.publishes, by)
        sources: list[Side] = []
        targets: list[Side] = []
        contents: list[Content | None] = []
        counts = self._counts
        for pair in command.pairs:
            sources.append(pair.source)
            targets.append(pair.target)
            contents.append(self._content_left_by(pair, by))
        group = command.pairs if len(targets) > 1 else ()
        self._shadow.access(by, reads=sources, writes=targets, contents=contents, group=group)
        self._then(command.stream, partial(self._move, command.pairs))
        for target in targets:
            if isinstance(target, HostExtent):
                counts.to_host_bytes += target.size_bytes
            else:
                counts.to_device_bytes += target.extent.size_bytes
        if command.publishes is not None:
            table = tuple(target for target in targets if isinstance(target, Access))
            self._shadow.tables.publish(command.publishes, table, by)

    def _content_left_by(self, pair: CopyPair, by: Operation) -> Content:
        """What the manifest says of the source's place in a blob goes with the bytes, and so does the name of what is
        parked. Staging carries results whose names say nothing on the host."""
        source, target = pair.source, pair.target
        if isinstance(target, HostExtent):
            return content_of(source) if target.space is HostSpace.PARKED else UNNAMED
        assert isinstance(source, HostExtent), pair
        if source.space is HostSpace.STAGING:
            return content_of(target)
        whole_start = self._shadow.host.check_name(source, target.content, by)
        if target.content is None or whole_start is None:
            return content_of(target)
        return named(target.content, target.extent.offset_bytes - (source.offset_bytes - whole_start))

    def _launch(self, node: Node, by: Operation, replay: GraphLaunch | None = None) -> None:
        """`replay`: the launch of the graph that this one is a node of, on whose stream and table it runs."""
        launch, shadow = node.launch, self._shadow
        if launch.program not in self._programs:
            self._check_program(launch)
        tables: Sequence[Readers] = ()
        if node.table_reads:
            versions = [replay.table_version if replay else read.version for read in node.table_reads]
            tables = [shadow.check_table(version, by) for version in versions]
        shadow.access(by, reads=node.reads, writes=node.writes, contents=node.contents, tables=tables)
        scope = LaunchScope(self._description, by, node.declared, tables)
        if self._queues is None:
            self._run(launch, scope)
        else:
            self._queues.add(replay.stream if replay else launch.stream, partial(self._run, launch, scope))

    def _run(self, launch: Launch, scope: LaunchScope) -> None:
        if self._description.pageable_pack_bytes and isinstance(launch.args, ExpertsArgs):
            words = memoryview(self._payload.peek(launch.args.addresses)).cast("q")
            scope.check_words(words, self._shadow.host.end_of)
        self._payload.run(self._programs[launch.program], launch.args, scope)
        self._counts.pack_read_bytes += scope.pack_read_bytes

    def _move(self, pairs: Sequence[CopyPair]) -> None:
        for pair in pairs:
            self._payload.copy(_bytes_of(pair.source), _bytes_of(pair.target))

    def _report(self, event: Event, snapshot: tuple[int, ...] | None) -> None:
        """`snapshot`: what the host knows to be over once it has taken `event`."""
        self._events.append((event, snapshot))

    def _then(self, stream: Stream, effect: Callable[[], None]) -> None:
        """What a command does to bytes, when its stream gets there."""
        if self._queues is None:
            effect()
        else:
            self._queues.add(stream, effect)

    def _launch_graph(self, command: GraphLaunch, by: Operation) -> None:
        graph = self._graphs.get(command.graph)
        if graph is None:
            raise GraphError(f"{by} refused: graph={command.graph} was never captured", command)
        check_graph(graph, self._shadow.vram, by)
        for node in graph.nodes:
            self._launch(node, by, command)

    def _check_program(self, launch: Launch) -> None:
        if launch.program not in self._programs:
            known = ", ".join(sorted(self._programs)) or "none"
            raise UnknownProgram(f"program={launch.program} is not known; this device has: {known}", launch)

    def _spoil(self, command: Command, failed: Failed, by: Operation) -> None:
        """The command was taken and failed on its way: what it was to write is anything now."""
        writes = targets_of(command, self._graphs)
        self._shadow.spoil(writes, by)

        def fail() -> None:
            for side in writes:
                if isinstance(side, Access):
                    self._poison(side.extent)
            self._report(failed, None)

        if isinstance(command, OF_HOST):
            fail()
        else:
            self._then(command.stream, fail)

    def _access(self, by: Operation, *, reads: Sequence[Side], writes: Sequence[Side]) -> None:
        self._shadow.access(by, reads=reads, writes=writes, contents=[content_of(side) for side in writes])

    def _poison(self, extent: Extent) -> None:
        for part in self._shadow.vram.mapped_parts(extent):
            self._payload.poison(part)


def _bytes_of(side: Side) -> Extent | HostExtent:
    return side.extent if isinstance(side, Access) else side
