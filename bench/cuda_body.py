"""The CUDA body against the card: mapping, pinning, copies, what a command costs, and the bits of a round trip.

    python -m bench.cuda_body [--pack-mib 2048]

Times are host times; where work on the card is meant they end with the `Reached` of a `Notify`. Medians, with the
least and the most beside them. Ends with a failure when a byte is wrong.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from strata.core.commands import (
    Access,
    Command,
    Copy,
    CopyPair,
    Digest,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Stream,
    Unmap,
)
from strata.core.errors import DeviceError
from strata.core.events import Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.units import MIB
from strata.cuda.arena import Arena
from strata.cuda.card import Card
from strata.cuda.device import CudaDevice
from strata.cuda.digest import torch_digest
from strata.cuda.driver import Driver, load_api
from strata.cuda.open import open_device
from strata.cuda.pinned import HostMemory
from strata.device import Memory

SEGMENT_BYTES = 64 * MIB
NUM_SEGMENTS = 32
BLOB_BYTES = 2_654_208  # one expert of a 30B-A3B at Q4_K, on the 256 B grid
OWNER = "bench"


def show(what: str, seconds: list[float], *, unit: float = 1e6, name: str = "us") -> None:
    values = sorted(value * unit for value in seconds)
    middle = statistics.median(values)
    print(f"{what:<72} {middle:9.1f} {name}  ({values[0]:.1f} .. {values[-1]:.1f}, n={len(values)})", flush=True)


def timed(work: Callable[..., object], *arguments: object) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def finish(device: CudaDevice, stream: Stream) -> None:
    device.submit([Notify(stream, "bench")])
    waiting: list[Any] = [Reached("bench")]
    while waiting:
        for event in device.completions():
            waiting.remove(event)


def segment(place: int) -> Extent:
    return Extent(place * SEGMENT_BYTES, SEGMENT_BYTES)


def measure_segments(driver: Driver) -> None:
    card = Card(driver, ordinal=0)
    print(f"{card.name}, {card.uuid}, {card.total_bytes:,} B, granularity {card.granularity_bytes:,} B")
    handles: list[Any] = []

    def create() -> None:
        handles.append(driver.call("cuMemCreate", SEGMENT_BYTES, card.allocation_properties(), 0))

    show("cuMemCreate, 64 MiB", [timed(create) for _ in range(16)])
    show("cuMemRelease, 64 MiB", [timed(driver.call, "cuMemRelease", handle) for handle in handles])
    arena = Arena(card, arena_bytes=16 * SEGMENT_BYTES, segment_bytes=SEGMENT_BYTES)
    for turn in ("first", "again"):
        took = [timed(arena.map, i, segment(i)) for i in range(8)]
        show(f"map 64 MiB (cuMemMap + cuMemSetAccess), {turn}", took)
        show(f"unmap 64 MiB, {turn}", [timed(arena.unmap, segment(i)) for i in range(8)])
    for i in range(8):
        arena.map(i, segment(i))

    def away_and_home(i: int) -> None:
        arena.unmap(segment(i))
        arena.map(i, segment(8 + i))
        arena.unmap(segment(8 + i))
        arena.map(i, segment(i))

    show("64 MiB away and home: unmap, map, unmap, map", [timed(away_and_home, i % 8) for i in range(32)])
    arena.close()
    card.close()


def measure_pinning(driver: Driver, size_bytes: int) -> None:
    card = Card(driver, ordinal=0)
    for num_threads in (1, 4, 16):
        start = time.perf_counter()
        memory = HostMemory(driver, "pack", size_bytes, num_threads=num_threads)
        took = time.perf_counter() - start
        gave = timed(memory.close)
        print(
            f"touched with {num_threads} threads, then registered: {size_bytes / took / 1e9:.2f} GB/s ({took:.2f} s; "
            f"given back in {gave:.2f} s); {memory.describe_pinning()}",
            flush=True,
        )
    card.close()


def nothing(memory: Memory, args: Any) -> None:
    pass


def multiply(memory: Memory, args: tuple[Extent, Extent, Extent, int]) -> None:
    """bf16 8192^3, `count` times."""
    left, right, out = (memory.write(e).view(torch.bfloat16).view(8192, 8192) for e in args[:3])
    for _ in range(args[3]):
        torch.mm(left, right, out=out)


def increment(memory: Memory, args: Extent) -> None:
    memory.write(args).add_(1)


def fill_pack(device: CudaDevice, pack_bytes: int) -> torch.Tensor:
    pack = torch.frombuffer(device.host(HostExtent(HostSpace.PACK, 0, pack_bytes)), dtype=torch.uint8)
    pack.view(torch.int64).random_(generator=torch.Generator().manual_seed(1))
    return pack


def copy_in(places: list[tuple[int, int]], size_bytes: int) -> list[Copy]:
    """Groups of 16 from the pack's offset to the arena's."""
    pairs = [
        CopyPair(HostExtent(HostSpace.PACK, source, size_bytes), Access(Extent(target, size_bytes), OWNER))
        for source, target in places
    ]
    return [Copy(Stream.COPY, tuple(pairs[i : i + 16])) for i in range(0, len(pairs), 16)]


def check_round_trip(device: CudaDevice, pack: torch.Tensor) -> None:
    """Pack -> arena -> staging, 256 MiB in pieces, and digests made on the card and on the host."""
    size, piece = 256 * MIB, 32 * MIB
    device.submit(copy_in([(at, at) for at in range(0, size, piece)], piece))
    wrong = 0
    for at in range(0, size, piece):
        staging = HostExtent(HostSpace.STAGING, 0, piece)
        device.submit([Copy(Stream.COPY, (CopyPair(Access(Extent(at, piece), OWNER), staging),))])
        finish(device, Stream.COPY)
        back = torch.frombuffer(device.host(staging), dtype=torch.uint8)
        wrong += int((back != pack[at : at + piece]).sum())
    value = HostExtent(HostSpace.STAGING, 0, 8)
    device.submit([Digest(Stream.COPY, Access(Extent(3, size - 5), OWNER), value)])
    finish(device, Stream.COPY)
    digest = int.from_bytes(bytes(device.host(value)), "little", signed=True)
    expected = int(torch_digest(pack[3 : size - 2]))
    print(f"round trip of {size:,} B through the card: {wrong} bytes differ; digest equal: {digest == expected}")
    if wrong or digest != expected:
        sys.exit("the card gave other bytes back")


def measure_digest(device: CudaDevice) -> None:
    """In torch operations; a kernel of `kernels/` takes its place where boot gives one."""
    size = 1024 * MIB
    command = Digest(Stream.COPY, Access(Extent(0, size), OWNER), HostExtent(HostSpace.STAGING, 0, 8))
    rates = sorted(round(size / timed(run_all, device, [command]) / 1e9) for _ in range(5))
    print(f"digest of {size:,} B in torch operations: {rates} GB/s", flush=True)


def measure_copies(device: CudaDevice, pack_bytes: int, what: str) -> None:
    count = min(pack_bytes, 1536 * MIB) // BLOB_BYTES // 32 * 32
    orders = {
        "neighbours (one DMA a group)": [(i * BLOB_BYTES, i * BLOB_BYTES) for i in range(count)],
        "scattered (16 DMAs a group)": [(i * BLOB_BYTES, (i * 7 % count) * BLOB_BYTES) for i in range(count)],
    }
    for name, places in orders.items():
        commands = copy_in(places, BLOB_BYTES)
        rates = sorted(round(count * BLOB_BYTES / timed(run_all, device, commands) / 1e9, 1) for _ in range(4))
        print(f"{what}: {count} blobs of {BLOB_BYTES:,} B, {name}: {rates} GB/s", flush=True)


def run_all(device: CudaDevice, commands: Sequence[Command]) -> None:
    device.submit(commands)
    finish(device, Stream.COPY)


def measure_commands(device: CudaDevice) -> None:
    small = Access(Extent(0, 256), OWNER)
    launch = Launch(Stream.VERIFIER, "nothing", None, (small,), (small,))
    device.capture("increment", [Launch(Stream.VERIFIER, "increment", small.extent, (), (small,))] * 20)
    scattered = copy_in([(i * 512, i * 1024) for i in range(16)], 256)[0]
    for name, command in {
        "Launch of a program that does nothing": launch,
        "GraphLaunch, 20 nodes": GraphLaunch(Stream.VERIFIER, "increment", 0),
        "Fill, 256 B": Fill(Stream.VERIFIER, small, 1),
        "Copy, one pair": Copy(Stream.COPY, scattered.pairs[:1]),
        "Copy, 16 pairs that do not touch": scattered,
    }.items():
        took = []
        for _ in range(200):
            took.append(timed(device.submit, [command]))
            finish(device, command.stream)
        show(f"submit of {name}", took[20:])
    waits = [timed(finish, device, Stream.VERIFIER) for _ in range(200)]
    show("Notify and completions until it is reached, nothing running", waits)
    show("completions with nothing due", [timed(device.completions) for _ in range(200)])


def measure_mapping_under_load(device: CudaDevice) -> None:
    """Segments 24 to 31 go away and home while the card multiplies; none of them is touched by it."""
    big = [Extent(i * 128 * MIB, 128 * MIB) for i in range(3)]
    writes = tuple(Access(extent, OWNER) for extent in big)
    device.submit([Fill(Stream.PROMPT, access, 0) for access in writes])
    device.submit([Launch(Stream.PROMPT, "multiply", (*big, 1), (), writes)])
    finish(device, Stream.PROMPT)
    took_map, took_unmap = [], []
    start = time.perf_counter()
    device.submit([Launch(Stream.PROMPT, "multiply", (*big, 60), (), writes), Notify(Stream.PROMPT, "done")])
    for i in range(24, 32):
        took_unmap.append(timed(device.submit, [Unmap(segment(i))]))
        took_map.append(timed(device.submit, [Map(i, segment(i))]))
    mapped = time.perf_counter() - start
    while not device.completions():
        pass
    total = time.perf_counter() - start
    show("unmap under a running multiplication", took_unmap)
    show("map under a running multiplication", took_map)
    print(f"all of it was over after {mapped * 1e3:.1f} ms, the multiplication after {total * 1e3:.1f} ms")


def check_stale_graph(device: CudaDevice) -> None:
    """A graph over a segment that is away is refused, and runs with other bytes once it is home."""
    target = Access(Extent(20 * SEGMENT_BYTES, 4096), OWNER)
    device.submit([Fill(Stream.VERIFIER, target, 7)])
    device.capture("home", [Launch(Stream.VERIFIER, "increment", target.extent, (), (target,))])
    finish(device, Stream.VERIFIER)
    device.submit([Unmap(segment(20)), Unmap(segment(21)), Map(20, segment(21))])
    try:
        device.submit([GraphLaunch(Stream.VERIFIER, "home", 0)])
        sys.exit("a stale graph was launched")
    except DeviceError as error:
        print(f"stale: {error}")
    device.submit([Unmap(segment(21)), Map(20, segment(20)), Map(21, segment(21))])
    device.submit([GraphLaunch(Stream.VERIFIER, "home", 0)] * 5)
    staging = HostExtent(HostSpace.STAGING, 0, 4096)
    device.submit([Copy(Stream.VERIFIER, (CopyPair(target, staging),))])
    finish(device, Stream.VERIFIER)
    if bytes(device.host(staging)) != bytes([12]) * 4096:
        sys.exit("a graph over a segment that came home wrote other bytes")
    print("a graph over a segment that went away and came home: right bytes, not captured again")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pack-mib", type=int, default=2048)
    pack_bytes = parser.parse_args().pack_mib * MIB
    driver = Driver(load_api())
    measure_segments(driver)
    measure_pinning(driver, pack_bytes)
    square = torch.zeros(64, 64, dtype=torch.bfloat16, device="cuda")
    torch.mm(square, square)  # so that the library's own memory is there before the first look
    free = torch.cuda.mem_get_info()[0]
    programs = {"nothing": nothing, "multiply": multiply, "increment": increment}
    for what, budget in (("pinned", None), ("pageable", 0)):
        device = open_device(
            programs,
            arena_bytes=NUM_SEGMENTS * SEGMENT_BYTES,
            segment_bytes=SEGMENT_BYTES,
            pack_bytes=pack_bytes,
            staging_bytes=64 * MIB,
            max_pinned_bytes=budget,
        )
        print("\n".join(device.describe_pinning()))
        pack = fill_pack(device, pack_bytes)
        device.seal()
        device.submit([Map(i, segment(i)) for i in range(NUM_SEGMENTS)])
        check_round_trip(device, pack)
        measure_copies(device, pack_bytes, what)
        if budget is None:
            measure_digest(device)
            check_stale_graph(device)
            measure_commands(device)
            measure_mapping_under_load(device)
        show(f"close ({what})", [timed(device.close)], unit=1e3, name="ms")
    torch.cuda.empty_cache()
    print(f"free on the card before and after: {free:,} B, {torch.cuda.mem_get_info()[0]:,} B")


if __name__ == "__main__":
    main()
