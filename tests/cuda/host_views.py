"""`strata.cuda.memory.Views` for the fake card: CPU tensors over its addresses, programs as work of its streams."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from strata.core.extent import Extent
from strata.cuda.digest import torch_digest
from strata.cuda.driver import Driver


@dataclass(frozen=True)
class HostDigest:
    value: torch.Tensor

    @property
    def address(self) -> int:
        return self.value.data_ptr()


class HostViews:
    def __init__(
        self,
        driver: Driver,
        *,
        ordinal: int,
        arena_address: int,
        range_bytes: int,
        pack_address: int,
        pack_bytes: int,
        digest: Callable[[torch.Tensor], torch.Tensor] = torch_digest,
    ) -> None:
        self._fake = driver.api
        self._arena = _tensor_at(arena_address, range_bytes)
        self._pack = _tensor_at(pack_address, pack_bytes)
        self._digest = digest
        self._kept: list[HostDigest] = []

    def arena(self, extent: Extent) -> torch.Tensor:
        return self._arena.narrow(0, extent.offset_bytes, extent.size_bytes)

    def pack(self, *, offset_bytes: int, size_bytes: int) -> torch.Tensor:
        return self._pack.narrow(0, offset_bytes, size_bytes)

    def run(self, stream: Any, work: Callable[[], None]) -> None:
        self._fake.queue(stream, work)

    @contextmanager
    def capture_pool(self) -> Iterator[object]:
        yield object()

    def digest(self, source: Extent, stream: Any) -> HostDigest:
        digest = HostDigest(torch.zeros(1, dtype=torch.int64))
        self.run(stream, lambda: digest.value.copy_(self._digest(self.arena(source)).view(torch.int64)))
        self._kept.append(digest)  # the copy out knows its address alone
        self._fake.torch_bytes[digest.address] = 8
        return digest


def _tensor_at(address: int, size_bytes: int) -> torch.Tensor:
    if not size_bytes:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer((ctypes.c_uint8 * size_bytes).from_address(address), dtype=torch.uint8)
