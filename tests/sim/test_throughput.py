"""How fast the twin judges without bytes, printed with -s and never asserted; that it counts every command is.

The mix is a decoding card at work: a slot of the cache refilled, table readers, launches of three reads and two writes,
events between two streams, and a notify that the host takes.
"""

import time

import pytest

from sim.device import SimDevice, describe_twin
from sim.symbolic import SymbolicPayload
from strata.core.commands import (
    Access,
    Command,
    Copy,
    CopyPair,
    Launch,
    Map,
    Notify,
    Record,
    Stream,
    TableRead,
    TableVersion,
    Transfer,
    Wait,
)
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.units import MIB

NUM_SLOTS, SLOT_BYTES = 512, 300_032
NUM_TURNS = 2000
SCRATCH = Extent(200 * MIB, MIB)


def make_decoding_card() -> SimDevice:
    description = describe_twin(arena_bytes=256 * MIB, segment_bytes=64 * MIB, pack_bytes=512 * MIB, staging_bytes=MIB)
    card = SimDevice(description, {"work": lambda memory, args: None}, SymbolicPayload(description))
    card.seal()
    card.host(HostExtent(HostSpace.STAGING, 0, MIB))
    card.submit([Map(index, Extent(index * 64 * MIB, 64 * MIB)) for index in range(4)])
    card.submit([Transfer(Extent(0, 200 * MIB), "", "cache"), Transfer(Extent(200 * MIB, 56 * MIB), "", "verifier")])
    card.submit([refill(slot) for slot in range(NUM_SLOTS)])
    upload = CopyPair(HostExtent(HostSpace.STAGING, 0, 8192), Access(Extent(210 * MIB, 8192), "verifier"))
    card.submit([Copy(Stream.COPY, (upload,), TableVersion(1, tuple(slot_access(slot) for slot in range(NUM_SLOTS))))])
    card.submit([Launch(Stream.COPY, "work", None, (), (scratch(0, 65536),)), Record(Stream.COPY, "copied")])
    return card


def slot_access(slot: int) -> Access:
    return Access(Extent(slot * SLOT_BYTES, SLOT_BYTES), "cache", f"blob {slot}")


def refill(slot: int) -> Copy:
    return Copy(Stream.COPY, (CopyPair(HostExtent(HostSpace.PACK, slot * SLOT_BYTES, SLOT_BYTES), slot_access(slot)),))


def scratch(start: int, size: int) -> Access:
    return Access(SCRATCH.part(offset_bytes=start, size_bytes=size), "verifier")


def turn(number: int) -> list[Command]:
    reads = (scratch(0, 4096), scratch(4096, 8192), scratch(20000, 999))
    writes = (scratch(4096, 8192), scratch(30000, 500))
    through = Launch(Stream.VERIFIER, "work", None, (TableRead(1), reads[0]), writes)
    plain = Launch(Stream.VERIFIER, "work", None, reads, writes)
    return [
        Wait(Stream.VERIFIER, "copied"),
        *(through, plain, plain) * 2,
        Record(Stream.VERIFIER, "used"),
        Wait(Stream.COPY, "used"),
        refill(number % NUM_SLOTS) if number % 50 == 0 else Record(Stream.COPY, "idle"),
        Record(Stream.COPY, "copied"),
        Notify(Stream.VERIFIER, "window"),
    ]


@pytest.mark.slow
def test_a_decoding_card_is_judged_at_this_speed(capsys: pytest.CaptureFixture[str]) -> None:
    card = make_decoding_card()
    turns = [turn(number) for number in range(NUM_TURNS)]
    before, started = card.statistics().num_commands, time.process_time()
    for commands in turns:
        card.submit(commands)
        assert len(card.completions()) == 1
    seconds = time.process_time() - started
    done = card.statistics().num_commands - before
    assert done == sum(map(len, turns))
    with capsys.disabled():
        print(f"\ntwin without bytes: {done} commands in {seconds:.2f} s of CPU = {done / seconds:,.0f} commands/s")
