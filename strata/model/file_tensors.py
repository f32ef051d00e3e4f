"""The tensors of one file while a ModelSpec is made of them: each may be taken once, and what nobody took is an error.

Decides that a tensor is what was expected (shape, a type that we compute with); knows nothing of architectures.
"""

import math
from collections.abc import Mapping
from pathlib import Path

from strata.core.errors import ModelError
from strata.model.expected_tensors import Expected
from strata.model.file_identity import shown
from strata.model.gguf.limits import quoted
from strata.model.quant_types import QUANT_TYPES, supported_names
from strata.model.spec import TensorInfo


class FileTensors:
    """`take` removes; `untaken` is what is left."""

    def __init__(self, path: Path, tensors: Mapping[str, TensorInfo]) -> None:
        self.path = path
        self._left = dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def error(self, message: str) -> ModelError:
        return ModelError(f"{shown(self.path)}: {message}")

    def untaken(self) -> tuple[str, ...]:
        return tuple(self._left)

    def refuse_untaken(self, architecture: str) -> None:
        """Raises ModelError for a tensor that nobody took: it would have changed the result."""
        if left := self.untaken():
            more = f" and {len(left) - 1:,} more" if len(left) > 1 else ""
            raise self.error(f"tensor {quoted(left[0])}{more} has no place in architecture {architecture}")

    def take(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        """The tensor, checked. Raises ModelError when it is missing, has another shape, or a type that has no math."""
        info = self._left.pop(name, None)
        if info is None:
            raise self.error(f"tensor {quoted(name)} of shape {shape} is missing")
        if info.shape != shape:
            raise self.error(f"tensor {quoted(name)} has shape {info.shape}, the file's keys ask for {shape}")
        if not QUANT_TYPES[info.type_id].is_supported:
            raise self.error(
                f"tensor {quoted(name)} has type {QUANT_TYPES[info.type_id].name}, which this version cannot compute "
                f"with; supported are {supported_names()}"
            )
        return info

    def take_all(self, expected: Mapping[str, Expected]) -> dict[str, TensorInfo]:
        """Every expected tensor that is there; a required one that is not there raises."""
        return {
            name: self.take(name, tensor.shape)
            for name, tensor in expected.items()
            if tensor.is_required or name in self._left
        }

    def split_rows(self, name: str, parts: Mapping[str, int]) -> None:
        """Replaces matrix or vector `name`, if there, by `parts`: name -> number of rows, in the file's order."""
        info = self._left.pop(name, None)
        if info is None:
            return
        rows, total = info.shape[-1], sum(parts.values())
        if rows != total or len(info.shape) > 2:
            raise self.error(
                f"tensor {quoted(name)} has shape {info.shape}, its parts {dict(parts)} need {total:,} rows"
            )
        if clash := [part for part in parts if part in self._left]:
            raise self.error(f"tensors {quoted(name)} and {quoted(clash[0])} hold the same weights")
        row_bytes = info.size_bytes // rows
        if row_bytes * rows != info.size_bytes:
            raise self.error(f"tensor {quoted(name)} of type {QUANT_TYPES[info.type_id].name} cannot be cut into rows")
        offset_bytes = info.offset_bytes
        for part, num_rows in parts.items():
            shape = (*info.shape[:-1], num_rows)
            size_bytes = math.prod(shape) * info.size_bytes // math.prod(info.shape)
            self._left[part] = TensorInfo(part, info.type_id, shape, info.path, offset_bytes, size_bytes)
            offset_bytes += size_bytes
