"""A model as the engine's programs see it: hyperparameters and where each tensor lies. Values only, no torch.

`model.gguf` reads files, `model.architecture` makes a `ModelSpec` of one, `model.inventory` gives the planner its
sizes, `model.programs` computes with it.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from strata.model.file_identity import FileIdentity


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a file set. `shape` is GGML's order {ne0, ne1, ne2}: ne0 contiguous. `type_id` is the ggml type
    number. `offset_bytes` counts from the start of `path`."""

    name: str
    type_id: int
    shape: tuple[int, ...]
    path: Path
    offset_bytes: int
    size_bytes: int


class RopePairing(StrEnum):
    NORM = "norm"  # (x[2i], x[2i+1]): llama, rows permuted at conversion
    NEOX = "neox"  # (x[i], x[i+n_rot/2]): qwen


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """theta_i = position * scale * base^(-2i/dims) / factors[i]; `factors` comes from the tensor `rope_freqs.weight`
    where there is one (programs read it from there). `scale` is 1/factor of linear scaling, else 1."""

    pairing: RopePairing
    base: float
    num_dims: int
    scale: float = 1.0


class HeadMap(StrEnum):
    """Which key head value head j of a recurrent layer reads, of Hk key heads and r value heads to each."""

    GROUPED = "grouped"  # j // r: qwen3next
    TILED = "tiled"  # j % Hk: qwen35, rows reordered at conversion


@dataclass(frozen=True, slots=True)
class RecurrentSpec:
    """A gated delta net (Yang et al. 2024, arXiv:2412.06464) behind a short causal convolution. Keys and values of all
    heads are `head_width` wide. Its state of one sequence: f32 [Hv, S, S], row = key dim, then the last
    `num_conv_taps` - 1 rows of the convolution's input, f32 [taps - 1, C], oldest first."""

    num_key_heads: int
    num_value_heads: int
    head_width: int
    num_conv_taps: int
    head_map: HeadMap

    @property
    def key_width(self) -> int:
        return self.num_key_heads * self.head_width

    @property
    def value_width(self) -> int:
        return self.num_value_heads * self.head_width

    @property
    def num_channels(self) -> int:
        """C: queries, keys, values, one behind the other."""
        return 2 * self.key_width + self.value_width

    @property
    def matrix_floats(self) -> int:
        return self.value_width * self.head_width

    @property
    def state_floats(self) -> int:
        return self.matrix_floats + (self.num_conv_taps - 1) * self.num_channels

    @property
    def journal_floats(self) -> int:
        """What a row does to the state: the convolution's input, keys, what is to be added for them, and the decay."""
        return self.num_channels + self.key_width + self.value_width + self.num_value_heads

    @property
    def mixer_floats(self) -> int:
        """A row's working set: the convolution's input, the output gate, the heads' output, beta and alpha."""
        return self.num_channels + 2 * self.value_width + 2 * self.num_value_heads


class Gating(StrEnum):
    """How a router's logits become the weights of experts."""

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"  # each by itself; a bias takes part in the choice and not in the weight


@dataclass(frozen=True, slots=True)
class BlobPart:
    """One matrix inside a blob: y = W x with W [rows, columns] in ggml type `type_id`. `expert_sources[e]`
    says where the matrix of expert e lies: file and offset in it."""

    offset_bytes: int  # inside the blob, a multiple of 16
    size_bytes: int
    type_id: int
    rows: int
    columns: int
    expert_sources: tuple[tuple[Path, int], ...]  # one an expert


@dataclass(frozen=True, slots=True)
class BlobLayout:
    """The blob of every expert of one layer: gate, up, down, contiguous."""

    gate: BlobPart
    up: BlobPart
    down: BlobPart
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """The NextN block behind the trunk: layer `num_layers` of the model. `dense` holds its tensors that are not part of
    a blob, by GGUF name; what it has not of an embedding, norm or head of its own is the trunk's. `num_experts` is 0
    and `blob` None where its FFN is dense: there is then no block that could be lent."""

    num_experts: int
    dense: dict[str, TensorInfo]
    blob: BlobLayout | None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """`dense` holds every tensor of the trunk that is not part of a blob, by GGUF name; optional ones (biases, q/k
    norms, output) are simply absent. `blobs[layer]` is None for a dense layer. `identities` has every file that a
    tensor lies in, as it was when its header was read. `num_nextn_layers` is what the model's file says; `drafter` is
    None unless that is 1, and may come from a file of its own (`model.drafter`).

    `is_recurrent[layer]`: a layer of `recurrent` in place of attention. `has_attention_gate`: the query projection has
    a gate behind each head's query. `ffn_norm`: which tensor of a layer normalizes what goes into its FFN.
    `drafts_behind_output_norm`: the drafter takes the hidden row behind the output norm, as llama.cpp's graphs of all
    these architectures do; False is the row before it, for those who compare the two."""

    architecture: str
    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    context_tokens: int
    rms_epsilon: float
    attention_scale: float
    rope: RopeSpec
    num_experts: int
    num_experts_used: int
    expert_weights_scale: float
    dense: dict[str, TensorInfo]
    blobs: tuple[BlobLayout | None, ...]
    identities: dict[Path, FileIdentity]
    num_nextn_layers: int = 0
    drafter: DrafterSpec | None = None
    recurrent: RecurrentSpec | None = None
    is_recurrent: tuple[bool, ...] = ()
    has_attention_gate: bool = False
    ffn_norm: str = "ffn_norm.weight"
    gating: Gating = Gating.SOFTMAX
    normalizes_expert_weights: bool = True
    drafts_behind_output_norm: bool = True

    def blob_of(self, layer: int) -> BlobLayout | None:
        """The blob of any expert of `layer`; the drafter is layer `num_layers`."""
        if layer < self.num_layers:
            return self.blobs[layer]
        assert layer == self.num_layers and self.drafter is not None, (layer, self.num_layers)
        return self.drafter.blob

    def has_tensor(self, name: str) -> bool:
        """Of the trunk or of the drafter."""
        return name in self.dense or (self.drafter is not None and name in self.drafter.dense)

    def num_experts_of(self, layer: int) -> int:
        """Of the router of `layer`; the drafter is layer `num_layers`."""
        return self.drafter.num_experts if self.drafter and layer == self.num_layers else self.num_experts

    def tensor(self, name: str) -> TensorInfo:
        """A dense tensor of the trunk or of the drafter."""
        found = self.dense.get(name)
        if found is None:
            assert self.drafter is not None, name
            found = self.drafter.dense[name]
        return found

    @property
    def mixer_floats(self) -> int:
        """Numbers a row that the widest layer works in before its FFN (`PassBuffers.attention`)."""
        queries = (3 if self.has_attention_gate else 2) * self.num_heads
        attention = (queries + 2 * self.num_kv_heads) * self.head_dim
        return max(attention, self.recurrent.mixer_floats if self.recurrent else 0)

    @property
    def output_name(self) -> str:
        """The output head: its own tensor, or the token embedding when tied."""
        return "output.weight" if "output.weight" in self.dense else "token_embd.weight"
