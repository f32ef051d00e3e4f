"""Dense tensors of a model as programs read them: file bytes in the arena, found by GGUF name at each launch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.reference.dequantize import dequantize
from kernels.reference.linear import linear
from kernels.reference.scratch import Scratch
from strata.core.extent import Extent
from strata.core.programs import PassBuffers
from strata.device import Memory
from strata.model.spec import ModelSpec, TensorInfo


@dataclass(frozen=True, slots=True)
class DenseWeights:
    """`dense[name]` is where the bytes of `spec.dense[name]` lie; the extent may be longer than the tensor."""

    spec: ModelSpec
    dense: Mapping[str, Extent]
    scratch: Scratch

    def has(self, name: str) -> bool:
        return self.spec.has_tensor(name)

    def bytes_of(self, memory: Memory, name: str) -> tuple[Tensor, TensorInfo]:
        """uint8 view of the tensor in file form, and what it is."""
        info = self.spec.tensor(name)
        view: Tensor = memory.read(self.dense[name])[: info.size_bytes]
        return view, info

    def vector(self, memory: Memory, name: str) -> Tensor:
        """f32 [ne0] of a one-dimensional tensor (norms, biases, rope factors); valid during this launch."""
        data, info = self.bytes_of(memory, name)
        purpose = name.split(".", 2)[-1] if name.startswith("blk.") else name  # one buffer for all layers
        out = self.scratch.take(f"weights.{purpose}", (info.shape[0],))
        dequantize(data, info.type_id, out, self.scratch)
        return out

    def matrix(self, memory: Memory, name: str) -> Tensor:
        """f32 [ne1, ne0] of a small two-dimensional tensor that is no projection; valid during this launch."""
        data, info = self.bytes_of(memory, name)
        out = self.scratch.take(f"weights.{name.split('.', 2)[-1]}", (info.shape[1], info.shape[0]))
        dequantize(data, info.type_id, out, self.scratch)
        return out

    def optional_vector(self, memory: Memory, name: str) -> Tensor | None:
        return self.vector(memory, name) if self.has(name) else None

    def project(self, memory: Memory, x: Tensor, stem: str, out: Tensor, *, accumulate: bool = False) -> None:
        """out = x W^T, plus the bias where the model has one. `stem` is a name without `.weight`.

        x: f32 [rows, ne0]; out: f32 [rows, ne1], or [rows, 1] for a vector."""
        data, info = self.bytes_of(memory, f"{stem}.weight")
        assert _as_matrix(info.shape) == (x.shape[1], out.shape[1]), (stem, info.shape, x.shape, out.shape)
        bias = self.optional_vector(memory, f"{stem}.bias")
        linear(x, data, info.type_id, out, self.scratch, bias=bias, accumulate=accumulate)


def first_rows(extent: Extent, rows: int, buffers: PassBuffers) -> Extent:
    """The bytes of the first `rows` of the buffer's max_rows rows: all that a launch of `rows` declares."""
    return extent.part(offset_bytes=0, size_bytes=rows * (extent.size_bytes // buffers.max_rows))


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) > 1 else (*shape, 1)


def floats(data: Tensor, *shape: int) -> Tensor:
    """The first floats of a uint8 view, as `shape`."""
    return data.view(torch.float32)[: math.prod(shape)].view(shape)
