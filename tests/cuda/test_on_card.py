"""What only a card can show: `python -m pytest -m gpu tests/cuda tests/device`."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from strata.core.commands import (
    Access,
    Copy,
    CopyPair,
    Digest,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Stream,
    Transfer,
    Unmap,
)
from strata.core.errors import ConfigError, DeviceError
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.units import MIB, align_up
from strata.cuda.device import CudaDevice
from strata.cuda.open import open_device
from strata.device import Memory
from tests.device.cuda_bodies import why_no_card

SEGMENT_BYTES = 2 * MIB
PACK_BYTES = 8 * MIB
ROOT = Path(__file__).parents[2]

WHY_NO_CARD = why_no_card()

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(WHY_NO_CARD is not None, reason=str(WHY_NO_CARD))]


def increment(memory: Memory, args: Any) -> None:
    memory.write(args).add_(1)


def double_by_temporaries(memory: Memory, args: Any) -> None:
    """Takes and frees memory of torch's own on the way."""
    data = memory.write(args)
    for _ in range(4):
        data.copy_((data + 0).clone().view_as(data))
    data.copy_(data * 2)


def look(memory: Memory, args: Any) -> None:
    memory.write(args)[0].item()


def mistake(memory: Memory, args: Any) -> None:
    memory.write(args).view(-1, 7)


PROGRAMS = {"increment": increment, "double": double_by_temporaries, "look": look, "mistake": mistake}


@pytest.fixture
def make() -> Iterator[Callable[..., CudaDevice]]:
    made: list[CudaDevice] = []

    def opened(**options: Any) -> CudaDevice:
        sizes = {"arena_bytes": 8 * SEGMENT_BYTES, "pack_bytes": PACK_BYTES, "staging_bytes": MIB, "block_bytes": MIB}
        made.append(open_device(PROGRAMS, segment_bytes=SEGMENT_BYTES, **{**sizes, **options}))
        pack = made[-1].host(HostExtent(HostSpace.PACK, 0, PACK_BYTES))
        torch.frombuffer(pack, dtype=torch.uint8).random_(generator=torch.Generator().manual_seed(7))
        made[-1].seal()
        made[-1].submit([Map(index, segment(index)) for index in range(6)])
        return made[-1]

    yield opened
    for device in made:
        device.close()


def segment(index: int) -> Extent:
    return Extent(index * SEGMENT_BYTES, SEGMENT_BYTES)


def at(offset: int, size: int) -> Access:
    return Access(Extent(offset, size), "owner")


def staging(size: int) -> HostExtent:
    return HostExtent(HostSpace.STAGING, 0, size)


def launch(program: str, access: Access) -> Launch:
    args: Any = access.extent
    return Launch(Stream.VERIFIER, program, args, (), (access,))


def finish(device: CudaDevice) -> None:
    device.submit([Notify(stream, f"all of {stream}") for stream in Stream])
    waiting = len(Stream)
    while waiting:
        waiting -= len(device.completions())


def read(device: CudaDevice, offset: int, size: int) -> bytes:
    finish(device)
    device.submit([Copy(Stream.COPY, (CopyPair(at(offset, size), staging(size)),))])
    finish(device)
    return bytes(device.host(staging(size)))


@pytest.mark.parametrize("budget", [None, 0, 3 * MIB + 4096])
def test_every_byte_of_the_pack_comes_back_however_much_is_pinned(
    make: Callable[..., CudaDevice], budget: int | None
) -> None:
    device = make(max_pinned_bytes=budget)
    assert device.pinned_pack_bytes == (PACK_BYTES if budget is None else budget)
    whole = HostExtent(HostSpace.PACK, 0, PACK_BYTES)
    device.submit([Copy(Stream.COPY, (CopyPair(whole, at(12345, PACK_BYTES)),))])
    expected = bytes(device.host(whole))
    for start in range(0, PACK_BYTES, MIB):
        assert read(device, 12345 + start, MIB) == expected[start : start + MIB]


def test_a_segment_takes_its_bytes_along(make: Callable[..., CudaDevice]) -> None:
    device = make()
    device.submit([Fill(Stream.PROMPT, at(SEGMENT_BYTES, 4096), 5), Fill(Stream.PROMPT, at(0, 4096), 6)])
    finish(device)
    device.submit([Unmap(segment(0)), Unmap(segment(1)), Map(1, segment(0)), Map(0, segment(7))])
    assert read(device, 0, 4096) == b"\x05" * 4096 and read(device, 7 * SEGMENT_BYTES, 4096) == b"\x06" * 4096


def test_a_tensor_crosses_segments_that_were_put_there_one_by_one(make: Callable[..., CudaDevice]) -> None:
    device = make()
    device.submit([Unmap(segment(index)) for index in range(6)])
    device.submit([Map(5 - index, segment(index)) for index in range(6)])
    everything = at(7, 6 * SEGMENT_BYTES - 7)
    device.submit([Fill(Stream.VERIFIER, everything, 40), launch("increment", everything)])
    for index in range(1, 6):
        assert read(device, index * SEGMENT_BYTES - 64, 128) == b"\x29" * 128


def test_a_graph_outlives_its_segments_absence_many_times(make: Callable[..., CudaDevice]) -> None:
    device, spot = make(), at(2 * SEGMENT_BYTES - 128, 256)
    device.submit([Fill(Stream.VERIFIER, spot, 0)])
    device.capture("count", [launch("increment", spot)] * 3)
    for turn in range(1, 11):
        finish(device)
        device.submit([Transfer(segment(1), "owner", ""), Unmap(segment(1)), Map(1, segment(6)), Map(6, segment(1))])
        with pytest.raises(DeviceError, match="stale"):
            device.submit([GraphLaunch(Stream.VERIFIER, "count", 0)])
        device.submit([Fill(Stream.PROMPT, at(SEGMENT_BYTES, SEGMENT_BYTES), 0xEE)])
        finish(device)
        device.submit([Unmap(segment(1)), Unmap(segment(6)), Map(1, segment(1))])
        device.submit([GraphLaunch(Stream.VERIFIER, "count", 0)])
        assert read(device, spot.extent.offset_bytes, 256) == bytes([3 * turn]) * 256


def test_what_a_graph_allocated_is_nobody_elses_while_it_lives(make: Callable[..., CudaDevice]) -> None:
    """Between replays torch hands out and overwrites all the memory that it thinks is free."""
    device, spot = make(), at(0, 65536)
    device.capture("double", [launch("double", spot)])
    stream = torch.cuda.ExternalStream(int(device._streams[Stream.VERIFIER]))
    for _ in range(5):
        device.submit([Fill(Stream.VERIFIER, spot, 3), GraphLaunch(Stream.VERIFIER, "double", 0)])
        with torch.cuda.stream(stream):
            churn = [torch.full((65536,), 255, dtype=torch.uint8, device="cuda") for _ in range(64)]
        device.submit([GraphLaunch(Stream.VERIFIER, "double", 0)])
        assert read(device, 0, 65536) == b"\x0c" * 65536
        assert all(bool((each == 255).all()) for each in churn)


def test_a_program_that_looks_at_results_cannot_be_captured_and_does_no_harm(make: Callable[..., CudaDevice]) -> None:
    device, spot = make(), at(0, 64)
    device.submit([Fill(Stream.VERIFIER, spot, 1)])
    with pytest.raises(DeviceError, match=r"STREAM_CAPTURE|capturing"):
        device.capture("look", [launch("increment", spot), launch("look", spot)])
    device.submit([launch("look", spot)])
    device.capture("fine", [launch("increment", spot)])
    device.submit([GraphLaunch(Stream.VERIFIER, "fine", 0)])
    assert read(device, 0, 64) == b"\x02" * 64


def test_a_mistake_in_a_program_is_told_from_a_refusal_of_the_card(make: Callable[..., CudaDevice]) -> None:
    device, spot = make(), at(0, 64)
    with pytest.raises(RuntimeError, match="shape"):
        device.submit([launch("mistake", spot)])
    with pytest.raises(RuntimeError, match="shape"):
        device.capture("mistake", [launch("increment", spot), launch("mistake", spot)])
    device.submit([Fill(Stream.VERIFIER, spot, 1), launch("increment", spot)])
    assert read(device, 0, 64) == b"\x02" * 64


def test_a_graph_may_be_replaced_while_it_runs(make: Callable[..., CudaDevice]) -> None:
    device, spot = make(), at(0, 4 * SEGMENT_BYTES)
    device.submit([Fill(Stream.VERIFIER, spot, 0)])
    for _ in range(20):
        device.capture("again", [launch("increment", spot)] * 5)
        device.submit([GraphLaunch(Stream.VERIFIER, "again", 0)])
    assert read(device, 3 * SEGMENT_BYTES, 64) == bytes([100]) * 64


def test_another_thread_may_take_over(make: Callable[..., CudaDevice]) -> None:
    device, spot, got = make(), at(0, 64), []

    def work() -> None:
        device.submit([Fill(Stream.VERIFIER, spot, 8), launch("increment", spot)])
        got.append(read(device, 0, 64))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert got == [b"\x09" * 64]


def test_digests_of_large_bytes_are_the_same_on_card_and_host(make: Callable[..., CudaDevice]) -> None:
    from strata.cuda.digest import torch_digest

    device, size = make(), PACK_BYTES - 11
    device.submit([Copy(Stream.COPY, (CopyPair(HostExtent(HostSpace.PACK, 5, size), at(5, size)),))])
    device.submit([Digest(Stream.COPY, at(5, size), staging(8))])
    finish(device)
    pack = torch.frombuffer(bytearray(device.host(HostExtent(HostSpace.PACK, 5, size))), dtype=torch.uint8)
    assert int.from_bytes(bytes(device.host(staging(8))), "little", signed=True) == int(torch_digest(pack))


def test_a_kernel_in_place_of_torch_gives_the_same_digest(make: Callable[..., CudaDevice]) -> None:
    from kernels.triton.launch_rows import digest as kernel_digest
    from strata.cuda.digest import torch_digest

    def digest(source: torch.Tensor) -> torch.Tensor:
        parts = torch.empty(1024, dtype=torch.uint64, device=source.device)
        out = torch.empty(1, dtype=torch.uint64, device=source.device)
        kernel_digest(source, parts, out)
        return out

    device, size = make(digest=digest), PACK_BYTES - 256
    device.submit([Copy(Stream.COPY, (CopyPair(HostExtent(HostSpace.PACK, 256, size), at(256, size)),))])
    device.submit([Digest(Stream.COPY, at(256, size), staging(8))])
    finish(device)
    pack = torch.frombuffer(bytearray(device.host(HostExtent(HostSpace.PACK, 256, size))), dtype=torch.uint8)
    assert int.from_bytes(bytes(device.host(staging(8))), "little", signed=True) == int(torch_digest(pack))


def test_a_card_too_small_is_refused_with_the_missing_bytes_and_gives_back_the_rest() -> None:
    big, (free, total) = 64 * MIB, torch.cuda.mem_get_info()
    with pytest.raises(ConfigError, match=r"arena refused.*B are missing: lower --vram"):
        open_device({}, arena_bytes=align_up(total, big), segment_bytes=big, pack_bytes=0, staging_bytes=MIB)
    assert torch.cuda.mem_get_info()[0] >= free - big


def test_opening_and_closing_a_hundred_times_keeps_nothing(make: Callable[..., CudaDevice]) -> None:
    sizes = {"arena_bytes": 4 * SEGMENT_BYTES, "segment_bytes": SEGMENT_BYTES, "pack_bytes": MIB, "staging_bytes": 4096}
    open_device(PROGRAMS, **sizes).close()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(100):
        device = open_device(PROGRAMS, **sizes)
        device.submit([Map(0, segment(0))])
        device.capture("count", [launch("increment", at(0, 64))])
        device.close()
    assert torch.cuda.mem_get_info()[0] >= free - SEGMENT_BYTES


LOSING = """
import sys
import torch, triton, triton.language as tl
from strata.core.commands import *
from strata.core.errors import DeviceError
from strata.core.events import Failed
from strata.core.extent import Extent
from strata.cuda.open import open_device
from tests.device.gather_kernel import gather_kernel

def astray(memory, args):
    out = memory.write(args)
    out[:8].view(torch.int64).fill_(0x7000_0000_0000)
    gather_kernel[(1,)](out[:8].view(torch.int64), out[8:], 8, BLOCK=1024)

sizes = {"arena_bytes": 1 << 22, "segment_bytes": 1 << 21, "pack_bytes": 1 << 20, "staging_bytes": 4096}
device = open_device({"astray": astray}, **sizes)
device.submit([Map(0, Extent(0, 1 << 21))])
spot = Access(Extent(0, 64), "owner")
stray = Launch(Stream.VERIFIER, "astray", spot.extent, (), (spot,))
device.submit([stray, Notify(Stream.VERIFIER, "never")])
if sys.argv[1] == "by a launch":
    try:
        while True:
            device.submit([stray])
    except DeviceError as error:
        assert error.is_fatal and error.command == stray, error
events = []
while not events:
    events = device.completions()
(event,) = events
assert isinstance(event, Failed) and event.is_fatal and "CUDA_ERROR_ILLEGAL_ADDRESS" in event.message, event
for command in (Fill(Stream.COPY, spot, 1), Map(1, Extent(1 << 21, 1 << 21)), Notify(Stream.COPY, "late")):
    try:
        device.submit([command])
    except DeviceError as error:
        assert "the card is lost" in str(error), error
    else:
        raise SystemExit("a lost card took a command")
assert device.completions()[0].is_fatal
device.close()
print("LOST AS IT SHOULD BE")
"""


@pytest.mark.parametrize("found", ["by completions", "by a launch"])
def test_a_kernel_that_strays_loses_the_card_and_everybody_is_told(found: str) -> None:
    """In a process of its own, since nothing there works afterwards."""
    process = subprocess.run(
        [sys.executable, "-c", LOSING, found], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert "LOST AS IT SHOULD BE" in process.stdout, (process.stdout, process.stderr)
