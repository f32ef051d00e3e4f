"""The address table: (layer, expert) -> where a window may read the blob now. The one truth about residency.

A version is the whole table, uploaded from staging on the verifier's stream; windows name the version they read.
"""

import struct
from collections.abc import Iterable, Iterator

from strata.core.commands import Access, Command, Copy, CopyPair, Stream, TableVersion
from strata.core.lending.loan import CACHE
from strata.core.memory.planner import Plan
from strata.core.memory.shapes import Slot
from strata.core.serving.chunk import Addresses, Residents
from strata.core.serving.launches import blob_content
from strata.core.serving.steps import Upload


def resident_blobs(plan: Plan, slots: Iterable[Slot], *, owner: str = CACHE) -> Residents:
    """The blobs of `slots`, which are `owner`'s, and where they lie."""
    return {
        (slot.layer, slot.expert): Access(
            slot.extent.part(offset_bytes=0, size_bytes=plan.inventory.blob_bytes[slot.layer]),
            owner,
            blob_content(slot.layer, slot.expert),
        )
        for slot in slots
    }


def blobs_home(plan: Plan, slots: Iterable[Slot], *, owner: str = CACHE) -> Iterator[CopyPair]:
    """Each blob of `slots` from the pack into its slot."""
    for (layer, expert), blob in resident_blobs(plan, slots, owner=owner).items():
        yield CopyPair(plan.pack.blobs[layer][expert], blob)


def publish_table(plan: Plan, places: Addresses, resident: Residents, *, version: int) -> tuple[Upload, Command]:
    """Make `version` the table: blobs of `resident` are read from their slots, all others from the pack."""
    entries = TableVersion(version, tuple(resident.values()))
    rows = [address_words(plan, places, resident, layer=layer) for layer in range(plan.inventory.num_layers)]
    upload = Upload(plan.staging.table, b"".join(rows))
    return upload, Copy(Stream.VERIFIER, (CopyPair(plan.staging.table, Access(plan.table, "table")),), entries)


def address_words(plan: Plan, places: Addresses, resident: Residents, *, layer: int) -> bytes:
    """int64 [num_experts]: a row of the table. 0 in a dense layer, and where no program may read the blob now: in
    memory that is not pinned it has no address."""
    words = [0] * plan.inventory.num_experts
    for expert, home in enumerate(plan.pack.blobs[layer]):
        slot = resident.get((layer, expert))
        if slot or plan.pack.is_pinned(home):
            words[expert] = places.arena + slot.extent.offset_bytes if slot else places.pack + home.offset_bytes
    return struct.pack(f"<{len(words)}q", *words)
