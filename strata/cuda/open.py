"""From sizes to a device: card, arena, host memory, streams and views, in this order, all or nothing."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from strata.core.extent import Extent
from strata.cuda.arena import Arena
from strata.cuda.card import Card, CardLimits
from strata.cuda.device import CardParts, CudaDevice
from strata.cuda.driver import Driver, load_api
from strata.cuda.held import Held
from strata.cuda.lock import CardLock
from strata.cuda.memory import Views
from strata.cuda.pinned import BLOCK_BYTES, HostMemory
from strata.cuda.streams import Streams
from strata.device import DeviceDescription, Programs

MAX_TOUCHING_THREADS = 16

MakePrograms = Callable[[DeviceDescription, CardLimits], Programs]
"""Programs that must know where the card is: called once, before the device takes its first command."""

MakeViews = Callable[..., Views]
"""Called as `TorchViews` is, with keywords."""


def open_device(
    programs: Programs | MakePrograms,
    *,
    arena_bytes: int,
    segment_bytes: int,
    pack_bytes: int,
    staging_bytes: int,
    behind_bytes: int = 0,
    parked_bytes: int = 0,
    ordinal: int = 0,
    lock_folder: Path | None = None,
    max_pinned_bytes: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    digest: Callable[[Any], Any] | None = None,
    api: Any = None,
    make_views: MakeViews | None = None,
) -> CudaDevice:
    """A card of `arena_bytes`, whatever more the real one has, and `behind_bytes` of addresses behind them. Takes all
    of its memory now: the arena's segments, and pack, staging and parked memory on the host, of whose pack at most
    `max_pinned_bytes` are pinned. With a `lock_folder` no other process may lend memory of the card meanwhile. `digest`
    replaces the digest in torch operations (`torch_views.DigestProgram`). `api` and `make_views` default to the
    driver's binding and torch.

    Raises ConfigError for what can be changed (sizes, no card, no room on it), CudaFailure for the rest; either way
    everything is given back."""
    driver = Driver(load_api() if api is None else api)
    num_threads = min(MAX_TOUCHING_THREADS, os.cpu_count() or 1)
    with Held() as held:
        card = Card(driver, ordinal=ordinal)
        held.add(card.close)
        if lock_folder is not None:
            held.add(CardLock(card.uuid, folder=lock_folder).close)
        arena = Arena(card, arena_bytes=arena_bytes, segment_bytes=segment_bytes, behind_bytes=behind_bytes)
        held.add(arena.close)
        pack = HostMemory(
            driver,
            "pack",
            pack_bytes,
            num_threads=num_threads,
            max_pinned_bytes=max_pinned_bytes,
            block_bytes=block_bytes,
        )
        held.add(pack.close)
        staging = HostMemory(driver, "staging", staging_bytes, num_threads=num_threads, block_bytes=block_bytes)
        held.add(staging.close)
        parked = HostMemory(driver, "parked", parked_bytes, num_threads=num_threads, block_bytes=block_bytes)
        held.add(parked.close)
        streams = Streams(driver)
        held.add(streams.close)
        views = _open_views(driver, arena, pack, ordinal=ordinal, digest=digest, make_views=make_views)
        description = DeviceDescription(
            name=card.name,
            arena_bytes=arena_bytes,
            segment_bytes=segment_bytes,
            pack_bytes=pack_bytes,
            staging_bytes=staging_bytes,
            arena_address=arena.address,
            pack_address=pack.device_address,
            behind_bytes=behind_bytes,
            parked_bytes=parked_bytes,
            pageable_pack_bytes=pack_bytes - pack.pinned_bytes,
        )
        if callable(programs):
            programs = programs(description, card.limits())
        parts = CardParts(driver, arena, pack, staging, parked, streams, views, held)
    return CudaDevice(description, parts, programs)


def _open_views(
    driver: Driver,
    arena: Arena,
    pack: HostMemory,
    *,
    ordinal: int,
    digest: Callable[[Any], Any] | None,
    make_views: MakeViews | None,
) -> Views:
    """With the first segment mapped at the arena's start, for as long as this takes."""
    if make_views is None:
        from strata.cuda.torch_views import TorchViews

        make_views = TorchViews
    first = Extent(0, arena.segment_bytes)
    arena.map(0, first)
    try:
        options = {} if digest is None else {"digest": digest}
        return make_views(
            driver,
            ordinal=ordinal,
            arena_address=arena.address,
            range_bytes=arena.range_bytes,
            pack_address=pack.device_address,
            pack_bytes=pack.pinned_bytes,
            **options,
        )
    finally:
        arena.unmap(first)
