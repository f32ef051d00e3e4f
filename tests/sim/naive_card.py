"""A second twin, written from the rules alone and as plainly as possible: a Python object for every byte, and for
every operation the set of all operations before it. Slow and small; shares no code with `sim`.

`judge` gives the kinds of all rules that a command breaks (names of the classes in `sim.errors`), the empty set for
a right one, and takes it in the latter case.
"""

from dataclasses import dataclass, field

from strata.core import commands as c
from strata.core.extent import HostExtent, HostSpace


@dataclass
class Byte:
    owner: str = ""
    is_defined: bool = False
    name: str | None = None
    touches: list = field(default_factory=list)  # (operation, is_write)


@dataclass
class Published:
    upload: int
    table: list  # Access
    entries: tuple


class NaiveCard:
    def __init__(self, *, arena: int, segment: int, staging: int, parked: int, num_segments: int) -> None:
        self.segment, self.num_segments = segment, num_segments
        self.arena = [Byte() for _ in range(arena)]
        self.spaces = {
            HostSpace.STAGING: [Byte() for _ in range(staging)],
            HostSpace.PARKED: [Byte() for _ in range(parked)],
            HostSpace.PACK: [],  # immutable: nothing there can be wrong
        }
        self.backing: dict[int, int] = {}  # place -> segment index
        self.seen: dict[str, set[int]] = {actor: set() for actor in ("host", *c.Stream)}
        self.events: dict[str, set[int]] = {}
        self.notified: list[set[int]] = []
        self.versions: dict[int, Published] = {}
        self.graphs: dict[str, tuple] = {}
        self.num_operations = 0

    def issue(self, actor: str) -> int:
        self.num_operations += 1
        if actor != "host":
            self.seen[actor] |= self.seen["host"]
        self.seen[actor].add(self.num_operations)
        return self.num_operations

    def completions(self) -> None:
        for seen in self.notified:
            self.seen["host"] |= seen
        self.notified = []

    def host(self, extent: HostExtent) -> set[str]:
        me = self.issue("host")
        bad = self.conflicts(self.cells(extent), "host", is_write=True)
        if not bad:
            self.touch(extent, me, is_write=True)
        return bad

    def judge(self, command: c.Command) -> set[str]:
        actor = getattr(command, "stream", "host")
        me = self.issue(actor)
        match command:
            case c.Map(segment_index, extent):
                place = extent.offset_bytes // self.segment
                bad = set()
                if segment_index >= self.num_segments:
                    bad.add("OutOfMemory")
                if segment_index in self.backing.values() or place in self.backing:
                    bad.add("MappingError")
                return self.change(extent, me, bad, lambda: self.backing.update({place: segment_index}))
            case c.Unmap(extent):
                place = extent.offset_bytes // self.segment
                bad = set() if place in self.backing else {"MappingError"}
                return self.change(extent, me, bad, lambda: self.backing.pop(place))
            case c.Transfer(extent, giver, taker, in_place):
                cells = self.cells(extent)
                bad = {"OwnershipError" for cell in cells if cell.owner != giver or giver == taker}
                held = [(cell.is_defined, cell.name) for cell in cells]
                bad = self.change(extent, me, bad, lambda: [setattr(cell, "owner", taker) for cell in cells])
                if in_place and not bad:
                    for cell, (is_defined, name) in zip(cells, held, strict=True):
                        cell.is_defined, cell.name = is_defined, name
                return bad
            case c.Fill(_, target, _):
                return self.work(actor, me, [], [target])
            case c.Copy(_, pairs, publishes):
                bad = set()
                if publishes and any(publishes.version <= version for version in self.versions):
                    bad.add("TableError")
                bad |= set().union(*(self.parked_name(pair) for pair in pairs))
                bad |= self.work(actor, me, [p.source for p in pairs], [p.target for p in pairs], bad)
                for pair in pairs:
                    if not bad and isinstance(pair.target, HostExtent) and pair.target.space is HostSpace.PARKED:
                        for cell in self.cells(pair.target):
                            cell.name = pair.source.content
                if publishes and not bad:
                    table = [p.target for p in pairs if isinstance(p.target, c.Access)]
                    self.versions[publishes.version] = Published(me, table, publishes.entries)
                return bad
            case c.Launch(_, _, _, reads, writes):
                return self.work(actor, me, reads, writes)
            case c.GraphLaunch(_, name, version):
                return self.replay(actor, name, version)
            case c.Record(_, event):
                self.events[event] = set(self.seen[actor])
            case c.Wait(_, event):
                if event not in self.events:
                    return {"EventError"}
                self.seen[actor] |= self.events[event]
            case c.Notify():
                self.notified.append(set(self.seen[actor]))
        return set()

    def capture(self, name: str, launches: tuple) -> set[str]:
        accesses = [a for launch in launches for a in (*launch.reads, *launch.writes) if isinstance(a, c.Access)]
        bad = set().union(*(self.access(access) for access in accesses))
        if not bad:
            pins = [(at, self.place(at), self.arena[at].owner) for a in accesses for at in self.range(a.extent)]
            self.graphs[name] = (launches, pins)
        return bad

    def replay(self, actor: str, name: str, version: int) -> set[str]:
        if name not in self.graphs:
            return {"GraphError"}
        launches, pins = self.graphs[name]
        if any((self.place(at), self.arena[at].owner) != (place, owner) for at, place, owner in pins):
            return {"GraphError"}
        for launch in launches:
            reads = [c.TableRead(version) if isinstance(read, c.TableRead) else read for read in launch.reads]
            bad = self.work(actor, self.issue(actor), reads, launch.writes)
            if bad:
                return bad
        return set()

    def work(self, actor: str, me: int, reads, writes, bad=frozenset()) -> set[str]:
        bad = set(bad)
        plain = []
        for read in reads:
            if isinstance(read, c.TableRead):
                published = self.versions.get(read.version)
                if published is None:
                    bad.add("TableError")
                    continue
                for access in published.table:
                    for cell in self.cells(access):
                        if [op for op, is_write in cell.touches if is_write][-1] != published.upload:
                            bad.add("TableError")
                plain += [*published.table, *published.entries]
            else:
                plain.append(read)
        for side in plain:
            bad |= self.access(side) | self.content(side)
            bad |= self.conflicts(self.cells(side), actor, is_write=False)
        for side in writes:
            bad |= self.access(side) | self.conflicts(self.cells(side), actor, is_write=True)
        if not bad:
            for side in plain:
                self.touch(side, me, is_write=False)
            for side in writes:
                self.touch(side, me, is_write=True)
        return bad

    def change(self, extent, me: int, bad: set[str], act) -> set[str]:
        bad = bad | self.conflicts(self.cells(extent), "host", is_write=True)
        if not bad:
            self.touch(extent, me, is_write=True)
            for cell in self.cells(extent):
                cell.is_defined = False
            act()
        return bad

    def access(self, side) -> set[str]:
        if isinstance(side, HostExtent):
            return set()
        bad = set()
        for at in self.range(side.extent):
            if self.place(at) is None:
                bad.add("MappingError")
            if side.owner == "" or self.arena[at].owner != side.owner:
                bad.add("OwnershipError")
        return bad

    def content(self, side) -> set[str]:
        bad = set()
        wanted = side.content if isinstance(side, c.Access) else None
        for cell in self.cells(side):
            if not cell.is_defined:
                bad.add("UndefinedRead")
            elif wanted and cell.name and wanted != cell.name:
                bad.add("ContentMismatch")
        return bad

    def parked_name(self, pair: c.CopyPair) -> set[str]:
        """What comes home must have the name under which it left."""
        if not isinstance(pair.source, HostExtent) or pair.source.space is not HostSpace.PARKED:
            return set()
        names = {cell.name for cell in self.cells(pair.source)} - {None}
        return {"ContentMismatch"} if pair.target.content and names - {pair.target.content} else set()

    def conflicts(self, cells, actor: str, *, is_write: bool) -> set[str]:
        for cell in cells:
            for operation, was_write in cell.touches:
                if (is_write or was_write) and operation not in self.seen[actor]:
                    return {"OrderError"}
        return set()

    def touch(self, side, me: int, *, is_write: bool) -> None:
        for cell in self.cells(side):
            cell.touches.append((me, is_write))
            if is_write:
                cell.is_defined, cell.name = True, getattr(side, "content", None)

    def cells(self, side) -> list[Byte]:
        if isinstance(side, HostExtent):
            return self.spaces[side.space][side.offset_bytes : side.end_bytes]
        return [self.arena[at] for at in self.range(getattr(side, "extent", side))]

    def range(self, extent) -> range:
        return range(extent.offset_bytes, extent.end_bytes)

    def place(self, at: int) -> int | None:
        return self.backing.get(at // self.segment)
