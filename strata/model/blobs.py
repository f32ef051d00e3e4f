"""Where the matrices of every expert lie in the file, and how they lie in a blob.

    blob   | gate | pad | up | pad | down |        every part starts on 16 bytes, the parts may differ in type
    file   ffn_gate_exps {E, F, nE}, ffn_up_exps, ffn_down_exps {F, E, nE}     or
           ffn_gate_up_exps {E, 2F, nE}: F rows of gate, then F of up          or
           ffn_gate.0 {E, F}, ffn_gate.1, ...: the old Mixtral layout

Decides the blob's layout; knows nothing of slots or of how bytes are read.
"""

from dataclasses import dataclass
from pathlib import Path

from strata.core.units import align_up
from strata.model.file_tensors import FileTensors
from strata.model.gguf.limits import quoted
from strata.model.hyperparameters import Hyperparameters
from strata.model.quant_types import QUANT_TYPES
from strata.model.spec import BlobLayout, BlobPart, TensorInfo

PART_ALIGNMENT_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Matrix:
    """One role's matrix for every expert, before it has a place in the blob."""

    type_id: int
    rows: int
    columns: int
    sources: tuple[tuple[Path, int], ...]

    @property
    def size_bytes(self) -> int:
        return self.rows * QUANT_TYPES[self.type_id].row_bytes(self.columns)

    def at(self, offset_bytes: int) -> BlobPart:
        return BlobPart(offset_bytes, self.size_bytes, self.type_id, self.rows, self.columns, self.sources)


def take_blob_layout(tensors: FileTensors, hyper: Hyperparameters, block: int) -> BlobLayout:
    """Takes the expert tensors of `block`. Raises ModelError naming the tensor that is missing or does not fit."""
    hidden, ffn, prefix = hyper.hidden_size, hyper.ffn_size, f"blk.{block}.ffn_"
    if f"{prefix}gate_up_exps.weight" in tensors:
        fused = tensors.take(f"{prefix}gate_up_exps.weight", (hidden, 2 * ffn, hyper.num_experts))
        gate = _cut(fused, first_row=0, rows=ffn)
        up = _cut(fused, first_row=ffn, rows=ffn)
    else:
        gate = _take_matrix(tensors, f"{prefix}gate", (hidden, ffn, hyper.num_experts))
        up = _take_matrix(tensors, f"{prefix}up", (hidden, ffn, hyper.num_experts))
    down = _take_matrix(tensors, f"{prefix}down", (ffn, hidden, hyper.num_experts))
    return _laid_out(gate, up, down)


def _laid_out(gate: _Matrix, up: _Matrix, down: _Matrix) -> BlobLayout:
    up_offset_bytes = align_up(gate.size_bytes, PART_ALIGNMENT_BYTES)
    down_offset_bytes = align_up(up_offset_bytes + up.size_bytes, PART_ALIGNMENT_BYTES)
    size_bytes = down_offset_bytes + down.size_bytes
    return BlobLayout(gate.at(0), up.at(up_offset_bytes), down.at(down_offset_bytes), size_bytes)


def _take_matrix(tensors: FileTensors, stem: str, shape: tuple[int, int, int]) -> _Matrix:
    columns, rows, num_experts = shape
    if f"{stem}.0.weight" not in tensors:
        return _cut(tensors.take(f"{stem}_exps.weight", shape), first_row=0, rows=rows)
    infos = [tensors.take(f"{stem}.{expert}.weight", (columns, rows)) for expert in range(num_experts)]
    for info in infos:
        if info.type_id != infos[0].type_id:
            names = [QUANT_TYPES[each.type_id].name for each in (info, infos[0])]
            raise tensors.error(
                f"tensor {quoted(info.name)} has type {names[0]}, {quoted(infos[0].name)} has {names[1]}; "
                "the experts of a layer must have one type for each matrix"
            )
    return _Matrix(infos[0].type_id, rows, columns, tuple((info.path, info.offset_bytes) for info in infos))


def _cut(merged: TensorInfo, *, first_row: int, rows: int) -> _Matrix:
    """Rows first_row .. first_row + rows - 1 of every expert's matrix in `merged` {columns, all rows, experts}."""
    columns, all_rows, num_experts = merged.shape
    row_bytes = QUANT_TYPES[merged.type_id].row_bytes(columns)
    sources = (
        (merged.path, merged.offset_bytes + (expert * all_rows + first_row) * row_bytes)
        for expert in range(num_experts)
    )
    return _Matrix(merged.type_id, rows, columns, tuple(sources))
