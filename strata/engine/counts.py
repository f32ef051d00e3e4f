"""What the runner counts of the acts and commands that it submits. Knows what they mean by owner and content alone."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from strata.core import programs
from strata.core.commands import Access, Command, Copy, Launch, Map, Stream, Transfer
from strata.core.extent import HostExtent, HostSpace
from strata.core.lending.loan import CACHE, PROMPT
from strata.core.lending.segments import Act
from strata.core.memory.fixed import BLOCK
from strata.core.memory.planner import Plan
from strata.core.memory.scratch import SCRATCH
from strata.core.serving.launches import is_blob, is_blob_of


@dataclass(frozen=True, slots=True)
class RunnerCounts:
    """Since start; prompt and windows together. `ring_entries`: blobs copied through the ring; `lent_bytes` of the
    expert cache were given to reads in `num_loans` loans, `refilled_bytes` copied back into lent slots; `room_bytes`
    were copied back into the block behind `num_rooms` rooms, `restored_bytes` into regions whose segments were away;
    `parked_bytes` and `unparked_bytes` of conversations were copied to host memory and back. `slab_bytes` of what was
    lent were scratch; `scratch_classes`: sizes of buffers that were used in the region that is not lent."""

    expert_reads_hit: int = 0
    expert_reads_missed: int = 0
    ring_entries: int = 0
    num_loans: int = 0
    lent_bytes: int = 0
    refilled_bytes: int = 0
    num_rooms: int = 0
    room_bytes: int = 0
    num_segment_loans: int = 0
    num_moves: int = 0  # of segments, away or home
    restored_bytes: int = 0
    num_drafts: int = 0
    num_drafts_accepted: int = 0
    num_verified: int = 0  # pieces that came home, held against the pack
    parked_bytes: int = 0
    unparked_bytes: int = 0
    slab_bytes: int = 0
    reclaim_s: float = 0.0  # that loans took to come home
    scratch_classes: frozenset[int] = frozenset()


def with_act(counts: RunnerCounts, act: Act) -> RunnerCounts:
    """Bytes pass to the prompt path from the cache, from the drafter, or, behind the arena, from nobody."""
    if isinstance(act, Map):
        return replace(counts, num_moves=counts.num_moves + 1)
    if not isinstance(act, Transfer) or act.taker != PROMPT:
        return counts
    if act.giver == BLOCK:
        return replace(counts, num_rooms=counts.num_rooms + 1)
    if act.giver != CACHE:
        return replace(counts, num_segment_loans=counts.num_segment_loans + 1)
    return replace(counts, num_loans=counts.num_loans + 1, lent_bytes=counts.lent_bytes + act.extent.size_bytes)


def with_command(counts: RunnerCounts, command: Command, plan: Plan) -> RunnerCounts:
    """Copies on the prompt's copy stream fill the ring, or bring home what was lent; prompt launches name their blobs.
    The drafter is the layer behind the last. What goes to parked memory or comes from it is a conversation; behind the
    bytes for those, it is a checkpoint."""
    if isinstance(command, Copy) and command.stream is Stream.COPY:
        return _with_copies(counts, command, num_layers=plan.inventory.num_layers)
    if isinstance(command, Copy):
        return replace(
            counts,
            parked_bytes=counts.parked_bytes + _parked_bytes((pair.target for pair in command.pairs), plan),
            unparked_bytes=counts.unparked_bytes + _parked_bytes((pair.source for pair in command.pairs), plan),
        )
    if isinstance(command, Launch):
        classes = {write.extent.size_bytes for write in command.writes if write.owner == SCRATCH}
        if not classes <= counts.scratch_classes:
            counts = replace(counts, scratch_classes=counts.scratch_classes | classes)
    if isinstance(command, Launch) and command.program == programs.EXPERTS:
        blobs = [read for read in command.reads if isinstance(read, Access) and is_blob(read)]
        hits = sum(blob.owner == CACHE for blob in blobs)
        return replace(
            counts,
            expert_reads_hit=counts.expert_reads_hit + hits,
            expert_reads_missed=counts.expert_reads_missed + len(blobs) - hits,
        )
    return counts


def _with_copies(counts: RunnerCounts, command: Copy, *, num_layers: int) -> RunnerCounts:
    refilled_bytes = restored_bytes = room_bytes = ring_entries = 0
    for pair in command.pairs:
        target = pair.target
        if isinstance(target, HostExtent):
            continue
        if target.owner == CACHE:
            refilled_bytes += target.extent.size_bytes
        elif target.owner != PROMPT:
            restored_bytes += target.extent.size_bytes
        elif is_blob_of(target, num_layers):
            room_bytes += target.extent.size_bytes
        else:
            ring_entries += 1
    return replace(
        counts,
        refilled_bytes=counts.refilled_bytes + refilled_bytes,
        restored_bytes=counts.restored_bytes + restored_bytes,
        room_bytes=counts.room_bytes + room_bytes,
        ring_entries=counts.ring_entries + ring_entries,
    )


def _parked_bytes(sides: Iterable[Access | HostExtent], plan: Plan) -> int:
    places = [side for side in sides if isinstance(side, HostExtent) and side.space is HostSpace.PARKED]
    return sum(place.size_bytes for place in places if place.end_bytes <= plan.options.parked_bytes)
