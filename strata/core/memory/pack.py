"""Where every weight lies in the host master: all blobs in (layer, expert) order, the drafter's
behind them, then the dense tensors.

The pack is filled once at start and never written again; every device byte of a weight can be copied from it anew.

    | blobs without a slot | blobs with one | drafter's | dense |          with a budget of pinned memory
    |<---- pinned: kernels read it by address ---->|<- pageable ->|       only copies read it

Where only the first bytes are pinned, blobs come first that no slot of the cache has: those that windows read here. In
the order of layers, so that whole layers have all that they need, and the others ask what they miss.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from strata.core.extent import HostExtent, HostSpace
from strata.core.inventory import ModelInventory
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up


@dataclass(frozen=True, slots=True)
class PackLayout:
    """`blobs[layer][expert]` and `weights[name]`, each on the 256-byte grid. `blobs[layer]` is () in a dense layer.
    `block`: the drafter's experts, spaced as on the card, () without a drafter; its dense tensors are in `weights`. The
    first `pinned_bytes` are pinned, all others pageable."""

    blobs: tuple[tuple[HostExtent, ...], ...]
    weights: Mapping[str, HostExtent]
    size_bytes: int
    pinned_bytes: int
    block: tuple[HostExtent, ...] = ()

    def is_pinned(self, home: HostExtent) -> bool:
        """Whether kernels may read it by its address: to its last byte."""
        return home.end_bytes <= self.pinned_bytes

    @property
    def pageable_bytes(self) -> int:
        return self.size_bytes - self.pinned_bytes

    @property
    def num_pageable_blobs(self) -> int:
        return sum(not self.is_pinned(home) for row in self.blobs for home in row)

    def missing(self, resident: Collection[tuple[int, int]]) -> tuple[frozenset[int], ...]:
        """Of each layer, the experts that are neither pinned nor `resident`; () where there are none at all."""
        pageable = [[i for i, home in enumerate(row) if not self.is_pinned(home)] for row in self.blobs]
        missing = tuple(frozenset(i for i in row if (at, i) not in resident) for at, row in enumerate(pageable))
        return missing if any(missing) else ()

    def placed_blobs(self) -> Iterator[tuple[int, int, HostExtent]]:
        """(layer, expert, where its blob lies) of every blob; the drafter is the layer behind the trunk's."""
        for layer, row in enumerate((*self.blobs, self.block)):
            for expert, home in enumerate(row):
                yield layer, expert, home


def plan_pack(
    inventory: ModelInventory, *, pinned_bytes: int | None = None, resident: Collection[tuple[int, int]] = ()
) -> PackLayout:
    """`pinned_bytes`: at most so many are pinned, None for all. `resident`: (layer, expert) of the blobs that have a
    slot."""
    offset_bytes = 0

    def take(size_bytes: int) -> HostExtent:
        nonlocal offset_bytes
        extent = HostExtent(HostSpace.PACK, offset_bytes, size_bytes)
        offset_bytes = align_up(extent.end_bytes, SLOT_ALIGNMENT_BYTES)
        return extent

    experts, sizes = range(inventory.num_experts), inventory.blob_bytes
    pairs = [(layer, expert) for layer, blob_bytes in enumerate(sizes) if blob_bytes for expert in experts]
    if pinned_bytes is not None:
        pairs.sort(key=lambda pair: pair in resident)
    homes = {pair: take(sizes[pair[0]]) for pair in pairs}
    blobs = tuple(
        tuple(homes[layer, expert] for expert in experts) if blob_bytes else ()
        for layer, blob_bytes in enumerate(sizes)
    )
    drafter = inventory.drafter
    block = tuple(take(drafter.blob_bytes) for _ in range(drafter.num_experts)) if drafter else ()
    drafting = (*drafter.weights, *drafter.heads) if drafter else ()
    weights = {item.name: take(item.size_bytes) for item in (*inventory.weights, *drafting)}
    pinned_bytes = offset_bytes if pinned_bytes is None else min(pinned_bytes, offset_bytes)
    return PackLayout(blobs, weights, offset_bytes, pinned_bytes, block)
