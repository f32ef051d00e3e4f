"""The bytes that reach the caller are the file's, and the file leaves nothing behind in the page cache."""

import ctypes
import mmap
import os
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from strata.core.errors import ModelError
from strata.model import pack_reader
from strata.model.architecture import spec_of
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
    os.truncate(path, kept_bytes)
    with pytest.raises(ModelError, match=r"m\.gguf: the file ends at .* became shorter since"):
        read_everything(spec)


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
