"""The recurrent layer's kernels as functions of rows, for `row_ops.py`."""

import torch
from torch import Tensor

from kernels.triton import launch_delta
from kernels.triton.launch_delta import DeltaShape
from kernels.triton.sizes import DELTA_BLOCK_ROWS
from tests.kernels_triton.builders import DEVICE, normal, poisoned
from tests.kernels_triton.delta_layer import DeltaLayer
from tests.kernels_triton.row_op import RowOp

SHAPE = DeltaShape(16, 32, 128, 4, True) if DEVICE == "cuda" else DeltaShape(1, 2, 16, 4, True)


def delta_rows() -> RowOp:
    """A stretch of tokens, read in one go after all tokens before it were: the state is what they left."""
    layer = DeltaLayer.random(SHAPE, 10)

    def compute(rows: list[int]) -> Tensor:
        state = layer.state.clone()
        if rows[0]:
            layer.run(0, rows[0], state)
        return layer.run(rows[0], rows[-1] + 1, state)

    return RowOp("delta_rows", ("conv_kernel", "remember_kernel", "delta_rows_kernel"), 10, compute, is_run=True)


def delta_chunk() -> RowOp:
    """A stretch of tokens behind the last whole block before it: the state is what the blocks before left."""
    num_rows = 300 if DEVICE == "cuda" else 80
    layer = DeltaLayer.random(SHAPE, num_rows)

    def compute(rows: list[int]) -> Tensor:
        state, start = layer.state.clone(), rows[0] // DELTA_BLOCK_ROWS * DELTA_BLOCK_ROWS
        for block in range(0, start, DELTA_BLOCK_ROWS):
            layer.read(block, block + DELTA_BLOCK_ROWS, state)
        return layer.read(start, rows[-1] + 1, state)[rows[0] - start :]

    kernels = ("unit_heads_kernel", "delta_solve_kernel", "delta_walk_kernel")
    return RowOp("delta_chunk", kernels, num_rows, compute, is_run=True)


def delta_drafts() -> RowOp:
    """The same through windows of three, of which now two rows stand, now one."""
    layer = DeltaLayer.random(SHAPE, 8)

    def compute(rows: list[int]) -> Tensor:
        state, position = layer.state.clone(), 0
        while position < rows[0]:
            standing = min(1 + position % 2, rows[0] - position)
            layer.draft(position, min(position + 3, 8), state, standing=standing)
            position += standing
        return layer.run(rows[0], rows[-1] + 1, state)

    return RowOp("delta_drafts", ("delta_rows_kernel", "commit_kernel"), 8, compute, is_run=True)


def gated_norm() -> RowOp:
    x, gate, weight = normal(20, 3, 24), normal(20, 3, 24), normal(24)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 3, 24, dtype=torch.float16)
        launch_delta.gated_norm(x[rows].contiguous(), gate[rows].contiguous(), weight, out, epsilon=1e-6)
        return out

    return RowOp("gated_norm", ("gated_norm_kernel",), 20, compute)
