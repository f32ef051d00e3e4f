"""Opens a model: one GGUF file, or all shards of a split set, and nothing of their tensor data.

Decides what "the model at this path" is and that its shards agree; knows nothing of architectures. A shard set is
found from any shard or from its folder.
"""

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from strata.core.errors import ModelError
from strata.model.file_identity import (
    FileIdentity,
    check_unchanged,
    identity_of,
    mode_of,
    open_model_file,
    reason_of,
    shown,
)
from strata.model.gguf.header import MAGIC, FileHeader, read_header
from strata.model.gguf.limits import MAX_TENSORS, quoted
from strata.model.gguf.metadata import Metadata
from strata.model.gguf.shard_names import ShardName, choose_in_folder, shard_name
from strata.model.gguf.vocabulary import check_vocabulary
from strata.model.spec import TensorInfo

_COUNT, _NUMBER, _TENSORS = "split.count", "split.no", "split.tensors.count"


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a model; `data_offset_bytes` is where its tensor data starts."""

    path: Path
    identity: FileIdentity
    data_offset_bytes: int
    num_tensors: int

    @property
    def size_bytes(self) -> int:
        return self.identity.size_bytes


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model on disk. `metadata` is the first shard's, `tensors` are all shards', in file order, by name."""

    metadata: Metadata
    tensors: dict[str, TensorInfo]
    shards: tuple[Shard, ...]
    version: int

    @property
    def path(self) -> Path:
        return self.shards[0].path

    @property
    def total_bytes(self) -> int:
        """Of all files."""
        return sum(shard.size_bytes for shard in self.shards)

    @property
    def identities(self) -> dict[Path, FileIdentity]:
        """Of every file, as its header was read: whoever opens one again compares."""
        return {shard.path: shard.identity for shard in self.shards}


def open_model(path: str | os.PathLike[str]) -> ModelFile:
    """Reads and checks the headers of the model at `path`: a file, any shard of a set, or a folder with one model.

    Raises ModelError naming the file and the key or tensor at fault. Holds nothing open afterwards. Reads at most
    20 MiB a file; memory stays under 50 MiB whatever the file says."""
    given = Path(path)
    if stat.S_ISDIR(mode_of(given)):
        given = choose_in_folder(given)
    name = shard_name(given)
    headers = [_open_header(given)]
    if not _is_whole(headers[0], name):
        headers.clear()  # One header in memory at a time; this one is read again in its turn.
        headers = _open_set(given, name)
    tensors = _merged(headers)
    metadata = headers[0].metadata
    metadata.text("general.architecture")
    check_vocabulary(metadata)
    shards = tuple(
        Shard(header.path, header.identity, header.data_offset_bytes, len(header.tensors)) for header in headers
    )
    return ModelFile(metadata, tensors, shards, headers[0].version)


def _open_header(path: Path) -> FileHeader:
    descriptor, identity = open_model_file(path)
    try:
        header = read_header(path, descriptor, identity)
        _check_no_second_model(header, descriptor)
        # A header that was written to while it was read may be half of each.
        check_unchanged(path, was=identity, now=identity_of(path, descriptor))
        return header
    finally:
        os.close(descriptor)


def _check_no_second_model(header: FileHeader, descriptor: int) -> None:
    """Refuses files joined by plain concatenation: a second magic where the first one's data ends."""
    end = max((info.offset_bytes + info.size_bytes for info in header.tensors.values()), default=0)
    for offset in {end, -(-end // header.alignment_bytes) * header.alignment_bytes}:
        if end and _magic_at(header.path, descriptor, offset) == MAGIC:
            raise ModelError(
                f"{shown(header.path)}: another GGUF file starts at offset {offset:,}, after this one's last tensor; "
                "shards cannot be joined by concatenation, keep them apart"
            )


def _magic_at(path: Path, descriptor: int, offset_bytes: int) -> bytes:
    try:
        return os.pread(descriptor, len(MAGIC), offset_bytes)
    except OSError as error:
        raise ModelError(f"{shown(path)}: cannot read at offset {offset_bytes:,}: {reason_of(error)}") from None


def _is_whole(header: FileHeader, name: ShardName | None) -> bool:
    count = header.metadata.integer(_COUNT, 1, minimum=0, maximum=65_535)
    if name is None:
        if count > 1:
            raise ModelError(
                f"{shown(header.path)}: key '{_COUNT}' = {count:,}, so this is a shard, but its name does not end in "
                f"-00001-of-{count:05d}.gguf: give the shards their names back"
            )
        return True
    if name.count != max(count, 1):
        raise ModelError(f"{shown(header.path)}: key '{_COUNT}' = {count:,}, but the name says {name.count:,} shards")
    return name.count == 1


def _open_set(given: Path, name: ShardName | None) -> list[FileHeader]:
    assert name is not None
    paths = name.paths()
    missing = [path for path in paths if not stat.S_ISREG(mode_of(path))]
    if missing:
        raise ModelError(
            f"{shown(given)}: {len(missing):,} of {name.count:,} shards are missing: "
            + ", ".join(shown(path.name) for path in missing[:3])
            + (" ..." if len(missing) > 3 else "")
        )
    headers: list[FileHeader] = []
    for index, path in enumerate(paths):
        header = _open_header(path)
        first = headers[0] if headers else header
        _check_shard(header, index=index, count=name.count, first=first)
        headers.append(replace(header, metadata=first.metadata))  # The keys of later shards are done with.
    total = headers[0].metadata.integer(_TENSORS)
    held = sum(len(header.tensors) for header in headers)
    if held != total:
        raise ModelError(
            f"{shown(paths[0])}: key '{_TENSORS}' = {total:,}, but the {name.count} shards hold {held:,} tensors"
        )
    return headers


def _check_shard(header: FileHeader, *, index: int, count: int, first: FileHeader) -> None:
    """Shards are numbered from 1 in names and from 0 inside; what later shards repeat of the first must agree."""
    metadata = header.metadata
    number = metadata.integer(_NUMBER, maximum=65_535)
    if number != index:
        raise metadata.error(_NUMBER, f"= {number:,} in a file whose name says {index + 1:,} (so {index:,} inside)")
    if (said := metadata.integer(_COUNT, maximum=65_535)) != count:
        raise metadata.error(_COUNT, f"= {said:,}, but the name says {count:,} shards")
    for key in (_TENSORS, "general.architecture", "general.name", "general.alignment"):
        if key in metadata and (ours := metadata[key]) != (firsts := first.metadata.get(key)):
            raise metadata.error(
                key, f"= {quoted(str(ours))}, the first shard says {quoted(str(firsts))}: mixed models"
            )


def _merged(headers: list[FileHeader]) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for header in headers:
        for info in header.tensors.values():
            if info.name in tensors:
                raise ModelError(
                    f"{shown(header.path)}: tensor {quoted(info.name)} is also in shard "
                    f"{shown(tensors[info.name].path.name)}"
                )
            tensors[info.name] = info
        if len(tensors) > MAX_TENSORS:
            raise ModelError(f"{shown(header.path)}: the shards hold more than {MAX_TENSORS:,} tensors")
    return tensors
