"""The feed-forward networks that every row goes through: a dense layer's, and a mixture's shared expert."""

from dataclasses import dataclass

from torch import Tensor

from kernels.reference.activation import sigmoid_mul, silu_mul
from kernels.reference.blocks import BAND_ROWS, spans
from kernels.reference.rms_norm import rms_norm
from kernels.reference.scratch import Scratch
from strata.core.programs import LayerArgs, PassBuffers
from strata.device import Memory
from strata.model.program_reads import layer_tensor
from strata.model.programs.weights import DenseWeights, first_rows, floats
from strata.model.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class FeedForwardPrograms:
    spec: ModelSpec
    weights: DenseWeights
    scratch: Scratch

    def ffn(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += down( silu(gate x) * (up x) ), x = norm(hidden)."""
        normed = normalize_for_ffn(memory, args, self.spec, self.weights, self.scratch)
        hidden = hidden_rows(memory, args.buffers, args.rows, self.spec)
        for start, stop in spans(args.rows, BAND_ROWS):
            gated = self._gated(memory, args.layer, "", normed[start:stop])
            stem = layer_tensor(args.layer, "ffn_down")
            self.weights.project(memory, gated, stem, hidden[start:stop], accumulate=True)

    def shared(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += the same of the shared expert, for the x that the router saw; times the sigmoid of one number a
        row, where the model has a gate for it."""
        spec, rows, buffers = self.spec, args.rows, args.buffers
        normed = floats(memory.read(first_rows(buffers.normed, rows, buffers)), rows, spec.hidden_size)
        hidden = hidden_rows(memory, buffers, rows, spec)
        for start, stop in spans(rows, BAND_ROWS):
            gated = self._gated(memory, args.layer, "_shexp", normed[start:stop])
            out = self.scratch.take("shared.out", (BAND_ROWS, spec.hidden_size))[: stop - start]
            self.weights.project(memory, gated, layer_tensor(args.layer, "ffn_down_shexp"), out)
            self._weigh(memory, args.layer, normed[start:stop], out)
            hidden[start:stop].add_(out)

    def _weigh(self, memory: Memory, layer: int, normed: Tensor, out: Tensor) -> None:
        name = layer_tensor(layer, "ffn_gate_inp_shexp")
        if self.weights.has(f"{name}.weight"):
            gate = self.scratch.take("shared.gate", (BAND_ROWS, 1))[: out.shape[0]]
            self.weights.project(memory, normed, name, gate)
            sigmoid_mul(gate, out, out, self.scratch)

    def _gated(self, memory: Memory, layer: int, suffix: str, normed: Tensor) -> Tensor:
        """silu(gate x) * (up x), f32 [rows, F], for a band of rows x; valid until the next call."""
        gate_stem, up_stem = (layer_tensor(layer, f"ffn_{role}{suffix}") for role in ("gate", "up"))
        ffn_size = self.spec.tensor(f"{gate_stem}.weight").shape[1]
        gate = self.scratch.take("feed_forward.gate", (BAND_ROWS, ffn_size))[: normed.shape[0]]
        up = self.scratch.take("feed_forward.up", (BAND_ROWS, ffn_size))[: normed.shape[0]]
        self.weights.project(memory, normed, gate_stem, gate)
        self.weights.project(memory, normed, up_stem, up)
        silu_mul(gate, up, gate, self.scratch)
        return gate


def normalize_for_ffn(
    memory: Memory, args: LayerArgs, spec: ModelSpec, weights: DenseWeights, scratch: Scratch
) -> Tensor:
    """normed = norm(hidden) by the layer's FFN norm, f32 [rows, E]."""
    rows, buffers = args.rows, args.buffers
    normed = floats(memory.write(first_rows(buffers.normed, rows, buffers)), rows, spec.hidden_size)
    weight = weights.vector(memory, layer_tensor(args.layer, spec.ffn_norm))
    hidden = floats(memory.read(first_rows(buffers.hidden, rows, buffers)), rows, spec.hidden_size)
    rms_norm(hidden, weight, spec.rms_epsilon, normed, scratch)
    return normed


def hidden_rows(memory: Memory, buffers: PassBuffers, rows: int, spec: ModelSpec) -> Tensor:
    """The residual stream, f32 [rows, E], to be written."""
    return floats(memory.write(first_rows(buffers.hidden, rows, buffers)), rows, spec.hidden_size)
