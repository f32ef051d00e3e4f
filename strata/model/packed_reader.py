"""Reads a model into the form in which a card holds it (`card_form.py`): each matrix is packed on its way in.

    file --preadv--> a piece of PIECE_BYTES or less --device--> packed there --> its places in the targets

A piece is whole rows of a large matrix, or that matrix of several experts: a card's launches cost as much for a small
piece, and hold the interpreter.
Several threads each take one piece at a time, so what is held beside the target is num_threads pieces and what packing
one of them takes. The files are read side by side; what packs are a few dozen operations a piece, which a card does
while the next are read. Knows nothing of where the target lies.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.triton.formats import card_type
from kernels.triton.packing import pack_many, pack_rows
from strata.core.errors import ModelError
from strata.model.card_form import CardForm, CardMatrix
from strata.model.file_identity import shown
from strata.model.gguf.limits import quoted
from strata.model.pack_reader import PackReader
from strata.model.quant_types import QUANT_TYPES
from strata.model.spec import BlobPart, ModelSpec

PIECE_BYTES = 8 * 1024 * 1024
MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a matrix lies in its file form. `name` is for messages."""

    name: str
    path: Path
    offset_bytes: int
    type_id: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one expert's matrix comes from and goes to."""

    source: _Source
    target: memoryview


class PackedReader(AbstractContextManager["PackedReader"]):
    """A context manager over a model's files. What is asked for is read in the background; `drain`, and leaving the
    context, wait for it. Targets must stay alive and untouched until then. `device` packs. Raises ModelError as
    PackReader does, and for a weight that the card's form cannot hold."""

    def __init__(
        self, spec: ModelSpec, form: CardForm, *, device: torch.device, num_threads: int | None = None
    ) -> None:
        self._spec, self._form, self._device = spec, form, device
        self._num_threads = num_threads or min(MAX_THREADS, os.cpu_count() or 1)
        self._reader = PackReader(spec)
        self._threads = ThreadPoolExecutor(self._num_threads)
        self._running: set[Future[None]] = set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.drain()
        finally:
            self._threads.shutdown(cancel_futures=True)
            self._reader.close()

    def drain(self) -> None:
        """Wait until everything that was asked for lies in its target, and hold the files against their headers."""
        self._await_some(at_most=0)
        self._reader.check_unchanged()

    def read_dense(self, name: str, target: memoryview) -> None:
        """The tensor `name` of trunk or drafter in card form, which `target` (bytes, writable) fits exactly; what
        becomes F32 at once."""
        info, matrix = self._spec.tensor(name), self._form.dense[name]
        assert target.nbytes == matrix.size_bytes, (name, target.nbytes, matrix.size_bytes)
        source = _Source(name, info.path, info.offset_bytes, info.type_id)
        if card_type(info.type_id) == matrix.type_id:
            self._read_matrix(source, matrix, target)
            return
        data = self._read(source, info.offset_bytes, info.size_bytes)
        values = gguf.quants.dequantize(data, gguf.GGMLQuantizationType(info.type_id))
        target[:] = values.astype("<f4").tobytes()

    def read_blobs(self, *, layer: int, targets: Sequence[memoryview]) -> None:
        """Gate, up and down of every expert, each as the layer's CardBlob says; bytes between parts become zero. The
        drafter is layer `num_layers`."""
        blob, layout = self._form.blobs[layer], self._spec.blob_of(layer)
        assert blob is not None and layout is not None, f"layer {layer} is dense"
        assert all(target.nbytes == blob.size_bytes for target in targets), (layer, blob.size_bytes)
        end_bytes = 0
        for role, part, matrix in (
            ("gate", layout.gate, blob.gate),
            ("up", layout.up, blob.up),
            ("down", layout.down, blob.down),
        ):
            places = []
            for expert, target in enumerate(targets):
                target[end_bytes : matrix.offset_bytes] = bytes(matrix.offset_bytes - end_bytes)
                source = _part_source(part, expert, f"{role} of expert {expert} of layer {layer}")
                places.append(_Place(source, target[matrix.offset_bytes : matrix.end_bytes]))
            self._read_experts(part, matrix, places)
            end_bytes = matrix.end_bytes

    def _read_experts(self, part: BlobPart, matrix: CardMatrix, places: Sequence[_Place]) -> None:
        if part.size_bytes > PIECE_BYTES:
            for place in places:
                self._read_matrix(place.source, matrix, place.target)
            return
        step = PIECE_BYTES // part.size_bytes
        for first in range(0, len(places), step):
            self._start(self._pack_experts, part.size_bytes, matrix, places[first : first + step])

    def _read_matrix(self, source: _Source, matrix: CardMatrix, target: memoryview) -> None:
        row_bytes = QUANT_TYPES[source.type_id].row_bytes(matrix.columns)
        for first_row, num_rows in _pieces(matrix.rows, row_bytes):
            self._start(self._pack_piece, source, matrix, target, row_bytes, first_row, num_rows)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        self._await_some(at_most=2 * self._num_threads)
        self._running.add(self._threads.submit(work, *arguments))

    def _pack_experts(self, size_bytes: int, matrix: CardMatrix, places: Sequence[_Place]) -> None:
        """By way of pinned memory, which torch keeps and gives again: from other memory the driver would copy once more
        by itself, one thread at a time."""
        data = self._host_bytes(len(places), size_bytes)
        for place, row in zip(places, data.numpy(), strict=True):
            self._reader.read_bytes(place.source.path, place.source.offset_bytes, row.data)
        on_device = data.to(self._device, non_blocking=True)
        try:
            packed = self._pack(places[0].source, on_device, matrix)
        except ModelError:
            for place, one in zip(places, on_device, strict=True):  # to say whose weight it is
                self._pack(place.source, one.unsqueeze(0), matrix)
            raise
        home = self._host_bytes(*packed.shape)
        home.copy_(packed)
        for place, row in zip(places, home.numpy(), strict=True):
            np.frombuffer(place.target, np.uint8)[:] = row  # torch would start a team of threads for each

    def _host_bytes(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.uint8, pin_memory=self._device.type == "cuda")

    def _pack(self, source: _Source, data: Tensor, matrix: CardMatrix) -> Tensor:
        try:
            return pack_many(data, source.type_id, rows=matrix.rows, columns=matrix.columns)
        except ValueError as error:
            raise _unpackable(source, error) from None

    def _pack_piece(
        self, source: _Source, matrix: CardMatrix, target: memoryview, row_bytes: int, first_row: int, num_rows: int
    ) -> None:
        data = self._read(source, source.offset_bytes + first_row * row_bytes, num_rows * row_bytes)
        piece = torch.from_numpy(data).to(self._device)
        whole = torch.from_numpy(np.frombuffer(target, np.uint8))
        sizes = {"rows": matrix.rows, "columns": matrix.columns, "first_row": first_row, "num_rows": num_rows}
        try:
            pack_rows(piece, source.type_id, whole, **sizes)
        except ValueError as error:
            raise _unpackable(source, error) from None

    def _read(self, source: _Source, offset_bytes: int, size_bytes: int) -> NDArray[np.uint8]:
        data = np.empty(size_bytes, np.uint8)
        self._reader.read_bytes(source.path, offset_bytes, data.data)
        return data

    def _await_some(self, *, at_most: int) -> None:
        """Until no more than `at_most` pieces are under way. Raises what one of them raised."""
        while len(self._running) > at_most:
            done, self._running = wait(self._running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()


def _unpackable(source: _Source, error: ValueError) -> ModelError:
    return ModelError(f"{shown(source.path)}: {quoted(source.name)} cannot be packed for a card: {error}")


def _part_source(part: BlobPart, expert: int, name: str) -> _Source:
    path, offset_bytes = part.expert_sources[expert]
    return _Source(name, path, offset_bytes, part.type_id)


def _pieces(num_rows: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """(first row, rows) of at most PIECE_BYTES each, one row at least."""
    step = max(1, PIECE_BYTES // row_bytes)
    for first_row in range(0, num_rows, step):
        yield first_row, min(step, num_rows - first_row)
