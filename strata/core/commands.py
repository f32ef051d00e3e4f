"""The closed set of things the core may ask of a device.

Every command lists the extents it reads and writes, who owns them, and the content it expects to read. That one
habit feeds the ledger, the twin's checks, the graph check and the trace. Commands on one stream run in order;
between streams only `Record` and `Wait` order anything.
"""

from dataclasses import dataclass
from enum import StrEnum

from strata.core.extent import Extent, HostExtent
from strata.core.programs import ProgramArgs


class Stream(StrEnum):
    PROMPT = "prompt"  # prompt compute
    COPY = "copy"  # prompt copy: ring traffic, run ahead of the compute
    VERIFIER = "verifier"  # decode windows
    DRAFTER = "drafter"


@dataclass(frozen=True, slots=True)
class Access:
    """`extent` touched on behalf of `owner`, which must own every byte of it. `content` names what is expected
    to be read there, or what a write leaves there (`blob 3 17`, `kv 0`); None: the request's own."""

    extent: Extent
    owner: str
    content: str | None = None


@dataclass(frozen=True, slots=True)
class TableRead:
    """The launch reads through the address table: whatever table `version` publishes, as its stream sees it."""

    version: int


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What a table upload publishes: the device extents that a reader of `version` may reach, with their content."""

    version: int
    entries: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """Back `extent` (one segment, on the segment grid) by physical segment `segment_index`."""

    segment_index: int
    extent: Extent


@dataclass(frozen=True, slots=True)
class Unmap:
    """Take the physical segment from under `extent`, exactly as it was mapped. Does not wait for running work."""

    extent: Extent


@dataclass(frozen=True, slots=True)
class Transfer:
    """Every byte of `extent` passes from `giver` to `taker` and is undefined until the taker writes it, unless it is
    `in_place`: then it holds what it held. `giver` is "" for bytes that nobody owned yet, `taker` is "" for bytes given
    back."""

    extent: Extent
    giver: str
    taker: str
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class CopyPair:
    """One contiguous copy. Exactly one side is on the host: the link is what a copy command crosses."""

    source: Access | HostExtent
    target: Access | HostExtent

    def __post_init__(self) -> None:
        host, card = (self.source, self.target) if isinstance(self.source, HostExtent) else (self.target, self.source)
        assert isinstance(host, HostExtent) and isinstance(card, Access), self
        assert host.size_bytes == card.extent.size_bytes, self


@dataclass(frozen=True, slots=True)
class Copy:
    """A group of at most 16 copies, issued together. `publishes` marks an upload of the address table."""

    stream: Stream
    pairs: tuple[CopyPair, ...]
    publishes: TableVersion | None = None

    def __post_init__(self) -> None:
        assert 1 <= len(self.pairs) <= MAX_COPY_GROUP, len(self.pairs)


@dataclass(frozen=True, slots=True)
class Fill:
    stream: Stream
    target: Access
    value: int  # one byte, 0..255


@dataclass(frozen=True, slots=True)
class Digest:
    """Positional digest (uint64, little endian) of `source` into eight bytes of staging."""

    stream: Stream
    source: Access
    target: HostExtent


@dataclass(frozen=True, slots=True)
class Record:
    """Event `event` now stands for all work issued on `stream` so far; an older record of the name is replaced."""

    stream: Stream
    event: str


@dataclass(frozen=True, slots=True)
class Wait:
    """`stream` goes on only after what `event` stood for when this was issued. Waiting on a name that was never
    recorded is an error."""

    stream: Stream
    event: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Run `program` with `args`; the program may touch nothing outside `reads` and `writes`."""

    stream: Stream
    program: str
    args: ProgramArgs
    reads: tuple[Access | TableRead, ...]
    writes: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class GraphLaunch:
    """Replay what `Device.capture` stored under `graph`: one launch, whatever the number of nodes. `table_version`
    stands for every `TableRead` of the captured launches."""

    stream: Stream
    graph: str
    table_version: int


@dataclass(frozen=True, slots=True)
class Notify:
    """Report `Reached(tag)` once everything issued on `stream` so far is done."""

    stream: Stream
    tag: str


MAX_COPY_GROUP = 16

Command = Map | Unmap | Transfer | Copy | Fill | Digest | Record | Wait | Launch | GraphLaunch | Notify


def size_of(side: Access | HostExtent) -> int:
    """Bytes of one side of a copy."""
    return side.size_bytes if isinstance(side, HostExtent) else side.extent.size_bytes
