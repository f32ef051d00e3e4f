"""How fast a card is, through the body that would serve on it: its link, by copies from pinned host memory, and its own
memory, by copies inside the arena. A small arena for a moment; whatever fails is told as a sentence."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strata.core.commands import Access, Command, Copy, CopyPair, Launch, Map, Notify, Stream
from strata.core.errors import ConfigError, DeviceError
from strata.core.events import Failed
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.units import MIB
from strata.cuda.card import Card
from strata.cuda.device import CudaDevice
from strata.cuda.driver import Driver, load_api
from strata.cuda.open import MakeViews, open_device
from strata.device import Memory

ROUNDS = 5
PAUSE_S = 2e-4
LOADS, MIRRORS = 4, 64
"""Of one round, so many that a pause of the host is little beside them."""
MIRROR = "mirror"


@dataclass(frozen=True, slots=True)
class CardSpeed:
    """Measured through the body of the device itself. `pinned_bytes` of `asked_bytes` were pinned for it."""

    free_bytes: int
    asked_bytes: int
    pinned_bytes: int
    link_gb_s: float
    hbm_gb_s: float


@dataclass(frozen=True, slots=True)
class _MirrorArgs:
    source: Extent
    target: Extent


def measure_card(
    ordinal: int,
    *,
    block_bytes: int = 256 * MIB,
    segment_bytes: int = 2 * MIB,
    api: Any = None,
    make_views: MakeViews | None = None,
) -> CardSpeed | str:
    """The best of ROUNDS of each, of blocks of `block_bytes`; or why it could not be measured."""
    try:
        api = load_api() if api is None else api
        free_bytes = _free_bytes(api, ordinal)
        device = open_device(
            {MIRROR: _mirror},
            arena_bytes=2 * block_bytes,
            segment_bytes=segment_bytes,
            pack_bytes=block_bytes,
            staging_bytes=4096,
            ordinal=ordinal,
            api=api,
            make_views=make_views,
        )
        try:
            return _measure(device, free_bytes, block_bytes)
        finally:
            device.close()
    except (ConfigError, DeviceError, ImportError) as error:
        return str(error)


def _measure(device: CudaDevice, free_bytes: int, block_bytes: int) -> CardSpeed:
    first, second = Extent(0, block_bytes), Extent(block_bytes, block_bytes)
    segment_bytes = device.describe().segment_bytes
    device.seal()
    device.submit([Map(i, Extent(i * segment_bytes, segment_bytes)) for i in range(2 * block_bytes // segment_bytes)])
    load = Copy(Stream.COPY, (CopyPair(HostExtent(HostSpace.PACK, 0, block_bytes), Access(first, "")),))
    arguments: Any = _MirrorArgs(first, second)
    mirror = Launch(Stream.PROMPT, MIRROR, arguments, reads=(Access(first, ""),), writes=(Access(second, ""),))
    link_s = min(_time(device, load, times=LOADS) for _ in range(ROUNDS)) / LOADS
    memory_s = min(_time(device, mirror, times=MIRRORS) for _ in range(ROUNDS)) / MIRRORS
    return CardSpeed(
        free_bytes=free_bytes,
        asked_bytes=block_bytes,
        pinned_bytes=device.pinned_pack_bytes,
        link_gb_s=block_bytes / link_s / 1e9,
        hbm_gb_s=2 * block_bytes / memory_s / 1e9,  # read and written
    )


def _mirror(memory: Memory, args: _MirrorArgs) -> None:
    memory.write(args.target).copy_(memory.read(args.source))


def _time(device: CudaDevice, command: Copy | Launch, *, times: int) -> float:
    """Seconds from submission, of the command so many times, to the notice behind it."""
    start = time.perf_counter()
    commands: Sequence[Command] = (*(command for _ in range(times)), Notify(command.stream, "done"))
    device.submit(commands)
    while not (events := device.completions()):
        time.sleep(PAUSE_S)
    for event in events:
        if isinstance(event, Failed):
            raise DeviceError(event.message, event.command)
    return time.perf_counter() - start


def _free_bytes(api: Any, ordinal: int) -> int:
    card = Card(Driver(api), ordinal=ordinal)
    try:
        return card.free_bytes()
    finally:
        card.close()
