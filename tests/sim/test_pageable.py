"""The end of the pack may be pageable: copies read it, and a program that follows an address there is caught, as is an
address row that has one, whether it is followed or not."""

import struct
from typing import Any

import pytest

from sim.device import ARENA_ADDRESS, PACK_ADDRESS, SimDevice, describe_twin
from sim.errors import PageableRead
from sim.world.plain_bytes import PlainBytes
from strata.core.commands import Access, Copy, CopyPair, Launch, Map, Notify, Stream, TableRead, TableVersion, Transfer
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.programs import NO_SCRATCH, ExpertsArgs, PassBuffers
from strata.device import Memory

ROW = Extent(0, 24)
PACK_BYTES, PINNED_BYTES = 60, 33
NAMES = [(HostExtent(HostSpace.PACK, start, 10), f"blob 0 {start}") for start in range(0, 60, 10)]


def card(asked: tuple[int, int] | None = None) -> SimDevice:
    """With a program that reads `asked`: an address and a size."""

    def experts(memory: Memory, args: Any) -> None:
        if asked is not None:
            memory.view(*asked)

    description = describe_twin(
        arena_bytes=64,
        segment_bytes=64,
        pack_bytes=PACK_BYTES,
        staging_bytes=24,
        pageable_pack_bytes=PACK_BYTES - PINNED_BYTES,
    )
    device = SimDevice(description, {"experts": experts}, PlainBytes(description), manifest=NAMES)
    device.seal()
    device.submit([Map(0, Extent(0, 64)), Transfer(Extent(0, 64), "", "table")])
    return device


def read_experts(device: SimDevice, *words: int) -> None:
    staged = HostExtent(HostSpace.STAGING, 0, 24)
    device.host(staged)[:] = struct.pack("<3q", *words)
    upload = (CopyPair(staged, Access(ROW, "table")),)
    buffers = PassBuffers(1, *[NO_SCRATCH] * 9)
    reads = (Access(ROW, "table"), TableRead(1))
    launch = Launch(Stream.VERIFIER, "experts", ExpertsArgs(0, 1, buffers, None, ROW), reads, ())
    device.submit([Copy(Stream.VERIFIER, upload, TableVersion(1, ())), launch, Notify(Stream.VERIFIER, "done")])
    device.completions()


def test_pinned_blobs_are_read_by_their_addresses() -> None:
    device = card((PACK_ADDRESS + 20, 10))
    read_experts(device, PACK_ADDRESS, ARENA_ADDRESS + 30, 0)
    assert device.statistics().pack_read_bytes == 10


@pytest.mark.parametrize("offset", [30, 40, 50])
def test_a_row_that_has_the_address_of_a_pageable_blob_is_refused(offset: int) -> None:
    """The first of them lies across the edge."""
    with pytest.raises(PageableRead, match="reach the first 33 B"):
        read_experts(card(), 0, PACK_ADDRESS + offset, PACK_ADDRESS + 10)


@pytest.mark.parametrize(("offset", "size_bytes"), [(30, 4), (33, 1), (59, 1)])
def test_a_program_that_follows_an_address_to_what_is_not_pinned_is_refused(offset: int, size_bytes: int) -> None:
    with pytest.raises(PageableRead, match="copy it into a slot first"):
        read_experts(card((PACK_ADDRESS + offset, size_bytes)), 0, 0, 0)


def test_a_copy_reads_what_is_not_pinned() -> None:
    device = card()
    target = Access(Extent(30, 10), "table", "blob 0 50")
    device.submit([Copy(Stream.COPY, (CopyPair(HostExtent(HostSpace.PACK, 50, 10), target),))])
    assert device.statistics().copied_to_device_bytes == 10
