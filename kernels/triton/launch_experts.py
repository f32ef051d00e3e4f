# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""The experts' kernels as functions of tensors: grids and fixed sizes, nothing else.

Rules of all `launch_*` files. No allocation, no synchronization: outputs and scratch are the caller's, work is queued
on the current stream. Every tensor is contiguous, on the card (or readable by it) and 256-byte aligned. `addresses`:
int64, where a card may read each blob or matrix, in packed form (`packing.py`); `grids`:
uint32, the table of `packing.grid_table` on the card, once for all. Windows (1 to 8 rows) take f32
activations, prompt chunks f16 or bf16 ones.
"""

from dataclasses import dataclass

import triton
from torch import Tensor

from kernels.triton import grouped, rows
from kernels.triton.launch_grouping import Tiles
from kernels.triton.sizes import (
    DOWN_GROUPED,
    GATE_UP_GROUPED,
    MAX_WINDOW_PAIRS,
    PROGRAMS_GROUPED,
    GroupedSize,
    constants,
    rows_size,
)


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """Matrices of a blob: gate and up [ffn, hidden], down [hidden, ffn]; starts in bytes, multiples of 16."""

    hidden_size: int
    ffn_size: int
    num_experts: int
    num_used: int
    gate_type: int
    up_type: int
    down_type: int
    gate_start: int
    up_start: int
    down_start: int

    @property
    def gate_up(self) -> dict[str, int]:
        """Constants of the kernels that compute gate and up."""
        return {
            "NUM_USED": self.num_used,
            "GATE_START": self.gate_start,
            "UP_START": self.up_start,
            "GATE_TYPE": self.gate_type,
            "UP_TYPE": self.up_type,
            "ROWS": self.ffn_size,
            "COLUMNS": self.hidden_size,
        }

    @property
    def down(self) -> dict[str, int]:
        return {"START": self.down_start, "TYPE": self.down_type, "ROWS": self.hidden_size, "COLUMNS": self.ffn_size}


def experts_window(
    normed: Tensor, ids: Tensor, addresses: Tensor, grids: Tensor, shape: ExpertShape, act: Tensor, expert_rows: Tensor
) -> None:
    """expert_rows[row, j] = down(silu(gate x) * (up x)) of expert ids[row, j], x = normed[row].

    normed: f32 [rows, hidden]; ids: int32 [rows, used]; act: f32 [rows * used, ffn], scratch; expert_rows: f32."""
    pairs = ids.numel()
    assert pairs <= MAX_WINDOW_PAIRS, pairs
    size = rows_size(shape.hidden_size)
    rows.gate_up_rows_kernel[(triton.cdiv(shape.ffn_size, size.block_rows), pairs)](
        normed, ids, addresses, grids, act, pairs, MAX_PAIRS=MAX_WINDOW_PAIRS, **shape.gate_up, **constants(size)
    )
    size = rows_size(shape.ffn_size)
    rows.down_rows_kernel[(triton.cdiv(shape.hidden_size, size.block_rows), pairs)](
        act, ids, addresses, grids, expert_rows, pairs, MAX_PAIRS=MAX_WINDOW_PAIRS, **shape.down, **constants(size)
    )


def experts_prompt(
    normed: Tensor,
    sorted_pairs: Tensor,
    tiles: Tiles,
    addresses: Tensor,
    grids: Tensor,
    shape: ExpertShape,
    act: Tensor,
    expert_rows: Tensor,
    *,
    gate_up_size: GroupedSize = GATE_UP_GROUPED,
    down_size: GroupedSize = DOWN_GROUPED,
    num_programs: int = PROGRAMS_GROUPED,
) -> None:
    """`experts_window` for the experts in `tiles`, made with block_rows of both sizes (they are equal).

    normed: f16 or bf16 [rows, hidden]; act: the same type, [rows * used, ffn], scratch; expert_rows: f32, f16 or
    bf16 [rows, used, hidden], of which only the tiles' pairs are written."""
    assert gate_up_size.block_rows == down_size.block_rows, (gate_up_size, down_size)
    where = (addresses, grids, sorted_pairs, tiles.entries, tiles.count)
    grid = (num_programs,)
    grouped.gate_up_grouped_kernel[grid](normed, *where, act, **shape.gate_up, **constants(gate_up_size))
    grouped.down_grouped_kernel[grid](act, *where, expert_rows, **shape.down, **constants(down_size))


def unpack(
    addresses: Tensor,
    grids: Tensor,
    experts: Tensor,
    out: Tensor,
    type_id: int,
    *,
    start: int,
    num_rows: int,
    columns: int,
) -> None:
    """out[i] = the matrix at byte `start` of blob experts[i] (int32), as out's float type: [n, num_rows, columns]."""
    grid = (triton.cdiv(num_rows, 16), triton.cdiv(columns, 256), experts.numel())
    matrix = {"START": start, "TYPE": type_id, "ROWS": num_rows, "COLUMNS": columns}
    grouped.unpack_kernel[grid](addresses, grids, experts, out, **matrix, BLOCK_COLUMNS=16, BLOCK_K=256)
