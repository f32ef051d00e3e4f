"""Bytes of a launch as tensors: of the rows that it computes, and of the areas of a workspace."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from strata.core.extent import Extent
from strata.core.programs import MAX_WINDOW_ROWS, PassBuffers
from strata.core.workspace import Workspace, carve_workspace
from strata.cuda.programs.model import CardModel
from strata.device import Memory

MAX_KEPT_CARVES = 256


def is_window(buffers: PassBuffers) -> bool:
    """A window's buffers have room for a few rows, a chunk's for more: with that the arithmetic is chosen, never with
    the rows of one launch, so that a row has the same bits however many come with it."""
    return buffers.max_rows <= MAX_WINDOW_ROWS


def activation(buffers: PassBuffers) -> torch.dtype:
    """Of what goes into a product: windows multiply in f32, chunks in f16 on the tensor cores."""
    return torch.float32 if is_window(buffers) else torch.float16


def first_rows(extent: Extent, rows: int, buffers: PassBuffers) -> Extent:
    """The bytes of the first `rows` of the buffer's max_rows rows: all that a launch of `rows` declares."""
    return extent.part(offset_bytes=0, size_bytes=rows * (extent.size_bytes // buffers.max_rows))


def typed(data: Tensor, dtype: torch.dtype, *shape: int) -> Tensor:
    """The first numbers of a uint8 view, as `shape`."""
    size_bytes = math.prod(shape) * dtype.itemsize
    return (data if data.numel() == size_bytes else data[:size_bytes]).view(dtype).view(shape)


@dataclass(frozen=True, slots=True)
class Areas:
    """The areas of one workspace in the scratch of a pass."""

    memory: Memory
    extents: Mapping[str, Extent]

    def take(self, name: str, dtype: torch.dtype, *shape: int) -> Tensor:
        """What lies there is the last program's; writable. More than the area has is our mistake."""
        extent = self.extents[name]
        assert math.prod(shape) * dtype.itemsize <= extent.size_bytes, (name, dtype, shape, extent)
        return typed(self.memory.write(extent), dtype, *shape)


def areas_of(model: CardModel, memory: Memory, buffers: PassBuffers, kind: str, layer: int | None = None) -> Areas:
    """Those of a program of this kind, in the pass that its buffers belong to. `layer`: whose program it is, where the
    drafter has one like it."""
    work = model.prompt_work
    if is_window(buffers):
        is_draft = model.drafter is not None and layer == model.drafter.layer
        work = model.draft_work if is_draft else model.window_work
    return Areas(memory, _carved(work[kind], buffers.scratch, buffers.max_rows))


@lru_cache(MAX_KEPT_CARVES)
def _carved(workspace: Workspace, scratch: Extent, max_rows: int) -> Mapping[str, Extent]:
    return carve_workspace(workspace, scratch, max_rows=max_rows)
