"""The bytes that reach the caller are the file's, and the file leaves nothing behind in the page cache."""

import ctypes
import mmap
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from strata.core.errors import ModelError
from strata.model import pack_reader
from strata.model.architecture import spec_of
from strata.model.file_identity import FileIdentity
from strata.model.gguf import model_file
from strata.model.gguf.header import FileHeader, read_header
from strata.model.gguf.model_file import open_model
from strata.model.pack_reader import PackReader
from strata.model.spec import ModelSpec
from tests.fixtures.models import write_random_model

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]


def resident_pages(path: Path) -> int:
    """Pages of the file in the kernel's cache; mapping a file and asking brings none in."""
    size_bytes = path.stat().st_size
    num_pages = -(-size_bytes // mmap.PAGESIZE)
    with path.open("rb") as file:
        address = LIBC.mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    flags = (ctypes.c_ubyte * num_pages)()
    result = LIBC.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes), flags)
    LIBC.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes))
    assert result == 0, os.strerror(ctypes.get_errno())
    return sum(flag & 1 for flag in flags)


def drop_from_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())  # Dirty pages cannot be dropped.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if resident_pages(path):
        pytest.skip("this file system keeps its files in memory")


def read_everything(spec: ModelSpec) -> dict[str, bytes]:
    """All dense tensors and blobs, into memory that was not zero before."""
    read = {}
    with PackReader(spec) as reader:
        for name, info in spec.dense.items():
            target = bytearray(b"\xaa" * info.size_bytes)
            reader.read_dense(name, memoryview(target))
            read[name] = bytes(target)
        for layer, blob in enumerate(spec.blobs):
            for expert in range(spec.num_experts if blob else 0):
                assert blob is not None
                target = bytearray(b"\xaa" * blob.size_bytes)
                reader.read_blob(layer=layer, expert=expert, target=memoryview(target))
                read[f"blob {layer} {expert}"] = bytes(target)
    return read


OLD_NS = 1_600_000_000_000_000_000
"""When the files of `old_model` were last written to: long enough ago that every write since shows in the time."""


def old_model(folder: Path) -> ModelSpec:
    """A model of two shards and what its headers say."""
    first = write_random_model(folder / "m.gguf", splits=2)
    for shard in first.parent.glob("m-*.gguf"):
        os.utime(shard, ns=(OLD_NS, OLD_NS))
    return spec_of(open_model(first))


def read_around(spec: ModelSpec, change: Callable[[], None]) -> None:
    """The first dense tensor in the order of the files, then `change`, then the last one."""
    first, *_, last = sorted(spec.dense.values(), key=lambda info: (info.path, info.offset_bytes))
    with PackReader(spec) as reader:
        reader.read_tensor(first, memoryview(bytearray(first.size_bytes)))
        change()
        reader.read_tensor(last, memoryview(bytearray(last.size_bytes)))


@pytest.mark.slow
@given(
    quants=st.tuples(*[st.sampled_from(["F32", "F16", "Q4_0", "Q5_1", "Q8_0"])] * 3),
    ffn=st.sampled_from([32, 33]),
    is_old=st.booleans(),
    block_bytes=st.integers(700, 5_000),
)
@example(quants=("Q4_0", "Q5_1", "F32"), ffn=33, is_old=False, block_bytes=4_096)
@settings(max_examples=40)
def test_every_byte_is_what_gguf_py_sees(
    quants: tuple[str, str, str], ffn: int, is_old: bool, block_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With 33 rows the parts do not follow each other at once, and the bytes between them are zero."""
    assume(ffn % 32 == 0 or quants[2] in ("F32", "F16"))
    folder = tmp_path_factory.getbasetemp()
    sizes: dict[str, Any] = {
        "layers": 1,
        "hidden": 32,
        "ffn": ffn,
        "heads": 1,
        "kv_heads": 1,
        "vocab": 259,
        "experts": 3,
    }
    path = write_random_model(folder / "merged.gguf", expert_quants=quants, **sizes)
    theirs = {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}
    path = write_random_model(folder / "read.gguf", expert_quants=quants, per_expert_tensors=is_old, **sizes)
    spec = spec_of(open_model(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack_reader, "BLOCK_BYTES", block_bytes)
        read = read_everything(spec)
    for name in spec.dense:
        assert read[name] == theirs[name].tobytes()
    blob = spec.blobs[0]
    assert blob is not None
    for expert in range(3):
        expected = bytearray(blob.size_bytes)
        for role, part in (("gate", blob.gate), ("up", blob.up), ("down", blob.down)):
            matrix = theirs[f"blk.0.ffn_{role}_exps.weight"][expert].tobytes()
            expected[part.offset_bytes : part.offset_bytes + part.size_bytes] = matrix
        assert read[f"blob 0 {expert}"] == expected


@pytest.mark.slow
def test_reading_leaves_no_page_in_the_cache(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.gguf", hidden=256, ffn=512, layers=2, quant="F16")
    drop_from_cache(path)
    path.read_bytes()
    num_pages = -(-path.stat().st_size // mmap.PAGESIZE)
    assert resident_pages(path) == num_pages > 1_000
    spec = spec_of(open_model(path))
    read_everything(spec)
    assert resident_pages(path) == 0


@pytest.mark.slow
def test_pages_are_dropped_while_reading_and_not_only_at_the_end(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.gguf", hidden=256, ffn=512, layers=2, quant="F16")
    drop_from_cache(path)
    spec = spec_of(open_model(path))
    header_pages = resident_pages(path)
    blob = spec.blobs[1]
    assert blob is not None
    target = memoryview(bytearray(blob.size_bytes))
    with PackReader(spec) as reader:
        for expert in range(spec.num_experts):
            reader.read_blob(layer=1, expert=expert, target=target)
            assert resident_pages(path) <= header_pages


@pytest.mark.parametrize("kept_bytes", [0, 100_000])
def test_a_file_that_became_shorter_is_an_error_not_a_signal(kept_bytes: int, tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.gguf")
    spec = spec_of(open_model(path))
    whole_bytes = path.stat().st_size
    with pytest.raises(ModelError, match=r"m\.gguf: the file ends at .* became shorter since"):
        read_around(spec, partial(os.truncate, path, kept_bytes))
    with pytest.raises(ModelError, match=rf"m\.gguf: .* it had {whole_bytes:,} B, it has {kept_bytes:,} B now; start"):
        read_everything(spec)


def same_shard_of_another_model(path: Path) -> Path:
    write_random_model(path.parent / "other" / "m.gguf", splits=2, seed=1)
    return path.parent / "other" / path.name


def renamed_over(path: Path) -> None:
    os.replace(same_shard_of_another_model(path), path)
    os.utime(path, ns=(OLD_NS, OLD_NS))


def written_in_place(path: Path) -> None:
    content = same_shard_of_another_model(path).read_bytes()
    with path.open("r+b") as file:
        file.write(content)


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")
    os.utime(path, ns=(OLD_NS, OLD_NS))


def linked_to_another(path: Path) -> None:
    path.rename(path.with_name("original"))
    path.symlink_to(same_shard_of_another_model(path))
    os.utime(path, ns=(OLD_NS, OLD_NS))


def made_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def made_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (renamed_over, "another file lies at this path now"),
        (linked_to_another, "another file lies at this path now"),
        (written_in_place, "B were written to"),
        (grown, "it has .* B now"),
        (made_a_pipe, "is not a regular file"),
        (made_a_folder, "is not a regular file"),
    ],
)
@pytest.mark.parametrize("shard", ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"])
def test_weights_of_another_file_than_the_headers_are_refused(
    change: Callable[[Path], None], reason: str, shard: str, tmp_path: Path
) -> None:
    """Size and time are equal where the change does not need another one, so each part of the identity counts."""
    spec = old_model(tmp_path)
    change(tmp_path / shard)
    with pytest.raises(ModelError, match=reason) as caught:
        read_everything(spec)
    assert shard in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_refused_file_is_closed(tmp_path: Path) -> None:
    spec = old_model(tmp_path)
    for shard in spec.identities:
        written_in_place(shard)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ModelError):
        read_everything(spec)
    made_a_pipe(next(iter(spec.identities)))
    with pytest.raises(ModelError):
        read_everything(spec)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_written_to_while_it_is_read_is_refused_at_the_end(tmp_path: Path) -> None:
    spec = old_model(tmp_path)
    with pytest.raises(ModelError, match=r"00001-of-00002\.gguf: .* B were written to"):
        read_around(spec, partial(written_in_place, tmp_path / "m-00001-of-00002.gguf"))


def test_an_error_of_the_reader_is_not_hidden_by_a_change(tmp_path: Path) -> None:
    spec = old_model(tmp_path)

    def change_and_fail() -> None:
        written_in_place(tmp_path / "m-00001-of-00002.gguf")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read_around(spec, change_and_fail)


def test_a_header_written_to_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_and_grow(path: Path, descriptor: int, identity: FileIdentity) -> FileHeader:
        header = read_header(path, descriptor, identity)
        grown(path)
        return header

    path = write_random_model(tmp_path / "m.gguf")
    monkeypatch.setattr(model_file, "read_header", read_and_grow)
    with pytest.raises(ModelError, match=r"m\.gguf: the file changed since its header was read"):
        open_model(path)


def test_reading_and_another_name_leave_a_file_what_it_was(tmp_path: Path) -> None:
    spec = old_model(tmp_path)
    first = next(iter(spec.identities))
    first.read_bytes()
    first.with_name("second name").hardlink_to(first)
    first.chmod(0o400)
    assert read_everything(spec) == read_everything(spec)


def test_a_file_that_went_away_is_an_error(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.gguf")
    spec = spec_of(open_model(path))
    path.unlink()
    with pytest.raises(ModelError, match=r"m\.gguf: cannot open the model file: No such file"):
        read_everything(spec)


def test_a_target_of_another_size_is_our_mistake(tmp_path: Path) -> None:
    spec = spec_of(open_model(write_random_model(tmp_path / "m.gguf")))
    blob = spec.blobs[0]
    assert blob is not None
    with PackReader(spec) as reader, pytest.raises(AssertionError):
        reader.read_blob(layer=0, expert=0, target=memoryview(bytearray(blob.size_bytes + 1)))


def test_closing_closes_every_shard(tmp_path: Path) -> None:
    spec = spec_of(open_model(write_random_model(tmp_path / "m.gguf", splits=3)))
    before = len(os.listdir("/proc/self/fd"))
    reader = PackReader(spec)
    for name, info in spec.dense.items():
        reader.read_dense(name, memoryview(bytearray(info.size_bytes)))
    assert len(os.listdir("/proc/self/fd")) == before + 3
    reader.close()
    reader.close()
    assert len(os.listdir("/proc/self/fd")) == before
