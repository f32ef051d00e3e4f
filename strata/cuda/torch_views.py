"""Torch over memory that is not torch's own. The only file of this body that imports torch.

One tensor covers the whole reserved range and one the pinned part of the pack; every view is a narrowing of them.
They are made by address (`__cuda_array_interface__`), without a copy and for good: home addresses never move, and a
segment may come and go under a tensor. Torch's streams are ours by handle, so a program that launches on torch's
current stream (triton does) launches where its command says.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from strata.core.extent import Extent
from strata.cuda.digest import torch_digest
from strata.cuda.driver import Driver
from strata.cuda.errors import CudaFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

REFUSALS = (torch.AcceleratorError, torch.OutOfMemoryError)

DigestProgram = Callable[[torch.Tensor], torch.Tensor]
"""source: uint8 [size_bytes], contiguous, any offset -> its positional digest, int64 or uint64 [1] on the same card,
queued on the current stream."""


@dataclass(frozen=True, slots=True)
class DigestOnCard:
    value: torch.Tensor

    @property
    def address(self) -> int:
        return self.value.data_ptr()


class TorchViews:
    """The first segment must be mapped at the arena's start while this is made: torch asks the driver once which
    card an address belongs to. `pack_bytes` is the pinned part, at `pack_address`."""

    def __init__(
        self,
        driver: Driver,
        *,
        ordinal: int,
        arena_address: int,
        range_bytes: int,
        pack_address: int,
        pack_bytes: int,
        digest: DigestProgram = torch_digest,
    ) -> None:
        self._driver = driver
        self._device = torch.device("cuda", ordinal)
        self._arena = _tensor_at(arena_address, range_bytes, self._device)
        self._pack = _tensor_at(pack_address, pack_bytes, self._device)
        self._digest = digest
        self._streams: dict[int, torch.cuda.ExternalStream] = {}

    def arena(self, extent: Extent) -> torch.Tensor:
        return self._arena.narrow(0, extent.offset_bytes, extent.size_bytes)

    def pack(self, *, offset_bytes: int, size_bytes: int) -> torch.Tensor:
        return self._pack.narrow(0, offset_bytes, size_bytes)

    def run(self, stream: Any, work: Callable[[], None]) -> None:
        try:
            with torch.cuda.stream(self._stream(stream)):
                work()
        except RuntimeError as error:
            # Torch and triton say RuntimeError for a mistake, a refused call and a lost context alike. Asked about
            # the default stream, where nothing runs or is captured, the driver tells of a lost context.
            self._driver.is_done("cuStreamQuery", None)
            if isinstance(error, REFUSALS):
                raise CudaFailure(f"a program was refused: {error}", code=type(error).__name__) from error
            raise

    def capture_pool(self) -> AbstractContextManager[Any]:
        return _pool_in_use()

    def digest(self, source: Extent, stream: Any) -> DigestOnCard:
        values: list[torch.Tensor] = []
        self.run(stream, lambda: values.append(self._digest(self.arena(source))))
        return DigestOnCard(values[0])

    def _stream(self, handle: Any) -> torch.cuda.ExternalStream:
        key = int(handle)
        if key not in self._streams:
            self._streams[key] = torch.cuda.ExternalStream(key, device=self._device)  # type: ignore[no-untyped-call]
        return self._streams[key]


@contextmanager
def _pool_in_use() -> "Iterator[torch.cuda.MemPool]":
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        yield pool


class _BytesAt:
    """Bytes at an address of the card, as the array interface (version 3) describes them."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def _tensor_at(address: int, size_bytes: int, device: torch.device) -> torch.Tensor:
    if size_bytes == 0:
        return torch.empty(0, dtype=torch.uint8, device=device)
    tensor = torch.as_tensor(_BytesAt(address, size_bytes), device=device)
    assert tensor.data_ptr() == address, "torch made a copy"
    return tensor
