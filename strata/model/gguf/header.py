"""One GGUF file's header: magic, version, keys, tensor infos.

    magic version | tensor count, key count | keys ... | tensor infos ... | padding | data

Decides what a well-formed header is and where the data section starts; every count, length and type is checked before
it is used. Knows nothing of split sets or of what a key or tensor is for. Source: ggml's docs/gguf.md, versions 2, 3.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

from strata.model.file_identity import FileIdentity
from strata.model.gguf.limits import (
    DEFAULT_ALIGNMENT_BYTES,
    MAX_ALIGNMENT_BYTES,
    MAX_KEY_BYTES,
    MAX_KEYS,
    MAX_STRINGS,
    MAX_TENSORS,
    MAX_TEXT_BYTES,
    quoted,
)
from strata.model.gguf.metadata import FORMATS, Metadata, NumberArray, TextArray, Value, ValueType
from strata.model.gguf.tensor_infos import read_tensor_infos
from strata.model.gguf.wire import HeaderCursor
from strata.model.spec import TensorInfo

MAGIC = b"GGUF"
_SUPPORTED_VERSIONS = (2, 3)
_MIN_KEY_BYTES = 8 + 1 + 4 + 1  # length, one character, type, the smallest value
_MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8  # length, one character, n_dims, one dim, type, offset


@dataclass(frozen=True, slots=True)
class FileHeader:
    """`data_offset_bytes` is where the data section starts; tensors' offsets already count from the file's start.
    `identity` is the file's when it was opened."""

    path: Path
    version: int
    identity: FileIdentity
    alignment_bytes: int
    data_offset_bytes: int
    metadata: Metadata
    tensors: dict[str, TensorInfo]


def read_header(path: Path, descriptor: int, identity: FileIdentity) -> FileHeader:
    """Parses and checks the header of an open file. Raises ModelError naming the key or tensor at fault."""
    cursor = HeaderCursor(path, descriptor, identity.size_bytes)
    version = _read_version(cursor)
    num_tensors, num_keys = _read_counts(cursor)
    metadata = _read_keys(cursor, num_keys)
    alignment_bytes = _alignment(metadata)
    tensors, data_offset_bytes = read_tensor_infos(cursor, num_tensors, alignment_bytes)
    return FileHeader(path, version, identity, alignment_bytes, data_offset_bytes, metadata, tensors)


def _read_version(cursor: HeaderCursor) -> int:
    if cursor.file_bytes < len(MAGIC):
        raise cursor.error(f"is not a GGUF file: it has {cursor.file_bytes:,} B; download or convert the model again")
    magic = cursor.take(4, "the magic")
    if magic == MAGIC[::-1]:
        raise cursor.error("is a big-endian GGUF file; only little-endian files are supported")
    if magic != MAGIC:
        raise cursor.error(f"is not a GGUF file: it starts with {magic!r}, not {MAGIC!r}; convert the model to GGUF")
    version = cursor.u32("the version")
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version > 0xFFFF and swapped <= 0xFFFF:
        raise cursor.error(f"is a big-endian GGUF file (version {swapped}); only little-endian files are supported")
    if version not in _SUPPORTED_VERSIONS:
        raise cursor.error(f"has GGUF version {version}; versions 2 and 3 are supported, convert the model again")
    return version


def _read_counts(cursor: HeaderCursor) -> tuple[int, int]:
    counts = []
    for what, limit, least_bytes in (("tensor", MAX_TENSORS, _MIN_TENSOR_BYTES), ("key", MAX_KEYS, _MIN_KEY_BYTES)):
        count = cursor.u64(f"the {what} count")
        if count > limit:
            raise cursor.error(f"{what} count {count:,} is over the limit of {limit:,}")
        if count * least_bytes > cursor.file_bytes:
            raise cursor.error(
                f"{what} count {count:,} needs {count * least_bytes:,} B, the file has {cursor.file_bytes:,} B"
            )
        counts.append(count)
    return counts[0], counts[1]


def _read_keys(cursor: HeaderCursor, num_keys: int) -> Metadata:
    values: dict[str, Value] = {}
    types: dict[str, ValueType] = {}
    for index in range(num_keys):
        key = cursor.string(f"the name of key {index}", max_bytes=MAX_KEY_BYTES)
        if not key:
            raise cursor.error(f"key {index} has an empty name")
        if key in values:
            raise cursor.error(f"key {quoted(key)} occurs twice")
        types[key] = _value_type(cursor, f"key {quoted(key)}")
        values[key] = _read_value(cursor, types[key], f"key {quoted(key)}")
    return Metadata(cursor.path, values, types)


def _value_type(cursor: HeaderCursor, what: str) -> ValueType:
    number = cursor.u32(f"the type of {what}")
    if number > max(ValueType):
        raise cursor.error(f"{what} has unknown value type {number}; types 0 to {max(ValueType)} are known")
    return ValueType(number)


def _read_value(cursor: HeaderCursor, value_type: ValueType, what: str) -> Value:
    if value_type is ValueType.STRING:
        return cursor.string(what, max_bytes=MAX_TEXT_BYTES)
    if value_type is ValueType.ARRAY:
        return _read_array(cursor, what)
    layout = struct.Struct("<" + FORMATS[value_type])
    raw = cursor.take(layout.size, what)
    if value_type is ValueType.BOOL and raw not in (b"\0", b"\1"):
        raise cursor.error(f"{what} is a bool of value {raw[0]}; 0 and 1 are bools")
    (value,) = layout.unpack(raw)
    assert isinstance(value, int | float)
    return value


def _read_array(cursor: HeaderCursor, what: str) -> Value:
    element_type = _value_type(cursor, f"the elements of {what}")
    count = cursor.u64(f"the length of {what}")
    if element_type is ValueType.ARRAY:
        raise cursor.error(f"{what} is an array of arrays; no model uses one and none is supported")
    if element_type is ValueType.STRING:
        if count > MAX_STRINGS:
            raise cursor.error(f"{what} has {count:,} strings, the limit is {MAX_STRINGS:,}")
        if count * 8 > cursor.file_bytes - cursor.position:
            raise cursor.error(
                f"{what} promises {count:,} strings, the file has {cursor.file_bytes - cursor.position:,} B left"
            )
        return TextArray(cursor.buffer, cursor.walk_strings(count, what))
    size_bytes = count * struct.calcsize("<" + FORMATS[element_type])
    cursor.require(size_bytes, what)
    start = cursor.position
    cursor.position += size_bytes
    if element_type is ValueType.BOOL and cursor.buffer[start : cursor.position].strip(b"\0\1"):
        raise cursor.error(f"{what} holds bools other than 0 and 1")
    return NumberArray(cursor.buffer, start, count, element_type)


def _alignment(metadata: Metadata) -> int:
    key = "general.alignment"
    if key not in metadata:
        return DEFAULT_ALIGNMENT_BYTES
    if metadata.type_of(key) is not ValueType.U32:
        raise metadata.error(key, f"is of type {metadata.type_of(key).name.lower()}, not u32")
    alignment = metadata.integer(key, maximum=2**32 - 1)
    if alignment == 0 or alignment & (alignment - 1) or alignment > MAX_ALIGNMENT_BYTES:
        raise metadata.error(key, f"= {alignment:,} is not a power of two in 1 .. {MAX_ALIGNMENT_BYTES:,}")
    return alignment
