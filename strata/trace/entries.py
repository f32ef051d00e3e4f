"""What a command trace is made of: what was asked of a device, in order, and what came of it.

Values only. Most entries are the core's own commands as they were given; the others say what else the device was asked
for, what it reported, and what it did not do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from strata.core.commands import Command, Launch
from strata.core.events import Event
from strata.core.extent import HostExtent


@dataclass(frozen=True, slots=True)
class Captured:
    """`launches` were stored as graph `name`."""

    name: str
    launches: tuple[Launch, ...]


@dataclass(frozen=True, slots=True)
class HostAccess:
    """The host asked for these bytes, to write or to read them. `digest`: of what they held when it was done, 16 hex
    digits (`digest.py`), "" where nobody looked. The bytes themselves are in no trace."""

    extent: HostExtent
    digest: str = ""


Asked = Command | Captured | HostAccess


class FaultKind(StrEnum):
    """How a command that somebody wanted to fail did so."""

    REFUSED = "refused"  # nothing of it happened
    FAILED = "failed"  # it was taken, and what it was to write is anything


@dataclass(frozen=True, slots=True)
class Faulted:
    """A failure that was planted, as a test does it: the device had no part in it."""

    command: Command
    kind: FaultKind


@dataclass(frozen=True, slots=True)
class Refused:
    """The device refused it of its own: `error` is the class of what it raised."""

    asked: Asked
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class Noted:
    """What the engine was told or found out: requests, tokens, ends. `facts` are plain JSON values."""

    what: str
    facts: Mapping[str, Any]


Entry = Asked | Event | Faulted | Refused | Noted


@dataclass(frozen=True, slots=True)
class ScalarArgs:
    """What a trace keeps of a launch's arguments: numbers for whoever reads it. The extents among them are declared as
    reads and writes anyway."""

    layer: int | None = None
    rows: int | None = None
    experts: tuple[int, ...] | None = None
