"""The address table: (layer, expert) -> where a window may read the blob now. The one truth about residency.

A version is the whole table, uploaded from staging on the verifier's stream; windows name the version they read.
"""

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from strata.core.commands import Access, Command, Copy, CopyPair, Stream, TableVersion
from strata.core.extent import Extent
from strata.core.lending.loan import CACHE
from strata.core.memory.planner import Plan
from strata.core.memory.shapes import Slot
from strata.core.serving.chunk import Addresses, Residents
from strata.core.serving.launches import blob_content
from strata.core.serving.steps import Upload


def resident_blobs(plan: Plan, slots: Iterable[Slot], *, owner: str = CACHE) -> Residents:
    """The blobs of `slots`, which are `owner`'s, and where they lie."""
    sizes = plan.inventory.blob_bytes
    return {
        (slot.layer, slot.expert): _blob(slot.layer, slot.expert, slot.extent.offset_bytes, sizes[slot.layer], owner)
        for slot in slots
    }


@lru_cache(1 << 14)
def _blob(layer: int, expert: int, offset_bytes: int, size_bytes: int, owner: str) -> Access:
    return Access(Extent(offset_bytes, size_bytes), owner, blob_content(layer, expert))


def blobs_home(plan: Plan, slots: Iterable[Slot], *, owner: str = CACHE) -> Iterator[CopyPair]:
    """Each blob of `slots` from the pack into its slot."""
    for (layer, expert), blob in resident_blobs(plan, slots, owner=owner).items():
        yield CopyPair(plan.pack.blobs[layer][expert], blob)


def publish_table(plan: Plan, places: Addresses, resident: Residents, *, version: int) -> tuple[Upload, Command]:
    """Make `version` the table: blobs of `resident` are read from their slots, all others from the pack."""
    entries = TableVersion(version, tuple(resident.values()))
    words = address_words(plan, places, resident, range(plan.inventory.num_layers))
    upload = Upload(plan.staging.table, words)
    return upload, Copy(Stream.VERIFIER, (CopyPair(plan.staging.table, Access(plan.table, "table")),), entries)


def address_words(plan: Plan, places: Addresses, resident: Residents, layers: range) -> bytes:
    """int64 [layers, num_experts]: rows of the table. 0 in a dense layer, and where no program may read the blob now:
    in memory that is not pinned it has no address."""
    num_experts, pack = plan.inventory.num_experts, plan.pack
    is_whole = pack.pinned_bytes == pack.size_bytes
    rows = (
        [places.pack + home.offset_bytes if is_whole or pack.is_pinned(home) else 0 for home in row]
        or [0] * num_experts
        for row in pack.blobs[layers.start : layers.stop]
    )
    words = list(chain.from_iterable(rows))
    for (layer, expert), blob in resident.items():
        words[(layer - layers.start) * num_experts + expert] = places.arena + blob.extent.offset_bytes
    return struct.pack(f"<{len(words)}q", *words)
