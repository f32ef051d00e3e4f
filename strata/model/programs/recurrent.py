"""The program of a recurrent layer: convolution, gated delta net, output gate.

    hidden -norm-> x -> qkv --conv, silu--> q | k | v     q, k to unit length; value heads read key heads by the map
                     -> z                                 output gate
                     -> beta, alpha ------> sigmoid; decay
    delta net of q, k, v, beta, decay -> o;   hidden += W_out( norm(o) * silu(z) )

A launch with a journal leaves the state as it is and notes there, row by row, what moves it on:

    qkv [C] | k [Hk S] | what is added for k [Hv S] | decay [Hv]

A band of rows at a time; between bands, launches and windows nothing is kept but the layer's state, so any cut of the
rows leaves the same bits.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.reference.activation import silu_mul
from kernels.reference.blocks import BAND_ROWS, spans
from kernels.reference.causal_conv import causal_conv, remember
from kernels.reference.delta_net import delta_net, gates, replay
from kernels.reference.l2_norm import l2_norm
from kernels.reference.rms_norm import rms_norm
from kernels.reference.scratch import Scratch
from strata.core.extent import Extent
from strata.core.programs import CommitArgs, LayerArgs, PassBuffers
from strata.device import Memory
from strata.model.program_reads import layer_tensor
from strata.model.programs.feed_forward import hidden_rows
from strata.model.programs.weights import DenseWeights, first_rows
from strata.model.spec import HeadMap, ModelSpec, RecurrentSpec


@dataclass(frozen=True, slots=True)
class _Rows:
    """The mixer's buffers for a launch, one after the other in the bytes of its rows; or a band of them."""

    qkv: Tensor  # f32 [rows, C], input of the convolution
    gate: Tensor  # f32 [rows, Hv, S]
    output: Tensor  # f32 [rows, Hv, S]
    beta: Tensor  # f32 [rows, Hv]
    alpha: Tensor  # f32 [rows, Hv], becomes the decay

    def band(self, start: int, stop: int) -> "_Rows":
        whole = (self.qkv, self.gate, self.output, self.beta, self.alpha)
        return _Rows(*(each[start:stop] for each in whole))


@dataclass(frozen=True, slots=True)
class _State:
    """Of one layer (`RecurrentSpec`)."""

    matrices: Tensor  # f32 [Hv, S, S]
    history: Tensor  # f32 [taps - 1, C], last inputs of the convolution


@dataclass(frozen=True, slots=True)
class _Journal:
    """Some rows of a journal, strided."""

    qkv: Tensor  # f32 [rows, C]
    key: Tensor  # f32 [rows, Hk, S]
    added: Tensor  # f32 [rows, Hv, S]
    decay: Tensor  # f32 [rows, Hv]


@dataclass(frozen=True, slots=True)
class RecurrentPrograms:
    spec: ModelSpec
    shape: RecurrentSpec
    weights: DenseWeights
    scratch: Scratch

    def recurrent(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += the layer's answer for each row; its state moves on by the rows."""
        rows, buffers = args.rows, args.buffers
        hidden = hidden_rows(memory, buffers, rows, self.spec)
        whole = self._buffers(memory, buffers, rows)
        assert args.state is not None, args
        state, journal = self._state_and_journal(memory, args, args.state)
        stem = layer_tensor(args.layer, "ssm_out")
        for start, stop in spans(rows, BAND_ROWS):
            band = whole.band(start, stop)
            self._project(memory, args.layer, hidden[start:stop], band)
            self._mix(memory, args.layer, band, state, journal)
            self._gate(memory, args.layer, band)
            self.weights.project(memory, band.gate.flatten(1), stem, hidden[start:stop], accumulate=True)

    def commit(self, memory: Memory, args: CommitArgs) -> None:
        """The state moves on by the first rows of the journal."""
        state = self._state(memory.write(args.state))
        journal = self._journal(memory.read(args.journal), args.max_rows, args.rows)
        is_tiled = self.shape.head_map is HeadMap.TILED
        replay(journal.key, journal.added, journal.decay, state.matrices, self.scratch, is_tiled=is_tiled)
        remember(journal.qkv, state.history)

    def _state_and_journal(self, memory: Memory, args: LayerArgs, extent: Extent) -> tuple[_State, _Journal | None]:
        """The state that this launch moves on: the layer's own, or a copy beside a journal."""
        if args.journal is None:
            return self._state(memory.write(extent)), None
        copy = self.scratch.take("recurrent.state", (self.shape.state_floats,))
        copy.copy_(memory.read(extent).view(torch.float32)[: self.shape.state_floats])
        journal = self._journal(memory.write(args.journal), args.buffers.max_rows, args.rows)
        return self._state(copy.view(torch.uint8)), journal

    def _buffers(self, memory: Memory, buffers: PassBuffers, rows: int) -> _Rows:
        shape = self.shape
        heads = (shape.num_value_heads, shape.head_width)
        sizes = ((shape.num_channels,), heads, heads, heads[:1], heads[:1])
        data = memory.write(first_rows(buffers.attention, rows, buffers)).view(torch.float32)
        return _Rows(*_consecutive(data, rows, sizes))

    def _journal(self, journal: Tensor, max_rows: int, rows: int) -> _Journal:
        """The first `rows` of the journal's `max_rows` rows."""
        shape = self.shape
        width = shape.journal_floats
        whole = journal.view(torch.float32)[: max_rows * width].view(max_rows, width)[:rows]
        sizes = [shape.num_channels, shape.key_width, shape.value_width, shape.num_value_heads]
        qkv, key, added, decay = torch.split(whole, sizes, dim=1)
        return _Journal(
            qkv, key.view(rows, shape.num_key_heads, -1), added.view(rows, shape.num_value_heads, -1), decay
        )

    def _state(self, state: Tensor) -> _State:
        shape, data = self.shape, state.view(torch.float32)[: self.shape.state_floats]
        matrices = data[: shape.matrix_floats].view(shape.num_value_heads, shape.head_width, shape.head_width)
        return _State(matrices, data[shape.matrix_floats :].view(shape.num_conv_taps - 1, shape.num_channels))

    def _project(self, memory: Memory, layer: int, hidden: Tensor, band: _Rows) -> None:
        """Everything that comes of the normed rows, in whichever spelling the file has it."""
        spec = self.spec
        normed = self.scratch.take("recurrent.normed", (BAND_ROWS, spec.hidden_size))[: hidden.shape[0]]
        norm = self.weights.vector(memory, layer_tensor(layer, "attn_norm.weight"))
        rms_norm(hidden, norm, spec.rms_epsilon, normed, self.scratch)
        if self.weights.has(layer_tensor(layer, "ssm_in.weight")):
            parts = [*self._query_key_value(band.qkv), band.gate.flatten(1)]
            self._project_by_key_head(memory, normed, layer_tensor(layer, "ssm_in"), parts)
        else:
            self.weights.project(memory, normed, layer_tensor(layer, "attn_qkv"), band.qkv)
            self.weights.project(memory, normed, layer_tensor(layer, "attn_gate"), band.gate.flatten(1))
        if self.weights.has(layer_tensor(layer, "ssm_ba.weight")):
            self._project_by_key_head(memory, normed, layer_tensor(layer, "ssm_ba"), [band.beta, band.alpha])
        else:
            self.weights.project(memory, normed, layer_tensor(layer, "ssm_beta"), band.beta)
            self.weights.project(memory, normed, layer_tensor(layer, "ssm_alpha"), band.alpha)

    def _project_by_key_head(self, memory: Memory, normed: Tensor, stem: str, parts: list[Tensor]) -> None:
        """A projection whose rows lie key head by key head, each with its share of every part."""
        rows, heads = normed.shape[0], self.shape.num_key_heads
        columns = sum(part.shape[1] for part in parts)
        out = self.scratch.take("recurrent.interleaved", (BAND_ROWS, columns))[:rows]
        self.weights.project(memory, normed, stem, out)
        shares = torch.split(out.view(rows, heads, columns // heads), [part.shape[1] // heads for part in parts], dim=2)
        for part, share in zip(parts, shares, strict=True):
            part.view(rows, heads, -1).copy_(share)

    def _mix(self, memory: Memory, layer: int, band: _Rows, state: _State, journal: _Journal | None) -> None:
        shape, rows = self.shape, band.qkv.shape[0]
        taps = self.weights.matrix(memory, layer_tensor(layer, "ssm_conv1d.weight"))
        mixed = self.scratch.take("recurrent.mixed", (BAND_ROWS, shape.num_channels))[:rows]
        causal_conv(band.qkv, taps.t(), state.history, mixed, self.scratch)
        query, key, value = self._query_key_value(mixed)
        for part, scale in ((query, 1.0 / math.sqrt(shape.head_width)), (key, 1.0)):
            self._to_unit_length(part, scale)
        rate = self.weights.vector(memory, layer_tensor(layer, "ssm_a"))
        bias = self.weights.vector(memory, layer_tensor(layer, "ssm_dt.bias"))
        gates(band.beta, band.alpha, rate, bias, self.scratch)
        delta_net(
            query.view(rows, shape.num_key_heads, -1),
            key.view(rows, shape.num_key_heads, -1),
            value.view(rows, shape.num_value_heads, -1),
            band.beta,
            band.alpha,
            state.matrices,
            band.output,
            self.scratch,
            is_tiled=shape.head_map is HeadMap.TILED,
            added=journal.added if journal else None,
        )
        if journal:
            journal.qkv.copy_(band.qkv)
            journal.key.copy_(key.view(journal.key.shape))
            journal.decay.copy_(band.alpha)

    def _query_key_value(self, channels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """channels: f32 [rows, C]."""
        key = self.shape.key_width
        return channels[:, :key], channels[:, key : 2 * key], channels[:, 2 * key :]

    def _to_unit_length(self, part: Tensor, scale: float) -> None:
        """Each head of each row, in place. part: [rows, Hk S], strided over rows."""
        shape = self.shape
        flat = self.scratch.take("recurrent.heads", (BAND_ROWS * shape.num_key_heads, shape.head_width))
        flat = flat[: part.shape[0] * shape.num_key_heads]
        flat.view(part.shape).copy_(part)
        l2_norm(flat, self.spec.rms_epsilon, flat, self.scratch, scale=scale)
        part.copy_(flat.view(part.shape))

    def _gate(self, memory: Memory, layer: int, band: _Rows) -> None:
        """gate = norm(output) * silu(gate), per head."""
        norm = self.weights.vector(memory, layer_tensor(layer, "ssm_norm.weight"))
        output, gate = (each.view(-1, self.shape.head_width) for each in (band.output, band.gate))
        rms_norm(output, norm, self.spec.rms_epsilon, output, self.scratch)
        silu_mul(gate, output, gate, self.scratch)


def _consecutive(data: Tensor, rows: int, sizes: tuple[tuple[int, ...], ...]) -> Iterator[Tensor]:
    """Tensors [rows, *size], one behind the other in `data`."""
    start = 0
    for size in sizes:
        count = rows * math.prod(size)
        yield data[start : start + count].view(rows, *size)
        start += count
