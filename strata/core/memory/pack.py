"""Where every weight lies in the host master: all blobs in (layer, expert) order, the drafter's
behind them, then the dense tensors.

The pack is filled once at start and never written again; every device byte of a weight can be copied from it anew.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from strata.core.extent import HostExtent, HostSpace
from strata.core.inventory import ModelInventory
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up


@dataclass(frozen=True, slots=True)
class PackLayout:
    """`blobs[layer][expert]` and `weights[name]`, each on the 256-byte grid. `blobs[layer]` is () in a dense layer.
    `block`: the drafter's experts, spaced as on the card, () without a drafter; its dense tensors are in `weights`."""

    blobs: tuple[tuple[HostExtent, ...], ...]
    weights: Mapping[str, HostExtent]
    size_bytes: int
    block: tuple[HostExtent, ...] = ()

    def placed_blobs(self) -> Iterator[tuple[int, int, HostExtent]]:
        """(layer, expert, where its blob lies) of every blob; the drafter is the layer behind the trunk's."""
        for layer, row in enumerate((*self.blobs, self.block)):
            for expert, home in enumerate(row):
                yield layer, expert, home


def plan_pack(inventory: ModelInventory) -> PackLayout:
    offset_bytes = 0

    def take(size_bytes: int) -> HostExtent:
        nonlocal offset_bytes
        extent = HostExtent(HostSpace.PACK, offset_bytes, size_bytes)
        offset_bytes = align_up(extent.end_bytes, SLOT_ALIGNMENT_BYTES)
        return extent

    blobs = tuple(
        tuple(take(blob_bytes) for _ in range(inventory.num_experts)) if blob_bytes else ()
        for blob_bytes in inventory.blob_bytes
    )
    drafter = inventory.drafter
    block = tuple(take(drafter.blob_bytes) for _ in range(drafter.num_experts)) if drafter else ()
    drafting = (*drafter.weights, *drafter.heads) if drafter else ()
    weights = {item.name: take(item.size_bytes) for item in (*inventory.weights, *drafting)}
    return PackLayout(blobs, weights, offset_bytes, block)
