"""Reads the bytes of a model into memory that the caller owns.

Decides how the file is read: `preadv` straight into the target in blocks, no buffer of our own, no readahead, and the
pages of the file given back to the kernel at once. While a model larger than half the machine's memory is copied, the
host thus holds one copy of it, not two. Holds every file against the one whose header was read, when it is opened and
once more when the reading is over: weights of another file are never served. Knows nothing of where the target lies.
"""

import os
from pathlib import Path
from threading import Lock
from types import TracebackType

from strata.core.errors import ModelError
from strata.model.file_identity import check_unchanged, identity_of, open_model_file, reason_of, shown
from strata.model.spec import BlobPart, ModelSpec, TensorInfo

BLOCK_BYTES = 8 * 1024 * 1024
"""At most this much of a file is in the page cache on our account."""

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class PackReader:
    """Open files of one model; a context manager. Raises ModelError naming the file that cannot be opened or read, or
    that is not what it was when its header was read; on leaving the context too, for a change under way."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._descriptors: dict[Path, int] = {}
        self._opening = Lock()

    def __enter__(self) -> "PackReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.check_unchanged()
        finally:
            self.close()

    def check_unchanged(self) -> None:
        """Raises ModelError when a file was written to since its header was read, as far as its time of modification
        and its size tell."""
        for path, descriptor in self._descriptors.items():
            check_unchanged(path, was=self._spec.identities[path], now=identity_of(path, descriptor))

    def close(self) -> None:
        """May be called twice."""
        while self._descriptors:
            _, descriptor = self._descriptors.popitem()
            # Pages that were cached before we came may lie in folios larger than any range that we dropped.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)

    def read_dense(self, name: str, target: memoryview) -> None:
        """All bytes of the dense tensor `name`, of trunk or drafter, which `target` (bytes, writable) fits exactly."""
        info = self._spec.tensor(name)
        assert target.nbytes == info.size_bytes, (name, target.nbytes, info.size_bytes)
        self.read_tensor(info, target)

    def read_tensor(self, info: TensorInfo, target: memoryview) -> None:
        """All bytes of a tensor of this model."""
        assert target.nbytes == info.size_bytes, (info.name, target.nbytes, info.size_bytes)
        self.read_bytes(info.path, info.offset_bytes, target)

    def read_blob(self, *, layer: int, expert: int, target: memoryview) -> None:
        """Gate, up and down of one expert as its layer's BlobLayout says; bytes between parts become zero, so that a
        blob has one content. The drafter is layer `num_layers`."""
        blob = self._spec.blob_of(layer)
        assert blob is not None, f"layer {layer} is dense"
        assert target.nbytes == blob.size_bytes, (layer, target.nbytes, blob.size_bytes)
        end_bytes = 0
        for part in (blob.gate, blob.up, blob.down):
            target[end_bytes : part.offset_bytes] = bytes(part.offset_bytes - end_bytes)
            end_bytes = part.offset_bytes + part.size_bytes
            self._read_part(part, expert, target[part.offset_bytes : end_bytes])

    def _read_part(self, part: BlobPart, expert: int, target: memoryview) -> None:
        path, offset_bytes = part.expert_sources[expert]
        self.read_bytes(path, offset_bytes, target)

    def read_bytes(self, path: Path, offset_bytes: int, target: memoryview) -> None:
        """Bytes of one of the model's files, as many as `target` has. Any number of threads may read at once."""
        assert target.itemsize == 1, target.format
        descriptor = self._descriptor(path)
        done = 0
        while done < target.nbytes:
            start = offset_bytes + done
            try:
                count = os.preadv(descriptor, [target[done : done + BLOCK_BYTES]], start)
            except OSError as error:
                raise ModelError(f"{shown(path)}: cannot read at offset {start:,}: {reason_of(error)}") from None
            if count == 0:
                raise ModelError(
                    f"{shown(path)}: the file ends at {start:,} B; it became shorter since its header was read"
                )
            done += count
            _drop_pages(descriptor, start, count)

    def _descriptor(self, path: Path) -> int:
        with self._opening:
            if path not in self._descriptors:
                descriptor, identity = open_model_file(path)
                self._descriptors[path] = descriptor
                check_unchanged(path, was=self._spec.identities[path], now=identity)
            return self._descriptors[path]


def _drop_pages(descriptor: int, offset_bytes: int, size_bytes: int) -> None:
    """The kernel keeps pages that a range covers in part, so the range grows to whole pages."""
    start = offset_bytes // _PAGE_BYTES * _PAGE_BYTES
    end = -(-(offset_bytes + size_bytes) // _PAGE_BYTES) * _PAGE_BYTES
    os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)
