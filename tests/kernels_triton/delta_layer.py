"""A recurrent layer with random weights and inputs, run by the kernels for some of its rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from kernels.triton import launch_delta
from kernels.triton.launch_delta import DeltaShape
from kernels.triton.sizes import DELTA_BLOCK_ROWS
from tests.kernels_triton.builders import normal, poisoned

EPSILON = 1e-6


@dataclass
class DeltaLayer:
    """`state`: what a run begins with; nobody writes it."""

    shape: DeltaShape
    qkv: Tensor
    gates: tuple[Tensor, Tensor]
    constants: tuple[Tensor, Tensor]
    taps: Tensor
    state: Tensor

    @classmethod
    def random(cls, shape: DeltaShape, num_rows: int) -> "DeltaLayer":
        floats = shape.matrix_floats + (shape.taps - 1) * shape.channels
        beta, alpha, bias = normal(num_rows, shape.heads), normal(num_rows, shape.heads, scale=3.0), normal(shape.heads)
        rate, taps = -normal(shape.heads).abs() * 0.3, normal(shape.channels, shape.taps)
        return cls(shape, normal(num_rows, shape.channels), (beta, alpha), (rate, bias), taps, normal(floats))

    def run(self, start: int, stop: int, state: Tensor, journal: Tensor | None = None) -> Tensor:
        """f32 [rows, heads, width]; the state moves on, or with a journal stays."""
        shape, rows = self.shape, slice(start, stop)
        qkv = self.qkv[rows].contiguous()
        mixed = poisoned(stop - start, shape.channels)
        out = poisoned(stop - start, shape.heads, shape.width)
        launch_delta.conv(qkv, self.taps, state, mixed, shape)
        gates = (self.gates[0][rows].contiguous(), self.gates[1][rows].contiguous())
        launch_delta.delta_rows(mixed, gates, self.constants, state, out, shape, epsilon=EPSILON, journal=journal)
        if journal is None:
            launch_delta.remember(qkv, state, shape)
        else:
            journal[: stop - start, : shape.channels] = qkv
        return out

    def read(self, start: int, stop: int, state: Tensor, *, runs: Sequence[int] = (0,)) -> Tensor:
        """`run` as a prompt chunk, in blocks counted from each row of `runs`."""
        shape, rows = self.shape, slice(start, stop)
        qkv = self.qkv[rows].contiguous()
        mixed = poisoned(stop - start, shape.channels)
        out = poisoned(stop - start, shape.heads, shape.width)
        launch_delta.conv(qkv, self.taps, state, mixed, shape)
        gates = (self.gates[0][rows].clone(), self.gates[1][rows].clone())
        blocks = poisoned(stop - start, shape.heads, shape.width + DELTA_BLOCK_ROWS)
        launch_delta.delta_chunk(mixed, gates, self.constants, state, out, blocks, shape, epsilon=EPSILON, runs=runs)
        launch_delta.remember(qkv, state, shape)
        return out

    def draft(self, start: int, stop: int, state: Tensor, *, standing: int) -> Tensor:
        """A window of which the first `standing` rows stand."""
        journal = poisoned(stop - start + 1, self.shape.journal_floats)
        out = self.run(start, stop, state, journal)
        launch_delta.commit(journal[:standing], state, self.shape)
        return out
