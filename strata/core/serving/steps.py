"""What goes in and out of the serving machine. Values only."""

from dataclasses import dataclass

from strata.core.commands import Command, Transfer
from strata.core.extent import HostExtent
from strata.core.serving.request import GenerationRequest


@dataclass(frozen=True, slots=True)
class Began:
    """A request was taken from the queue."""

    request: GenerationRequest


@dataclass(frozen=True, slots=True)
class Routed:
    """The awaited router counts are in staging: these experts have rows in the layer under way (sorted)."""

    experts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrived:
    """The awaited notice arrived, and carries nothing."""


@dataclass(frozen=True, slots=True)
class Continued:
    """The window's token was accepted and the reply goes on with it."""

    token_id: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The reply is over, or the client has left: close whatever is open. What was awaited last has been reached."""


@dataclass(frozen=True, slots=True)
class Broke:
    """A command failed, at any point: nothing is known but what was submitted, so every stream is drained.
    `num_transfers` of the transfers ordered last took place."""

    num_transfers: int = 0


ServingEvent = Began | Routed | Arrived | Continued | Ended | Broke


@dataclass(frozen=True, slots=True)
class Upload:
    """Host bytes to be put into staging before the commands of the same step are submitted."""

    target: HostExtent
    data: bytes

    def __post_init__(self) -> None:
        assert len(self.data) == self.target.size_bytes, (len(self.data), self.target)


@dataclass(frozen=True, slots=True)
class Orders:
    """What the shell must do now: uploads, then transfers one by one, then commands, then wait for `awaits` (every tag
    of it). Transfers stand apart so that a failure tells exactly which bytes changed hands."""

    uploads: tuple[Upload, ...] = ()
    commands: tuple[Command, ...] = ()
    awaits: tuple[str, ...] = ()
    transfers: tuple[Transfer, ...] = ()

    def then(self, other: "Orders") -> "Orders":
        """Both, this one first. Transfers of the second would come too early, so it has none."""
        assert not other.transfers, other
        return Orders(
            self.uploads + other.uploads,
            self.commands + other.commands,
            self.awaits + other.awaits,
            self.transfers,
        )
