"""What goes in and out of the serving machine. Values only."""

from dataclasses import dataclass

from strata.core.commands import Command
from strata.core.extent import HostExtent
from strata.core.lending.segments import Act
from strata.core.serving.request import GenerationRequest


@dataclass(frozen=True, slots=True)
class Began:
    """A request was taken from the queue."""

    request: GenerationRequest


@dataclass(frozen=True, slots=True)
class Started:
    """The card has everything and the window is captured: what is lent from the start may go."""


@dataclass(frozen=True, slots=True)
class Routed:
    """The awaited router counts are in staging: these experts have rows in the layer under way (sorted)."""

    experts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrived:
    """The awaited notice arrived, and carries nothing."""


@dataclass(frozen=True, slots=True)
class Continued:
    """The window's tokens were all taken and the reply goes on behind the last; `drafts` may follow it, fewer than the
    reply may still have. Where a drafter drafts, there are none. `reads`: of each blob since they came last, with a
    window that brings them."""

    token_ids: tuple[int, ...]
    drafts: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Drafted:
    """The awaited drafts are there, and the first `num_drafts` of them are worth a row."""

    num_drafts: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The reply is over, or the client has left: close whatever is open. What was awaited last has been reached. Behind
    a window: `token_ids` are those that the reply took, `reads` as in `Continued`."""

    token_ids: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Broke:
    """A command failed, at any point: nothing is known but what was submitted, so every stream is drained.
    `num_acts` of the acts ordered last took place."""

    num_acts: int = 0


ServingEvent = Began | Started | Routed | Arrived | Continued | Drafted | Ended | Broke


@dataclass(frozen=True, slots=True)
class Upload:
    """Host bytes to be put into staging before the commands of the same step are submitted."""

    target: HostExtent
    data: bytes

    def __post_init__(self) -> None:
        assert len(self.data) == self.target.size_bytes, (len(self.data), self.target)


HandOver = tuple[HostExtent, HostExtent]
"""Hidden rows in staging of the stage before, which has told that they are there, and where in this stage's they must
be before the commands of the same step are submitted."""


@dataclass(frozen=True, slots=True)
class Check:
    """The positional digest in `word` (uint64, little endian) must be that of `home`, once all is reached."""

    word: HostExtent
    home: HostExtent


@dataclass(frozen=True, slots=True)
class Orders:
    """What the shell must do now: uploads and hand-overs, then acts one by one, then commands, then wait for `awaits`
    (every tag of it), then hold the digests of `checks` against the pack. Acts stand apart so that a failure tells
    exactly which bytes changed hands and which segments moved."""

    uploads: tuple[Upload, ...] = ()
    commands: tuple[Command, ...] = ()
    awaits: tuple[str, ...] = ()
    acts: tuple[Act, ...] = ()
    checks: tuple[Check, ...] = ()
    handed: tuple[HandOver, ...] = ()

    def then(self, other: "Orders") -> "Orders":
        """Both, this one first. Acts of the second would come too early, so it has none."""
        assert not other.acts, other
        uploads, commands = self.uploads + other.uploads, self.commands + other.commands
        awaits, checks, handed = self.awaits + other.awaits, self.checks + other.checks, self.handed + other.handed
        return Orders(uploads, commands, awaits, self.acts, checks, handed)
