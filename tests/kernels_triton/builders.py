"""Inputs for the kernels, and the same as the reference takes them. All on `DEVICE`; random, never zero."""

from dataclasses import dataclass

import gguf
import numpy as np
import torch
from torch import Tensor

from bench.inputs import set_scales
from kernels.reference.expert_weights import ExpertWeights
from kernels.reference.kv_cells import cell_bytes, read_cells, write_cells
from kernels.reference.scratch import Scratch
from kernels.triton.formats import BF16, F16, F32, FLOAT_TYPES, packed_bytes
from kernels.triton.launch_attention import KvLayer
from kernels.triton.launch_experts import ExpertShape
from kernels.triton.packing import grid_table, pack
from tests.kernels_triton.unpacking import unpack

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SCRATCH = Scratch()
GRIDS = torch.from_numpy(grid_table().view("int32")).to(DEVICE).view(torch.uint32)
FLOATS = {F32: torch.float32, F16: torch.float16, BF16: torch.bfloat16}


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """What an output looks like before it is written."""
    if dtype.is_floating_point:
        return torch.full(shape, torch.nan, dtype=dtype, device=DEVICE)
    return torch.full(shape, 77, dtype=dtype, device=DEVICE)


def normal(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape) * scale).to(dtype).to(DEVICE)


def random_matrix(type_id: int, *, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """(packed form, file form), uint8."""
    if type_id in FLOAT_TYPES:
        data = (torch.randn(rows, columns) * 0.05).to(FLOATS[type_id]).view(torch.uint8).reshape(-1)
        return data, data
    size = packed_bytes(type_id, rows=rows, columns=columns)
    packed = torch.randint(0, 256, (1, size), dtype=torch.uint8)
    set_scales(packed, type_id, rows=rows, columns=columns)
    file_form = torch.from_numpy(unpack(packed[0].numpy(), type_id, rows=rows, columns=columns))
    assert torch.equal(pack(file_form, type_id, rows=rows, columns=columns), packed[0])
    return packed[0], file_form


def numbers(file_form: Tensor, type_id: int, *, rows: int, columns: int) -> Tensor:
    """The weights in float64."""
    if type_id in FLOAT_TYPES:
        return file_form.view(FLOATS[type_id]).view(rows, columns).double()
    values = gguf.quants.dequantize(file_form.numpy().reshape(rows, -1), gguf.GGMLQuantizationType(type_id))
    return torch.from_numpy(values.reshape(rows, columns).astype(np.float64))


@dataclass
class Matrix:
    """W [rows, columns] on the device behind an address, and as numbers."""

    type_id: int
    data: Tensor
    addresses: Tensor
    weights: Tensor

    @classmethod
    def random(cls, type_id: int, *, rows: int, columns: int) -> "Matrix":
        packed, file_form = random_matrix(type_id, rows=rows, columns=columns)
        data = packed.to(DEVICE)
        addresses = torch.tensor([data.data_ptr()], device=DEVICE)
        return cls(type_id, data, addresses, numbers(file_form, type_id, rows=rows, columns=columns))


@dataclass
class Experts:
    """Blobs of one layer, half of them in the pack (host memory) when there is a card."""

    shape: ExpertShape
    blobs: list[Tensor]
    addresses: Tensor
    reference: list[ExpertWeights]

    @classmethod
    def random(cls, types: tuple[int, int, int], *, hidden: int, ffn: int, count: int, used: int) -> "Experts":
        blobs, references, starts = [], [], [0, 0, 0]
        for index in range(count):
            gate, up = (random_matrix(kind, rows=ffn, columns=hidden) for kind in types[:2])
            down = random_matrix(types[2], rows=hidden, columns=ffn)
            starts = [0, gate[0].numel(), gate[0].numel() + up[0].numel()]
            blob = torch.cat([gate[0], up[0], down[0]])
            blobs.append(blob.pin_memory() if DEVICE == "cuda" and index % 2 else blob.to(DEVICE))
            references.append(ExpertWeights(gate[1], types[0], up[1], types[1], down[1], types[2], ffn))
        shape = ExpertShape(hidden, ffn, count, used, *types, *starts)
        addresses = torch.tensor([blob.data_ptr() for blob in blobs], device=DEVICE)
        return cls(shape, blobs, addresses, references)


def random_ids(num_rows: int, num_experts: int, used: int) -> Tensor:
    """int32 [num_rows, used], distinct in a row."""
    return torch.rand(num_rows, num_experts).topk(used, dim=1).indices.int().to(DEVICE)


KV_FORMATS = ((F16, F16), (8, 8), (2, 2), (8, 2))
"""Types of K and V: f16, int8, q4_0, k8v4."""


def random_cells(type_id: int, *, context: int, used: int, heads: int, head_dim: int) -> tuple[Tensor, Tensor]:
    """(cells on the device, what nobody wrote poisoned; the numbers in them: f32 [used, heads, head_dim])."""
    numbers = torch.randn(used, heads, head_dim)
    if type_id == F16:
        cells = torch.full((context, heads, head_dim), torch.nan, dtype=torch.float16)
        cells[:used] = numbers
        return cells.to(DEVICE), cells[:used].float()
    cells = torch.full((context, cell_bytes(type_id, num_kv_heads=heads, head_dim=head_dim)), 0x7F, dtype=torch.uint8)
    write_cells(numbers, type_id, cells[:used])
    read_cells(cells[:used], type_id, numbers)
    return cells.to(DEVICE), numbers


def random_kv(
    types: tuple[int, int], *, context: int, used: int, heads: int, head_dim: int
) -> tuple[KvLayer, tuple[Tensor, Tensor]]:
    sizes = {"context": context, "used": used, "heads": heads, "head_dim": head_dim}
    (keys, key_numbers), (values, value_numbers) = (random_cells(one, **sizes) for one in types)
    return KvLayer(keys, values, heads, *types), (key_numbers, value_numbers)


def header_at(position: int) -> Tensor:
    header = torch.zeros(32, dtype=torch.int64)
    header[0] = position
    return header.to(DEVICE)


def relative_error(value: Tensor, truth: Tensor) -> float:
    """Norm of the difference over norm of the truth; NaN anywhere gives NaN, which passes no bound."""
    value, truth = value.double().cpu(), truth.double().cpu()
    return float((value - truth).norm() / truth.norm())
