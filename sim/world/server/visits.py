"""What clients may do, as values: when they come, over which connection, and how they behave with each request."""

from dataclasses import dataclass
from enum import StrEnum

from sim.world.server.asks import Ask
from sim.world.server.caller import AT_ONCE, Pace
from sim.world.server.odd import Odd


class Manner(StrEnum):
    """How a client behaves once its request is out."""

    STAY = "stay"  # read the whole reply
    LEAVE = "leave"  # close after a while, whatever has come
    LEAVE_IN_STREAM = "leave in stream"  # close after so many pieces of the body
    HALF_CLOSE = "half-close"  # end its side after a while, and read on
    STALL = "stall"  # read nothing for a while, then all


class Framing(StrEnum):
    """How a body says where it ends, and whether its client asks before it sends it."""

    LENGTH = "length"
    CHUNKED = "chunked"
    EXPECT = "expect"  # with its length, and `Expect: 100-continue`, which the client then does not wait for


@dataclass(frozen=True, slots=True)
class Call:
    """One request for a reply. `after_s` and `after_pieces`: when the manner shows. `sends`, `reads`: its pace.
    `behind`: a page that is asked for at once behind it, before the reply has come."""

    ask: Ask
    manner: Manner = Manner.STAY
    after_s: float = 0.0
    after_pieces: int = 1
    is_reset: bool = False
    sends: Pace = AT_ONCE
    reads: Pace = AT_ONCE
    framing: Framing = Framing.LENGTH
    behind: str | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """One of the pages without a body."""

    path: str


@dataclass(frozen=True, slots=True)
class Try:
    """A request that is no good; the connection is not used again."""

    odd: Odd
    sends: Pace = AT_ONCE


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Two pages asked for at once, before the first is answered."""

    first: str
    second: str


Act = Call | Look | Try | Pipeline


@dataclass(frozen=True, slots=True)
class Visit:
    """One client with one connection. `think_s` passes before each act but the first."""

    start_s: float
    acts: tuple[Act, ...]
    think_s: float = 0.0
    capacity_bytes: int = 65536
    is_reset_lossy: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    """At a moment, the command after the next `after` ones fails; `is_refused`, or on its way."""

    at_s: float
    after: int
    is_refused: bool
