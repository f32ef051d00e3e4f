"""Weights in file form to float32, bit for bit as `gguf.quants.dequantize` gives them.

Common types are in-place torch expressions on working buffers (`dequantize_32`, `dequantize_256`); every other type
that gguf-py can dequantize goes through gguf-py, which is ten times slower.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize as dequantize_with_gguf
from torch import Tensor

from kernels.reference import dequantize_32, dequantize_256
from kernels.reference.scratch import Scratch

Dequantizer = Callable[[Tensor, Tensor, Scratch], None]


def dequantize(data: Tensor, type_id: int, out: Tensor, scratch: Scratch) -> None:
    """out[i] = weight i of `data`.

    data: uint8 [num_blocks * block bytes], contiguous, offset a multiple of 4 (2 for block sizes that are not).
    out: f32, contiguous, num_blocks * block elements in any shape. `type_id`: the ggml type number."""
    elements, block_bytes = block_size(type_id)
    assert data.numel() * elements == out.numel() * block_bytes, (type_id, data.numel(), out.numel())
    run = _DEQUANTIZERS.get(type_id)
    if run is None:
        weights = dequantize_with_gguf(data.numpy(), GGMLQuantizationType(type_id))
        out.view(-1).copy_(torch.from_numpy(np.ascontiguousarray(weights, np.float32)).view(-1))
    else:
        run(data, out.view(-1), scratch)


@cache
def block_size(type_id: int) -> tuple[int, int]:
    """(weights, bytes) of one block of ggml type `type_id`."""
    elements, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(type_id)]
    return elements, block_bytes


def row_bytes(type_id: int, columns: int) -> int:
    """Bytes of one row of `columns` weights."""
    elements, block_bytes = block_size(type_id)
    assert columns % elements == 0, (type_id, columns)
    return columns // elements * block_bytes


def _f32(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    out.copy_(data.view(torch.float32))


def _f16(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    out.copy_(data.view(torch.float16))


def _bf16(data: Tensor, out: Tensor, scratch: Scratch) -> None:
    out.copy_(data.view(torch.bfloat16))


_DEQUANTIZERS: dict[int, Dequantizer] = {
    GGMLQuantizationType.F32: _f32,
    GGMLQuantizationType.F16: _f16,
    GGMLQuantizationType.BF16: _bf16,
    GGMLQuantizationType.Q4_0: dequantize_32.q4_0,
    GGMLQuantizationType.Q4_1: dequantize_32.q4_1,
    GGMLQuantizationType.Q8_0: dequantize_32.q8_0,
    GGMLQuantizationType.Q4_K: dequantize_256.q4_k,
    GGMLQuantizationType.Q5_K: dequantize_256.q5_k,
    GGMLQuantizationType.Q6_K: dequantize_256.q6_k,
}
