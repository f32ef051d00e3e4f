"""Programs and graphs: a launch is checked, gets its memory, and is put on its stream.

A program is a callable that queues work; it runs here once for each launch, or once at capture for all launches of a
graph. Before it runs, its declared extents are mapped and its tables known, since a kernel that strays takes the whole
context with it.
"""

from collections.abc import Sequence
from dataclasses import replace

from strata.core.commands import GraphLaunch, Launch, TableRead
from strata.core.errors import DeviceError
from strata.cuda.arena import Arena
from strata.cuda.driver import Driver
from strata.cuda.graphs import Capture, Graph, check_pins, pin_launches, reads_table
from strata.cuda.held import Held
from strata.cuda.memory import ScopedMemory, Views
from strata.cuda.scope import LaunchScope
from strata.cuda.streams import Streams
from strata.cuda.tables import Tables
from strata.device import DeviceDescription, Programs


class Launches:
    """Counts launches (of programs, and one for each graph launch) and the pack's bytes that programs viewed."""

    def __init__(
        self,
        description: DeviceDescription,
        driver: Driver,
        arena: Arena,
        streams: Streams,
        views: Views,
        tables: Tables,
        programs: Programs,
        *,
        pinned_pack_bytes: int,
    ) -> None:
        self._description, self._pinned_pack_bytes = description, pinned_pack_bytes
        self._driver, self._arena, self._streams, self._views = driver, arena, streams, views
        self._tables, self._programs = tables, programs
        self._graphs: dict[str, Graph] = {}
        self.num_launches = self.num_graph_launches = self.pack_read_bytes = 0

    def launch(self, launch: Launch) -> None:
        self._check_program(launch)
        scope = self._scope(launch)
        for extent in scope.declared():
            self._arena.check_mapped(extent)
        self._run(launch, scope)
        self.num_launches += 1
        self.pack_read_bytes += scope.pack_read_bytes

    def launch_graph(self, command: GraphLaunch) -> None:
        graph = self._graphs.get(command.graph)
        if graph is None:
            known = ", ".join(sorted(self._graphs)) or "none"
            raise DeviceError(f"graph={command.graph} was never captured; this device has: {known}")
        check_pins(graph, self._arena)
        if graph.reads_table:
            self._tables.reach(command.table_version)
        self._driver.call("cuGraphLaunch", graph.executable, self._streams[command.stream])
        self.num_launches += 1
        self.num_graph_launches += 1
        self.pack_read_bytes += graph.pack_read_bytes

    def capture(self, name: str, launches: Sequence[Launch]) -> None:
        """The launches are one chain on one stream. A graph of that name is replaced, once the new one stands."""
        assert launches and len({launch.stream for launch in launches}) == 1, name
        graph = self._captured(name, launches)
        old, self._graphs[name] = self._graphs.get(name), graph
        if old is not None:
            self._driver.call("cuGraphExecDestroy", old.executable)  # one that runs is freed when it is through

    def hand_over(self, held: Held) -> None:
        """Whoever closes the device gives the graphs back, and what they allocated after them."""
        held.add(self._graphs.clear)
        for graph in self._graphs.values():
            held.add(self._driver.call, "cuGraphExecDestroy", graph.executable)

    def _captured(self, name: str, launches: Sequence[Launch]) -> Graph:
        for launch in launches:
            self._check_program(launch)
        pins = pin_launches(launches, self._arena)
        scopes = tuple(self._scope(self._bound(launch)) for launch in launches)
        with self._views.capture_pool() as pool, Capture(self._driver, self._streams[launches[0].stream]) as capture:
            for launch, scope in zip(launches, scopes, strict=True):
                self._run(launch, scope)
        is_reader, num_unmaps = reads_table(launches), self._arena.num_unmaps
        return Graph(name, capture.executable, pins, scopes, is_reader, pool, num_unmaps)

    def _bound(self, launch: Launch) -> Launch:
        """A captured launch names no version yet: each graph launch does. Here the newest stands for it."""
        if not reads_table([launch]):
            return launch
        newest = TableRead(self._tables.newest())
        return replace(launch, reads=tuple(newest if isinstance(read, TableRead) else read for read in launch.reads))

    def _scope(self, launch: Launch) -> LaunchScope:
        tables = [self._tables.reach(read.version) for read in launch.reads if isinstance(read, TableRead)]
        return LaunchScope(self._description, launch, tables, pinned_pack_bytes=self._pinned_pack_bytes)

    def _run(self, launch: Launch, scope: LaunchScope) -> None:
        program, memory = self._programs[launch.program], ScopedMemory(self._views, scope)
        self._views.run(self._streams[launch.stream], lambda: program(memory, launch.args))

    def _check_program(self, launch: Launch) -> None:
        if launch.program not in self._programs:
            known = ", ".join(sorted(self._programs)) or "none"
            raise DeviceError(f"program={launch.program} is not known; this device has: {known}", launch)
