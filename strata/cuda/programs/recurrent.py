"""The program of a recurrent layer on a card: convolution, gated delta net, output gate (`kernels/triton/delta.py`).

    hidden -norm-> x -> qkv --conv--> mixed;  z;  beta, alpha         whichever way the file spells the projections
    delta net of mixed, beta, alpha -> out;   hidden += W_out( norm(out) * silu(z) );   the state moves on by the rows

The state is the layer's own. A launch with a journal leaves it as it is and notes there what each row would do to it,
for `commit`; the rows have the bits of a window without. A chunk is computed in blocks of rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.triton import launch_delta, launch_rows
from kernels.triton.launch_delta import DeltaShape
from kernels.triton.sizes import DELTA_BLOCK_ROWS
from strata.core.extent import Extent
from strata.core.programs import CommitArgs, LayerArgs, PassBuffers
from strata.cuda.programs.layers import hidden_rows, namer
from strata.cuda.programs.model import CardModel
from strata.cuda.programs.views import Areas, activation, areas_of, first_rows, is_window, typed
from strata.cuda.programs.weights import DenseWeights
from strata.device import Memory


@dataclass(frozen=True, slots=True)
class _Rows:
    """The mixer's buffers for a launch, one after the other in the bytes of its rows."""

    qkv: Tensor  # f32 [rows, C], input of the convolution
    gate: Tensor  # f32 [rows, Hv, S]
    output: Tensor  # f32 [rows, Hv, S]
    beta: Tensor  # f32 [rows, Hv]
    alpha: Tensor  # f32 [rows, Hv]


@dataclass(frozen=True, slots=True)
class RecurrentPrograms:
    model: CardModel
    shape: DeltaShape
    weights: DenseWeights

    def recurrent(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += the layer's answer for each row; its state moves on by the rows."""
        assert args.state is not None, args
        model, shape, buffers, rows, name = self.model, self.shape, args.buffers, args.rows, namer(args.layer)
        work = areas_of(model, memory, buffers, "recurrent")
        hidden, band = hidden_rows(model, memory, buffers, rows), self._buffers(memory, buffers, rows)
        x = work.take("x", activation(buffers), rows, model.hidden_size)
        norm = self.weights.vector(memory, name("attn_norm.weight"))
        launch_rows.rms_norm(hidden, norm, x, epsilon=model.rms_epsilon)
        self._project(memory, args.layer, x, band, work)
        self._mix(memory, args, args.state, band, work)
        act = work.take("act", activation(buffers), rows, shape.heads, shape.width)
        scale = self.weights.vector(memory, name("ssm_norm.weight"))
        launch_delta.gated_norm(band.output, band.gate, scale, act, epsilon=model.rms_epsilon)
        self.weights.project(memory, act.flatten(1), name("ssm_out"), hidden, is_added=True)

    def _mix(self, memory: Memory, args: LayerArgs, extent: Extent, band: _Rows, work: Areas) -> None:
        """band.output, of what was projected and of the state, which moves on or is left beside a journal."""
        shape, rows, name = self.shape, args.rows, namer(args.layer)
        state = self._state(memory.read(extent) if args.journal else memory.write(extent))
        mixed = work.take("mixed", torch.float32, rows, shape.channels)
        launch_delta.conv(band.qkv, self.weights.vector(memory, name("ssm_conv1d.weight")), state, mixed, shape)
        rate, bias = (self.weights.vector(memory, name(stem)) for stem in ("ssm_a", "ssm_dt.bias"))
        given = (mixed, (band.beta, band.alpha), (rate, bias), state, band.output)
        epsilon = self.model.rms_epsilon
        if args.journal is not None:
            journal = self._journal(memory.write(args.journal), args.buffers.max_rows)[:rows]
            launch_delta.delta_rows(*given, shape, epsilon=epsilon, journal=journal)
            journal[:, : shape.channels].copy_(band.qkv)
            return
        if is_window(args.buffers):
            launch_delta.delta_rows(*given, shape, epsilon=epsilon)
        else:
            solved = work.take("interleaved", torch.float32, rows, shape.heads, shape.width + DELTA_BLOCK_ROWS)
            launch_delta.delta_chunk(*given, solved, shape, epsilon=epsilon, runs=args.block_runs)
        launch_delta.remember(band.qkv, state, shape)

    def commit(self, memory: Memory, args: CommitArgs) -> None:
        """The state moves on by the first rows of the journal."""
        journal = self._journal(memory.read(args.journal), args.max_rows)
        launch_delta.commit(journal[: args.rows], self._state(memory.write(args.state)), self.shape)

    def _state(self, data: Tensor) -> Tensor:
        shape = self.shape
        return typed(data, torch.float32, shape.matrix_floats + (shape.taps - 1) * shape.channels)

    def _journal(self, data: Tensor, max_rows: int) -> Tensor:
        return typed(data, torch.float32, max_rows, self.shape.journal_floats)

    def _buffers(self, memory: Memory, buffers: PassBuffers, rows: int) -> _Rows:
        heads = (self.shape.heads, self.shape.width)
        data = memory.write(first_rows(buffers.attention, rows, buffers))
        return _Rows(*_consecutive(data, rows, ((self.shape.channels,), heads, heads, heads[:1], heads[:1])))

    def _project(self, memory: Memory, layer: int, x: Tensor, band: _Rows, work: Areas) -> None:
        """Everything that comes of the normed rows, in whichever spelling the file has it."""
        name, key_width = namer(layer), self.shape.key_heads * self.shape.width
        if self.weights.has(name("ssm_in.weight")):
            parts = (*torch.split(band.qkv, [key_width, key_width, band.qkv.shape[1] - 2 * key_width], dim=1),)
            self._project_by_key_head(memory, x, name("ssm_in"), (*parts, band.gate.flatten(1)), work)
        else:
            self.weights.project(memory, x, name("attn_qkv"), band.qkv)
            self.weights.project(memory, x, name("attn_gate"), band.gate.flatten(1))
        if self.weights.has(name("ssm_ba.weight")):
            self._project_by_key_head(memory, x, name("ssm_ba"), (band.beta, band.alpha), work)
        else:
            self.weights.project(memory, x, name("ssm_beta"), band.beta)
            self.weights.project(memory, x, name("ssm_alpha"), band.alpha)

    def _project_by_key_head(
        self, memory: Memory, x: Tensor, stem: str, parts: tuple[Tensor, ...], work: Areas
    ) -> None:
        """A projection whose rows lie key head by key head, each with its share of every part."""
        rows, heads = x.shape[0], self.shape.key_heads
        out = work.take("interleaved", torch.float32, rows, sum(part.shape[1] for part in parts))
        self.weights.project(memory, x, stem, out)
        shares = torch.split(out.view(rows, heads, -1), [part.shape[1] // heads for part in parts], dim=2)
        for part, share in zip(parts, shares, strict=True):
            part.view(rows, heads, -1).copy_(share)


def _consecutive(data: Tensor, rows: int, sizes: tuple[tuple[int, ...], ...]) -> Iterator[Tensor]:
    """f32 tensors [rows, *size], one behind the other in `data`, uint8."""
    start_bytes = 0
    for size in sizes:
        tensor = typed(data[start_bytes:], torch.float32, rows, *size)
        yield tensor
        start_bytes += tensor.numel() * tensor.itemsize
