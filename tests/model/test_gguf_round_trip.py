"""What is written is what is read: values, types, offsets and bytes, whatever the file holds."""

import math
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.errors import ModelError
from strata.model.architecture import spec_of
from strata.model.gguf.metadata import FORMATS, INTEGER_TYPES, NumberArray, TextArray, ValueType
from strata.model.gguf.model_file import open_model
from strata.model.quant_types import QUANT_TYPES
from tests.fixtures import raw_gguf
from tests.fixtures.models import FAMILIES, write_random_model
from tests.fixtures.raw_gguf import RawGguf, RawTensor, array_of, scalar

MIB = 1024 * 1024
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def values_of(value_type: int) -> st.SearchStrategy[object]:
    """Every value that the wire type can hold."""
    kind = ValueType(value_type)
    if kind is ValueType.STRING:
        return TEXT
    if kind is ValueType.BOOL:
        return st.booleans()
    if kind in INTEGER_TYPES:
        bits = 8 * struct.calcsize(FORMATS[kind])
        is_signed = kind.name.startswith("I")
        return st.integers(-(2 ** (bits - 1)) if is_signed else 0, 2 ** (bits - is_signed) - 1)
    return st.floats(width=32 if kind is ValueType.F32 else 64)


SCALAR_TYPES = st.sampled_from([kind for kind in range(13) if kind != raw_gguf.ARRAY])
SCALARS = SCALAR_TYPES.flatmap(lambda kind: st.tuples(st.just(kind), values_of(kind)))
ARRAYS = SCALAR_TYPES.flatmap(lambda kind: st.tuples(st.just(kind), st.lists(values_of(kind), max_size=6)))


def same(first: object, second: object) -> bool:
    """Equal, where NaN equals itself."""
    if isinstance(first, float) and math.isnan(first):
        return isinstance(second, float) and math.isnan(second)
    return first == second


@pytest.mark.slow
@given(
    scalars=st.dictionaries(st.text("abc.", min_size=1), SCALARS, max_size=5),
    arrays=st.dictionaries(st.text("xyz.", min_size=1).map("array.".__add__), ARRAYS, max_size=4),
    version=st.sampled_from([2, 3]),
)
def test_every_key_reads_back(
    scalars: dict[str, tuple[int, object]],
    arrays: dict[str, tuple[int, list[object]]],
    version: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    raw = RawGguf(version=version)
    for key, (kind, value) in scalars.items():
        raw = raw.with_key(key, scalar(kind, value))
    for key, (kind, values) in arrays.items():
        raw = raw.with_key(key, array_of(kind, values))
    model = open_model(raw.write(tmp_path_factory.getbasetemp() / "keys.gguf"))
    assert model.version == version
    assert list(model.metadata) == ["general.architecture", *scalars, *arrays]
    for key, (_, value) in scalars.items():
        assert same(model.metadata[key], value)
    for key, (kind, values) in arrays.items():
        read = model.metadata[key]
        assert isinstance(read, TextArray if kind == raw_gguf.STRING else NumberArray)
        assert all(map(same, read, values)) and len(read) == len(values)
        assert all(same(read[index], read[index - len(read)]) for index in range(len(read)))
        assert list(map(repr, read[::2])) == list(map(repr, list(read)[::2]))


@pytest.mark.slow
@given(
    rows=st.lists(st.tuples(st.sampled_from(sorted(QUANT_TYPES)), st.integers(1, 2), st.integers(1, 3)), max_size=6),
    alignment=st.sampled_from([1, 8, 32, 256]),
)
def test_every_tensor_is_where_it_was_written(
    rows: list[tuple[int, int, int]], alignment: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tensors, offset = [], 0
    for index, (type_id, num_blocks, num_rows) in enumerate(rows):
        quant = QUANT_TYPES[type_id]
        data = bytes([index + 1]) * (num_blocks * quant.block_bytes * num_rows)
        shape = (num_blocks * quant.block_elements, num_rows)
        tensors.append(RawTensor(f"tensor {index}", shape, type_id, offset, data))
        offset += -(-len(data) // alignment) * alignment
    raw = replace(RawGguf(), tensors=tuple(tensors), alignment=alignment)
    raw = raw.with_key("general.alignment", scalar(raw_gguf.U32, alignment))
    path = raw.write(tmp_path_factory.getbasetemp() / "tensors.gguf")
    content = path.read_bytes()
    read = open_model(path).tensors
    assert list(read) == [tensor.name for tensor in tensors]
    for tensor in tensors:
        info = read[str(tensor.name)]
        assert (info.shape, info.type_id, info.path) == (tensor.shape, tensor.type_id, path)
        assert content[info.offset_bytes : info.offset_bytes + info.size_bytes] == tensor.data


@pytest.mark.parametrize("family", FAMILIES)
def test_gguf_py_reads_the_same(family: str, tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "model.gguf", arch=family, quant="Q8_0")
    model, theirs = open_model(path), gguf.GGUFReader(path)
    assert [(info.name, info.type_id, info.shape) for info in model.tensors.values()] == [
        (tensor.name, int(tensor.tensor_type), tuple(map(int, tensor.shape))) for tensor in theirs.tensors
    ]
    assert [info.offset_bytes for info in model.tensors.values()] == [tensor.data_offset for tensor in theirs.tensors]
    for key, value in model.metadata.items():
        read = list(value) if isinstance(value, TextArray | NumberArray) else value
        assert read == theirs.fields[key].contents()


@pytest.fixture(scope="module")
def valid_files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("valid")
    sizes: dict[str, Any] = {"hidden": 32, "ffn": 32, "heads": 2, "kv_heads": 1, "layers": 1, "vocab": 264}
    paths = [write_random_model(folder / f"{family}.gguf", arch=family, **sizes) for family in FAMILIES]
    return [path.read_bytes() for path in paths]


EXTREMES = st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1])
PATCHES = st.integers(0, 255).map(lambda byte: bytes([byte])) | EXTREMES.map(lambda word: struct.pack("<Q", word))


def data_offset(content: bytes) -> int:
    """Where the tensor data of a valid file starts, roughly: mutations before it hit the header."""
    return content.rindex(b"output.weight") + 64


@pytest.mark.slow
@given(data=st.data())
def test_a_mutated_file_is_refused_or_read_and_never_breaks_anything(
    data: st.DataObject, valid_files: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(data.draw(st.sampled_from(valid_files), label="file"))
    header_bytes = data_offset(bytes(content))
    for _ in range(data.draw(st.integers(0, 4), label="num_mutations")):
        position = data.draw(st.integers(0, header_bytes), label="position")
        patch = data.draw(PATCHES, label="patch")
        content[position : position + len(patch)] = patch
    if data.draw(st.booleans(), label="is_truncated"):
        del content[data.draw(st.integers(0, len(content)), label="length") :]
    path = tmp_path_factory.getbasetemp() / "mutated.gguf"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        spec, reason = spec_of(open_model(path)), None
    except ModelError as error:
        spec, reason = None, str(error)
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    if spec is None:
        assert reason is not None and str(path) in reason
    else:
        assert all(info.offset_bytes + info.size_bytes <= len(content) for info in spec.dense.values())
    assert peak_bytes < 8 * MIB


@pytest.mark.slow
def test_every_truncation_of_a_header_is_refused(valid_files: list[bytes], tmp_path: Path) -> None:
    content = valid_files[1]
    path = tmp_path / "short.gguf"
    for length in range(0, data_offset(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(ModelError, match=r"short\.gguf"):
            open_model(path)
