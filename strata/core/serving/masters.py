"""From a place on the card back to the pack: the copies that bring bytes home.

Whatever the card holds of a weight, the pack holds too and for good, so any part of it can be copied again, as often as
needed (`lending.md` 3.1). The pieces are cut where one weight ends, since each has its own name.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from strata.core.commands import MAX_COPY_GROUP, Access, Copy, CopyPair, Stream
from strata.core.extent import Extent, HostExtent
from strata.core.memory.fixed import BLOCK
from strata.core.memory.planner import Plan
from strata.core.serving.launches import blob_content, weight_content


@dataclass(frozen=True, slots=True)
class Master:
    """`home` in the pack holds what belongs into `extent`."""

    extent: Extent
    home: HostExtent
    content: str


def masters_of(plan: Plan, region: str) -> tuple[Master, ...]:
    """Every weight that lies in `region`, in address order."""
    if region == BLOCK:
        return _block_masters(plan)
    names = (name for name, owner in plan.owners.items() if owner == region)
    return tuple(Master(plan.weights[name], plan.pack.weights[name], weight_content(name)) for name in names)


def _block_masters(plan: Plan) -> tuple[Master, ...]:
    places = zip(block_blobs(plan), plan.pack.block, strict=True)
    layer = plan.inventory.num_layers
    return tuple(Master(extent, home, blob_content(layer, expert)) for expert, (extent, home) in enumerate(places))


def block_blobs(plan: Plan) -> tuple[Extent, ...]:
    """Each expert of the drafter's block, without the bytes up to the next."""
    drafter = plan.inventory.drafter
    if drafter is None:
        return ()
    starts = (expert * drafter.slot_bytes for expert in range(drafter.num_experts))
    return tuple(plan.block.part(offset_bytes=start, size_bytes=drafter.blob_bytes) for start in starts)


def pairs_home(masters: Sequence[Master], target: Extent, *, owner: str) -> Iterator[CopyPair]:
    """What `masters` have of `target`, whose bytes are `owner`'s now."""
    for master in masters:
        start = max(master.extent.offset_bytes, target.offset_bytes)
        end = min(master.extent.end_bytes, target.end_bytes)
        if start < end:
            skipped = start - master.extent.offset_bytes
            home = master.home.part(offset_bytes=skipped, size_bytes=end - start)
            yield CopyPair(home, Access(Extent(start, end - start), owner, master.content))


def copy_groups(stream: Stream, pairs: Iterable[CopyPair]) -> Iterator[Copy]:
    """`pairs` in order, as few commands as there can be."""
    group: list[CopyPair] = []
    for pair in pairs:
        group.append(pair)
        if len(group) == MAX_COPY_GROUP:
            yield Copy(stream, tuple(group))
            group = []
    if group:
        yield Copy(stream, tuple(group))
