"""What the engine is given by boot, and what it gives the server. The engine imports neither tokenizer nor HTTP."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from strata.core.serving.request import GenerationRequest, Update


@dataclass(frozen=True, slots=True)
class Emission:
    """`text` may go out now (possibly ""); `is_stopped`: a stop string was completed, nothing may follow."""

    text: str
    is_stopped: bool


class Terminator(Protocol):
    """Token ids in, text out, for one request. Pure and synchronous. Holds back the bytes of an unfinished UTF-8
    character and any tail that could still grow into a stop string; a stop string itself is never emitted."""

    def push(self, token_id: int) -> Emission: ...

    def flush(self) -> str:
        """The text still held back, when the reply ends for another reason (unfinished bytes become U+FFFD)."""


TerminatorFactory = Callable[[GenerationRequest], Terminator]


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """Counters since start, but for the first two. Frozen: read it as one moment."""

    num_queued: int
    num_running: int  # 0 or 1
    num_finished: int
    num_cancelled: int
    num_broken: int
    prompt_tokens: int
    predicted_tokens: int
    seconds_since_progress: float  # 0.0 when idle
    expert_reads_hit: int  # expert reads served from VRAM
    expert_reads_missed: int  # served from the pack or the ring
    link_bytes: int  # to the device, by copies and by programs reading the pack
    ring_entries: int  # blobs that went through the ring
    num_launches: int
    num_maps_while_serving: int
    chunk_tokens: int  # the planned chunk
    ring_slots: int  # the planned ring


class Ticket(Protocol):
    """One accepted request. Ends with exactly one Finished or Broken, or without any after `cancel`."""

    def updates(self) -> AsyncIterator[Update]: ...

    def cancel(self) -> None:
        """Ask the engine to drop the request at the next layer or token. Never blocks, may be called twice."""


class Engine(Protocol):
    """The server's view of the steward. First in, first out, one request at a time."""

    def submit(self, request: GenerationRequest) -> Ticket:
        """Raises RequestError 503 `queue_full` when the bounded queue is full, 503 `shutting_down` while draining."""

    def statistics(self) -> EngineStatistics: ...
