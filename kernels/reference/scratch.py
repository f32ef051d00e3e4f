"""Working buffers of the reference ops: what registers and shared memory are to a GPU kernel.

Nothing in here outlives the op that took it: a buffer is named by its purpose, its content is undefined at each
`take`, and no op may find in it what an earlier launch left. In particular it is no place to remember dequantized
weights: every launch reads the bytes again.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

DEFAULT_LIMIT_BYTES = 1 << 30

_Set = TypeVar("_Set")


class Scratch:
    """A bounded set of buffers, one for each (name, shape, dtype), made at the first `take` and kept.

    Shapes of the ops depend on the model and on the block sizes, never on a context's or a prompt's length, so the
    set stops growing after the first pass. Not for use by two threads."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._buffers: dict[tuple[str, tuple[int, ...], torch.dtype], Tensor] = {}
        self._sets: dict[tuple[Callable[..., Any], tuple[int, ...]], Any] = {}

    @property
    def size_bytes(self) -> int:
        """Bytes of all buffers taken so far."""
        return self._size_bytes

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        """A contiguous, 64-byte aligned buffer with undefined content. Two names never share bytes."""
        key = (name, shape, dtype)
        buffer = self._buffers.get(key)
        return self._make(key) if buffer is None else buffer

    def take_set(self, make: Callable[..., _Set], *sizes: int) -> _Set:
        """`make(self, *sizes)`, called once for each of these sizes: buffers that belong together, views of them, and
        constants. For ops that run thousands of times a token: a new view costs as much as what is done with it."""
        found: _Set | None = self._sets.get((make, sizes))
        if found is None:
            found = self._sets[(make, sizes)] = make(self, *sizes)
        return found

    def _make(self, key: tuple[str, tuple[int, ...], torch.dtype]) -> Tensor:
        name, shape, dtype = key
        size_bytes = math.prod(shape) * dtype.itemsize
        assert self._size_bytes + size_bytes <= self._limit_bytes, (name, shape, self._size_bytes, self._limit_bytes)
        buffer = torch.zeros(shape, dtype=dtype)
        assert buffer.data_ptr() % 64 == 0, "torch's CPU allocator aligns to 64 bytes"
        self._size_bytes += size_bytes
        self._buffers[key] = buffer
        return buffer
