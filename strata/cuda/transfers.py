"""From the pairs of a copy command to the copies that the link is asked for. Pure.

A copy of 1 MiB reaches 48 GB/s where one of 5 MiB reaches 54 (measured on an H200): pairs that are neighbours on both
sides become one. The pairs of a group are independent, so they may be put in another order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from strata.core.commands import CopyPair
from strata.core.extent import Extent, HostExtent


@dataclass(frozen=True, slots=True)
class LinkCopy:
    """One contiguous copy over the link."""

    host: HostExtent
    arena: Extent
    is_to_device: bool


def merge_pairs(pairs: Sequence[CopyPair]) -> list[LinkCopy]:
    """In order of arena address, host to device first; empty pairs are left out."""
    copies = sorted(
        (_copy_of(pair) for pair in pairs), key=lambda c: (not c.is_to_device, c.host.space, c.arena.offset_bytes)
    )
    merged: list[LinkCopy] = []
    for copy in copies:
        if not copy.arena.size_bytes:
            continue
        if merged and _follows(merged[-1], copy):
            last = merged.pop()
            copy = LinkCopy(
                HostExtent(last.host.space, last.host.offset_bytes, last.host.size_bytes + copy.host.size_bytes),
                Extent(last.arena.offset_bytes, last.arena.size_bytes + copy.arena.size_bytes),
                copy.is_to_device,
            )
        merged.append(copy)
    return merged


def _copy_of(pair: CopyPair) -> LinkCopy:
    if isinstance(pair.source, HostExtent):
        assert not isinstance(pair.target, HostExtent), pair
        return LinkCopy(pair.source, pair.target.extent, is_to_device=True)
    assert isinstance(pair.target, HostExtent), pair
    return LinkCopy(pair.target, pair.source.extent, is_to_device=False)


def _follows(last: LinkCopy, copy: LinkCopy) -> bool:
    return (
        last.is_to_device == copy.is_to_device
        and last.host.space == copy.host.space
        and last.host.end_bytes == copy.host.offset_bytes
        and last.arena.end_bytes == copy.arena.offset_bytes
    )
