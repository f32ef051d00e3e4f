"""What the engine is given by boot, and what it gives the server. The engine imports neither tokenizer nor HTTP."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from strata.core.serving.request import GenerationRequest
from strata.engine.updates import Update
from strata.terminator import Emission, Terminator

__all__ = ["Emission", "Engine", "EngineStatistics", "Terminator", "TerminatorFactory", "Ticket"]


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
    window_reads_hit: int  # of them, those of decode windows
    window_reads_missed: int
    staged_reads: int  # of these, copied to the card for the window: --resident-budget-gib
    num_swaps: int  # blobs of the expert cache that were exchanged
    swapped_bytes: int  # copied to the card for that
    link_bytes: int  # to the device, by copies and by programs reading the pack
    ring_entries: int  # blobs that went through the ring
    num_loans: int  # times that cache slots were lent to a read
    lent_bytes: int  # given to reads, summed over the loans
    slab_bytes: int  # of what was lent, for programs of a chunk to work in
    refilled_bytes: int  # copied back into lent slots
    num_rooms: int  # times that the drafter's block was ring
    room_bytes: int  # copied back into it
    num_segment_loans: int  # times that segments went behind the arena, the one of the start included
    restored_bytes: int  # copied back into regions that were away
    reclaim_s: float  # that loans took to come home, summed
    num_verified: int  # pieces that came home, held against the pack: --verify-lent
    num_drafts: int  # tokens that were drafted
    num_drafts_accepted: int  # of them, those that the model then said
    num_parked: int  # conversations in host memory now
    held_bytes: int  # of them
    num_hits: int  # requests that found their longest prefix there
    num_parkings: int  # times that a conversation was copied to host memory
    num_restores: int  # times that one came back
    num_evictions: int  # of conversations that had to go for another one
    num_given_up: int  # conversations given up for want of room
    parked_bytes: int  # copied to host memory
    unparked_bytes: int  # copied back to the card
    num_checkpoints: int  # states of the live session in host memory now
    num_saves: int  # times that a read left one
    num_resumes: int  # times that a prompt went on from one
    num_checkpoint_evictions: int  # of those that had to go for another one
    num_launches: int
    num_maps_while_serving: int  # but for segments that a loan moved
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
