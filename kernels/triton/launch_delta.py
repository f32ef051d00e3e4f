# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""A recurrent layer between its projections, as functions of tensors: rules of `launch_experts.py`.

A prompt chunk moves the state on by blocks of rows, a window of one row by the row; a window of more rows writes a
journal, of which the rows that stand are committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import triton
from torch import Tensor

from kernels.triton import delta, delta_blocks
from kernels.triton.sizes import DELTA_BLOCK_ROWS

DELTA_COLUMNS = 32
"""Columns of a head's matrix that one program keeps in registers: 32 numbers a thread at width 128. Not measured."""
CONV_BLOCK = 256
SOLVE_WARPS, SOLVE_BLOCK = 8, 128
WALK_WARPS, WALK_COLUMNS = 4, 16
"""Of the kernels that take a block of rows: fewer warps, narrower tiles of `solve` and wider ones of `walk` spill on
some cards (triton 3.7.1). Not measured."""


@dataclass(frozen=True, slots=True)
class DeltaShape:
    """Heads of one width. `is_tiled`: value head h reads key head h % key_heads, else h // (heads / key_heads)."""

    key_heads: int
    heads: int
    width: int
    taps: int
    is_tiled: bool

    @property
    def channels(self) -> int:
        return (2 * self.key_heads + self.heads) * self.width

    @property
    def matrix_floats(self) -> int:
        return self.heads * self.width**2

    @property
    def journal_floats(self) -> int:
        """Of one row."""
        return self.channels + (self.key_heads + self.heads) * self.width + self.heads

    @property
    def matrices(self) -> dict[str, int | bool]:
        """Constants of the two kernels that hold matrices."""
        block = triton.next_power_of_2(self.width)
        sizes = {"KEY_HEADS": self.key_heads, "HEADS": self.heads, "WIDTH": self.width, "IS_TILED": self.is_tiled}
        return {**sizes, "BLOCK": block, "COLUMNS": min(block, DELTA_COLUMNS)}

    @property
    def solve(self) -> dict[str, int | bool]:
        """Constants of the kernel that solves blocks of rows."""
        sizes = {name: value for name, value in self.matrices.items() if name != "COLUMNS"}
        block = max(SOLVE_BLOCK, triton.next_power_of_2(self.width))
        return {**sizes, "BLOCK": block, "BLOCK_ROWS": DELTA_BLOCK_ROWS, "num_warps": SOLVE_WARPS}

    @property
    def walk(self) -> dict[str, int | bool]:
        """Constants of the kernel that walks from block to block."""
        return {**self.matrices, "COLUMNS": WALK_COLUMNS, "BLOCK_ROWS": DELTA_BLOCK_ROWS, "num_warps": WALK_WARPS}

    @property
    def grid(self) -> tuple[int, int]:
        return self.heads, triton.cdiv(self.width, min(triton.next_power_of_2(self.width), DELTA_COLUMNS))

    def parts(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """The matrices and the convolution's history of a layer's state, f32."""
        flat = state.view(-1)
        return flat[: self.matrix_floats], flat[self.matrix_floats :]


def conv(qkv: Tensor, taps: Tensor, state: Tensor, mixed: Tensor, shape: DeltaShape) -> None:
    """mixed = silu(conv(qkv)); the history of `state` is read and stays. qkv, mixed: f32 [rows, channels]; taps: f32
    [channels, taps]."""
    blocks = triton.cdiv(shape.channels, CONV_BLOCK)
    sizes = {"CHANNELS": shape.channels, "TAPS": shape.taps, "BLOCK": CONV_BLOCK}
    history = shape.parts(state)[1]
    delta.conv_kernel[(qkv.shape[0], blocks)](qkv, history, taps, mixed, qkv.shape[0], **sizes)


def remember(rows: Tensor, state: Tensor, shape: DeltaShape) -> None:
    """The history moves on by the rows, whose first `channels` columns are inputs of the convolution. After `conv`,
    which reads it."""
    sizes = {"CHANNELS": shape.channels, "TAPS": shape.taps, "BLOCK": CONV_BLOCK}
    history, blocks = shape.parts(state)[1], triton.cdiv(shape.channels, CONV_BLOCK)
    delta.remember_kernel[(blocks,)](rows, history, rows.shape[0], rows.stride(0), **sizes)


def delta_rows(
    mixed: Tensor,
    gates: tuple[Tensor, Tensor],
    constants: tuple[Tensor, Tensor],
    state: Tensor,
    out: Tensor,
    shape: DeltaShape,
    *,
    epsilon: float,
    journal: Tensor | None = None,
) -> None:
    """gates: beta and alpha as projected, f32 [rows, heads]; constants: rate and bias, f32 [heads]; out: f32 [rows,
    heads, width]. With a journal, f32 [at least rows, journal_floats], the state stays as it is; its first `channels`
    columns are the caller's: the convolution's input."""
    matrices = shape.parts(state)[0]
    noted = journal if journal is not None else out
    delta.delta_rows_kernel[shape.grid](
        mixed,
        *gates,
        *constants,
        matrices,
        out,
        noted,
        mixed.shape[0],
        int(journal is not None),
        epsilon,
        shape.width**-0.5,
        **shape.matrices,
        enable_fp_fusion=False,
    )


def delta_chunk(
    mixed: Tensor,
    gates: tuple[Tensor, Tensor],
    constants: tuple[Tensor, Tensor],
    state: Tensor,
    out: Tensor,
    blocks: Tensor,
    shape: DeltaShape,
    *,
    epsilon: float,
    runs: Sequence[int] = (0,),
) -> None:
    """`delta_rows` for the many rows of a prompt chunk, in blocks counted from each row of `runs`, the first of them 0;
    the state moves on. mixed and gates are worked in. blocks: f32 [rows, heads, width + DELTA_BLOCK_ROWS], scratch."""
    num_rows, matrices = mixed.shape[0], shape.parts(state)[0]
    heads = {"KEY_HEADS": shape.key_heads, "CHANNELS": shape.channels, "WIDTH": shape.width}
    delta_blocks.unit_heads_kernel[(num_rows, 2 * shape.key_heads)](
        mixed, epsilon, shape.width**-0.5, **heads, BLOCK=triton.next_power_of_2(shape.width), num_warps=1
    )
    assert runs[0] == 0, runs
    for start, end in pairwise((*runs, num_rows)):
        run, (beta, alpha), work = mixed[start:end], (gate[start:end] for gate in gates), blocks[start:end]
        grid = (triton.cdiv(end - start, DELTA_BLOCK_ROWS), shape.heads)
        delta_blocks.delta_solve_kernel[grid](run, beta, alpha, *constants, work, end - start, **shape.solve)
        grid = (shape.heads, triton.cdiv(shape.width, WALK_COLUMNS))
        delta_blocks.delta_walk_kernel[grid](run, alpha, work, matrices, out[start:end], end - start, **shape.walk)


def commit(journal: Tensor, state: Tensor, shape: DeltaShape) -> None:
    """The state moves on by the rows of the journal, f32 [rows that stand, journal_floats]."""
    matrices = shape.parts(state)[0]
    delta.commit_kernel[shape.grid](journal, matrices, journal.shape[0], **shape.matrices, enable_fp_fusion=False)
    remember(journal, state, shape)


def gated_norm(x: Tensor, gate: Tensor, weight: Tensor, out: Tensor, *, epsilon: float) -> None:
    """out = norm(x) * silu(gate) of each head. x, gate: f32 [rows, heads, width]; out: f32, f16 or bf16."""
    num_rows, heads, width = x.shape
    sizes = {"WIDTH": width, "BLOCK": triton.next_power_of_2(width)}
    delta.gated_norm_kernel[(num_rows * heads,)](x, gate, weight, out, epsilon, num_warps=1, **sizes)
