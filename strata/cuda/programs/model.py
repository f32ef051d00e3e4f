"""A model as a card's programs see it. Values only; boot makes them of what `strata.model` knows."""

from collections.abc import Mapping
from dataclasses import dataclass

from kernels.triton.launch_delta import DeltaShape
from kernels.triton.launch_experts import ExpertShape
from strata.core.extent import Extent
from strata.core.kv import KvFormat
from strata.core.workspace import Workspace


@dataclass(frozen=True, slots=True)
class DenseMatrix:
    """W [rows, columns] in packed form of card type `type_id`, at home at `home`; a vector is F32 and has one row."""

    type_id: int
    rows: int
    columns: int
    home: Extent


@dataclass(frozen=True, slots=True)
class CardDrafter:
    """The drafter is layer `layer` of the model. Names of the tensors that may be its own or the model's: embedding,
    norm before the head, and head, this without `.weight`."""

    layer: int
    embedding: str
    norm: str
    head_stem: str


@dataclass(frozen=True, slots=True)
class CardModel:
    """`frequencies`: turns a position of each pair of rotated dims, rope factors included. `dense` has the GGUF names,
    the drafter's too. `experts[layer]` is None for a dense layer; the drafter's is the last. `prompt_work`,
    `window_work` and `draft_work`: areas of each kind of program in a chunk, a window and a draft, by the names under
    which they take them. `asks_windows`: the host asks which experts the rows of a window chose."""

    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    context_tokens: int
    kv_format: KvFormat  # of f16 or blocks
    rms_epsilon: float
    attention_scale: float
    is_neox: bool
    frequencies: tuple[float, ...]
    num_experts_used: int
    expert_weights_scale: float
    is_sigmoid: bool  # the router weighs each expert by itself
    normalizes_expert_weights: bool
    ffn_norm: str  # the tensor of a layer that normalizes what goes into its FFN
    output_stem: str  # of the head's tensor, without `.weight`
    dense: Mapping[str, DenseMatrix]
    experts: tuple[ExpertShape | None, ...]
    recurrent: DeltaShape | None
    has_attention_gate: bool
    prompt_work: Mapping[str, Workspace]
    window_work: Mapping[str, Workspace]
    draft_work: Mapping[str, Workspace]
    drafter: CardDrafter | None = None
    asks_windows: bool = False
