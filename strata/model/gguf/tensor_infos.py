"""The tensor infos of one file's header: read, checked, and placed in the file.

Decides what a sound tensor is: a known type, whole blocks, every byte inside the data section, on its alignment and
shared with no other tensor. Knows nothing of what a tensor is for.
"""

import math
from dataclasses import replace

from strata.core.units import align_up
from strata.model.gguf.limits import MAX_DIMS, MAX_TENSOR_NAME_BYTES, quoted
from strata.model.gguf.wire import HeaderCursor
from strata.model.quant_types import QUANT_TYPES, supported_names
from strata.model.spec import TensorInfo


def read_tensor_infos(
    cursor: HeaderCursor, num_tensors: int, alignment_bytes: int
) -> tuple[dict[str, TensorInfo], int]:
    """The tensors by name, in the file's order, with offsets from the file's start; and where the data starts."""
    relative: dict[str, TensorInfo] = {}
    for index in range(num_tensors):
        info = _read_info(cursor, index)
        if info.name in relative:
            raise cursor.error(f"tensor {quoted(info.name)} occurs twice")
        if info.offset_bytes % alignment_bytes:
            raise cursor.error(
                f"tensor {quoted(info.name)} offset {info.offset_bytes:,} is not a multiple of "
                f"general.alignment={alignment_bytes:,}"
            )
        relative[info.name] = info
    data_offset_bytes = align_up(cursor.position, alignment_bytes)
    tensors = {
        name: replace(info, offset_bytes=info.offset_bytes + data_offset_bytes) for name, info in relative.items()
    }
    _check_extents(cursor, tensors, alignment_bytes)
    return tensors, data_offset_bytes


def _read_info(cursor: HeaderCursor, index: int) -> TensorInfo:
    name = cursor.string(f"the name of tensor {index}", max_bytes=MAX_TENSOR_NAME_BYTES)
    if not name:
        raise cursor.error(f"tensor {index} has an empty name")
    what = f"tensor {quoted(name)}"
    num_dims = cursor.u32(f"the number of dimensions of {what}")
    if not 1 <= num_dims <= MAX_DIMS:
        raise cursor.error(f"{what} has {num_dims} dimensions; 1 to {MAX_DIMS} are possible")
    shape = tuple(cursor.u64(f"dimension {dim} of {what}") for dim in range(num_dims))
    type_id = cursor.u32(f"the type of {what}")
    offset_bytes = cursor.u64(f"the offset of {what}")
    return TensorInfo(name, type_id, shape, cursor.path, offset_bytes, _size_bytes(cursor, what, shape, type_id))


def _size_bytes(cursor: HeaderCursor, what: str, shape: tuple[int, ...], type_id: int) -> int:
    if min(shape) < 1:
        raise cursor.error(f"{what} has shape {shape}; every dimension must be at least 1")
    quant = QUANT_TYPES.get(type_id)
    if quant is None:
        raise cursor.error(f"{what} has unknown type number {type_id}; supported are {supported_names()}")
    if shape[0] % quant.block_elements:
        raise cursor.error(
            f"{what} has rows of {shape[0]:,} elements, {quant.name} needs multiples of {quant.block_elements}"
        )
    size_bytes = quant.row_bytes(shape[0]) * math.prod(shape[1:])
    if size_bytes > cursor.file_bytes:
        raise cursor.error(
            f"{what} of shape {shape} and type {quant.name} has {size_bytes:,} B, the file {cursor.file_bytes:,} B"
        )
    return size_bytes


def _check_extents(cursor: HeaderCursor, tensors: dict[str, TensorInfo], alignment_bytes: int) -> None:
    end_bytes, before = 0, ""
    for info in sorted(tensors.values(), key=lambda info: info.offset_bytes):
        if info.offset_bytes < end_bytes:
            raise cursor.error(
                f"tensor {quoted(info.name)} at offset {info.offset_bytes:,} overlaps {quoted(before)}, "
                f"which ends at {end_bytes:,}"
            )
        end_bytes, before = info.offset_bytes + info.size_bytes, info.name
        if end_bytes > cursor.file_bytes:
            raise cursor.error(
                f"is truncated: tensor {quoted(info.name)} ends at {end_bytes:,} B, "
                f"the file has {cursor.file_bytes:,} B"
            )
