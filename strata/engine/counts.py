"""What the runner counts of the acts and commands that it submits. Knows what they mean by owner and content alone."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from strata.core.commands import Access, Command, Copy, CopyPair, Fill, Launch, Map, Stream, Transfer
from strata.core.extent import HostExtent, HostSpace
from strata.core.lending.loan import CACHE, PROMPT
from strata.core.lending.segments import Act
from strata.core.memory.fixed import BLOCK
from strata.core.memory.planner import Plan
from strata.core.memory.scratch import SCRATCH
from strata.core.programs import ExpertsArgs


@dataclass(frozen=True, slots=True)
class RunnerCounts:
    """Since start; prompt and windows together, and of expert reads those of decode windows again; those of windows
    that read a prompt are not counted. `num_swaps` blobs of the expert cache, `swapped_bytes`, were exchanged.
    `ring_entries`: blobs copied through the ring; `lent_bytes` of the expert cache were given to reads in `num_loans`
    loans, `refilled_bytes` copied back into lent slots; `room_bytes` were copied back into the block behind `num_rooms`
    rooms, `restored_bytes` into regions whose segments were away; `parked_bytes` and `unparked_bytes` of conversations
    were copied to host memory and back. `slab_bytes` of what was lent were scratch; `scratch_classes`: sizes of buffers
    that were used in the region that is not lent. `staged_reads`: of the reads of decode windows, those of blobs that
    were copied to the card for them, which counts as missed; the first `told_reads` of them by windows that are over.
    `told_hits` and `told_misses`: the card's own counters of expert reads, as seen last.
    """

    expert_reads_hit: int = 0
    expert_reads_missed: int = 0
    window_reads_hit: int = 0
    window_reads_missed: int = 0
    num_swaps: int = 0
    swapped_bytes: int = 0
    staged_reads: int = 0
    told_reads: int = 0
    told_hits: int = 0
    told_misses: int = 0
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


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """Of one request: reads of experts by its windows, those of them that the card had, and blobs exchanged."""

    num_reads: int = 0
    num_hits: int = 0
    num_swaps: int = 0


def cache_facts(now: RunnerCounts, then: RunnerCounts) -> CacheFacts:
    num_hits = now.window_reads_hit - then.window_reads_hit
    num_misses = now.window_reads_missed - then.window_reads_missed
    return CacheFacts(num_hits + num_misses, num_hits, now.num_swaps - then.num_swaps)


def with_acts(counts: RunnerCounts, acts: Sequence[Act], *, slab_bytes: int) -> RunnerCounts:
    """Bytes pass to the prompt path from the cache, from the drafter, or, behind the arena, from nobody. `slab_bytes`:
    of what the cache gives to the read under way."""
    num_moves = sum(isinstance(act, Map) for act in acts)
    lent = [act for act in acts if isinstance(act, Transfer) and act.taker == PROMPT]
    if not num_moves and not lent:
        return counts
    slots_bytes = [act.extent.size_bytes for act in lent if act.giver == CACHE]
    num_rooms = sum(act.giver == BLOCK for act in lent)
    return replace(
        counts,
        num_moves=counts.num_moves + num_moves,
        num_rooms=counts.num_rooms + num_rooms,
        num_segment_loans=counts.num_segment_loans + len(lent) - num_rooms - len(slots_bytes),
        num_loans=counts.num_loans + len(slots_bytes),
        lent_bytes=counts.lent_bytes + sum(slots_bytes),
        slab_bytes=counts.slab_bytes + slab_bytes * len(slots_bytes),
    )


def with_window(
    counts: RunnerCounts, *, hits: int, misses: int, num_drafts: int, num_drafts_accepted: int
) -> RunnerCounts:
    """`hits` and `misses`: the card's own counters behind a window; it found staged blobs in slots, but they had
    crossed the link."""
    num_staged = counts.staged_reads - counts.told_reads
    num_hit, num_missed = hits - counts.told_hits - num_staged, misses - counts.told_misses + num_staged
    return replace(
        counts,
        told_reads=counts.staged_reads,
        told_hits=hits,
        told_misses=misses,
        expert_reads_hit=counts.expert_reads_hit + num_hit,
        expert_reads_missed=counts.expert_reads_missed + num_missed,
        window_reads_hit=counts.window_reads_hit + num_hit,
        window_reads_missed=counts.window_reads_missed + num_missed,
        num_drafts=counts.num_drafts + num_drafts,
        num_drafts_accepted=counts.num_drafts_accepted + num_drafts_accepted,
    )


def with_commands(counts: RunnerCounts, commands: Iterable[Command], plan: Plan, *, is_lent: bool) -> RunnerCounts:
    """Copies on the prompt's copy stream fill the ring, or bring home what was lent, or, where `is_lent` says that no
    slot of the cache is, exchange blobs in it; prompt launches name their blobs. The drafter is the layer behind the
    last. What goes to parked memory or comes from it is a conversation; behind the bytes for those, it is a checkpoint.
    """
    more = defaultdict[str, int](int)
    classes = counts.scratch_classes
    for command in commands:
        if isinstance(command, Launch):
            classes |= {write.extent.size_bytes for write in command.writes if write.owner == SCRATCH}
            _count_experts(more, command)
        elif isinstance(command, Copy):
            _count_copies(more, command, plan, is_lent=is_lent)
        elif isinstance(command, Fill) and command.target.extent == plan.verifier.window.result:
            # The card counts its reads from 0 again.
            more["told_hits"], more["told_misses"] = -counts.told_hits, -counts.told_misses
            more["told_reads"] = counts.staged_reads + more["staged_reads"] - counts.told_reads
    if not any(more.values()) and classes == counts.scratch_classes:
        return counts
    sums = {name: getattr(counts, name) + number for name, number in more.items()}
    return replace(counts, scratch_classes=classes, **sums)


def _count_experts(more: dict[str, int], launch: Launch) -> None:
    """A window counts by itself what it finds in a slot."""
    if not isinstance(launch.args, ExpertsArgs):
        return
    owners = [
        read.owner for read in launch.reads if isinstance(read, Access) and (read.content or "").startswith("blob ")
    ]
    if launch.stream is not Stream.PROMPT:
        more["staged_reads"] += len(owners) if launch.args.result is not None else 0
        return
    hits = owners.count(CACHE)
    more["expert_reads_hit"] += hits
    more["expert_reads_missed"] += len(owners) - hits


def _count_copies(more: dict[str, int], copy: Copy, plan: Plan, *, is_lent: bool) -> None:
    """Groups that fill the ring do nothing else, and carry blobs of the trunk; a read has hundreds of them."""
    if copy.stream is not Stream.COPY:
        for pair in copy.pairs:
            _count_parked(more, pair, plan)
    elif _is_ring_slot(copy.pairs[0].target, plan):
        more["ring_entries"] += len(copy.pairs)
    else:
        for pair in copy.pairs:
            _count_home(more, pair.target, is_lent=is_lent)


def _is_ring_slot(target: Access | HostExtent, plan: Plan) -> bool:
    if isinstance(target, HostExtent) or target.owner != PROMPT:
        return False
    return not _is_blob_of(target, plan.inventory.num_layers)


def _count_home(more: dict[str, int], target: Access | HostExtent, *, is_lent: bool) -> None:
    if isinstance(target, HostExtent):
        return
    size_bytes = target.extent.size_bytes
    if target.owner == CACHE and is_lent:
        more["refilled_bytes"] += size_bytes
    elif target.owner == CACHE:
        more["num_swaps"] += 1
        more["swapped_bytes"] += size_bytes
    elif target.owner != PROMPT:
        more["restored_bytes"] += size_bytes
    else:
        more["room_bytes"] += size_bytes


def _count_parked(more: dict[str, int], pair: CopyPair, plan: Plan) -> None:
    is_leaving = isinstance(pair.target, HostExtent)
    host = pair.target if is_leaving else pair.source
    assert isinstance(host, HostExtent), pair
    if host.space is HostSpace.PARKED and host.end_bytes <= plan.options.parked_bytes:
        more["parked_bytes" if is_leaving else "unparked_bytes"] += host.size_bytes


def _is_blob_of(access: Access, layer: int) -> bool:
    return access.content is not None and access.content.startswith(f"blob {layer} ")
