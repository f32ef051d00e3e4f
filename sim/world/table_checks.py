"""Rules of the address table that no launch would trip over: when a version may be published, that lent bytes are in no
table before they change hands, and that at rest the table says where every blob is.

Asked of the twin's own facts (`sim.tables`) and of the bytes that were uploaded.
"""

from collections.abc import Mapping

from sim.device import ARENA_ADDRESS, PACK_ADDRESS
from sim.errors import TwinError
from sim.shadow import Shadow
from sim.streams import HOST, Operation
from sim.tables import Readers
from sim.world.plain_bytes import PlainBytes
from strata.core.commands import TableVersion, Transfer
from strata.core.extent import Extent

NOBODY, PROMPT = "", "prompt"


class TableRule(TwinError):
    """A rule of the address table is broken."""


def newest_version(shadow: Shadow) -> Readers | None:
    tables = shadow.tables
    return tables._versions.get(tables._newest)


def check_published(published: TableVersion, shadow: Shadow, by: Operation) -> None:
    """Every entry may be read by whoever reads the table: it is written, it holds its blob, and the upload comes after
    that (`lending.md` 4.1, table upload after refill)."""
    for entry in published.entries:
        shadow.check_read(entry, by)


def check_unpublished(transfer: Transfer, shadow: Shadow) -> None:
    """Bytes are lent: the host knows that a table without them has arrived (`lending.md` 5, invariant 2)."""
    newest = newest_version(shadow)
    if transfer.taker != PROMPT or transfer.giver == NOBODY or newest is None:
        return
    for entry in newest.entries:
        if entry.extent.overlaps(transfer.extent):
            raise TableRule(f"{transfer} lends {entry}, which table version={newest.version} still names", transfer)
    upload = newest.upload
    if upload.tick > shadow.clocks.of(HOST)[upload.actor]:
        raise TableRule(f"{transfer} comes before the host knows that {upload} is over", transfer)


def check_addresses(
    shadow: Shadow,
    payload: PlainBytes,
    blobs: Mapping[tuple[int, int], bytes],
    homes: Mapping[str, Extent],
    *,
    num_experts: int,
    pinned_bytes: int,
) -> None:
    """The bytes of the table: a resident blob is read from its slot, any other from the pack, if it lies whole in the
    first `pinned_bytes` of it; else it has no address."""
    newest = newest_version(shadow)
    if not blobs:
        return
    if newest is None or len(newest.table) != 1:
        raise TableRule("no table is published")
    words = payload.arena(newest.table[0].extent).cast("q")
    for (layer, expert), blob in blobs.items():
        address = words[layer * num_experts + expert]
        home = homes.get(f"blob {layer} {expert}")
        if home is None:
            start = address - PACK_ADDRESS
            is_right = 0 <= start <= pinned_bytes - len(blob) and bytes(payload.pack[start : start + len(blob)]) == blob
            if not address:
                is_right = _is_pageable(payload, blob, pinned_bytes)
        else:
            is_right = address == ARENA_ADDRESS + home.offset_bytes
        if not is_right:
            raise TableRule(f"the table gives address={address:#x} for blob {layer} {expert}; its slot is {home}")


def _is_pageable(payload: PlainBytes, blob: bytes, pinned_bytes: int) -> bool:
    """Whether no whole copy of it lies in the first `pinned_bytes` of the pack."""
    return blob not in bytes(payload.pack[:pinned_bytes])
