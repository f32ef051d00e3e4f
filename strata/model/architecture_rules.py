"""What differs between the architectures that are supported: one table. Knows nothing of files."""

from dataclasses import dataclass
from enum import StrEnum

from strata.model.spec import Gating, HeadMap, RopePairing


class ExpertUse(StrEnum):
    NEVER = "never"
    BY_KEY = "by key"  # experts iff expert_count > 0
    ALWAYS = "always"


class SharedExpert(StrEnum):
    """The expert that every row goes to."""

    NONE = "none"
    GATED = "gated"  # times the sigmoid of one number a row; expert_shared_feed_forward_length wide
    PLAIN = "plain"  # expert_shared_count times as wide as a routed one


@dataclass(frozen=True, slots=True)
class ArchitectureRules:
    """`has_qkv_bias`: the three biases must be there; without it, as for `attn_output.bias`, they may be.
    `may_have_qk_norm`: a file may have the two norms that `has_qk_norm` asks for. `is_ffn_shared_by_used_experts`:
    without an expert width of its own, feed_forward_length is that of all used experts together. `head_map`: of the
    recurrent layers, None where all layers attend. `has_router_bias`: the choice of experts has a bias."""

    rope_pairing: RopePairing
    experts: ExpertUse
    has_qkv_bias: bool = False
    has_qk_norm: bool = False
    may_have_qk_norm: bool = False
    is_ffn_shared_by_used_experts: bool = False
    head_map: HeadMap | None = None
    has_attention_gate: bool = False
    ffn_norm: str = "ffn_norm.weight"
    shared_expert: SharedExpert = SharedExpert.NONE
    gating: Gating = Gating.SOFTMAX
    has_router_bias: bool = False
    has_leading_dense_blocks: bool = False


def _hybrid(experts: ExpertUse, head_map: HeadMap) -> ArchitectureRules:
    """Three layers of a gated delta net to one of gated attention, and a gated shared expert beside the routed ones."""
    return ArchitectureRules(
        RopePairing.NEOX,
        experts,
        has_qk_norm=True,
        is_ffn_shared_by_used_experts=True,
        head_map=head_map,
        has_attention_gate=True,
        ffn_norm="post_attention_norm.weight",
        shared_expert=SharedExpert.NONE if experts is ExpertUse.NEVER else SharedExpert.GATED,
    )


ARCHITECTURES: dict[str, ArchitectureRules] = {
    # Llama, Mistral, SmolLM, and Mixtral with experts.
    "llama": ArchitectureRules(RopePairing.NORM, ExpertUse.BY_KEY),
    "qwen2": ArchitectureRules(RopePairing.NEOX, ExpertUse.NEVER, has_qkv_bias=True),
    "qwen3": ArchitectureRules(RopePairing.NEOX, ExpertUse.NEVER, has_qk_norm=True),
    "qwen3moe": ArchitectureRules(
        RopePairing.NEOX, ExpertUse.ALWAYS, has_qk_norm=True, is_ffn_shared_by_used_experts=True
    ),
    "qwen3next": _hybrid(ExpertUse.ALWAYS, HeadMap.GROUPED),
    "qwen35moe": _hybrid(ExpertUse.ALWAYS, HeadMap.TILED),
    "qwen35": _hybrid(ExpertUse.NEVER, HeadMap.TILED),
    "glm4moe": ArchitectureRules(
        RopePairing.NEOX,
        ExpertUse.ALWAYS,
        may_have_qk_norm=True,
        ffn_norm="post_attention_norm.weight",
        shared_expert=SharedExpert.PLAIN,
        gating=Gating.SIGMOID,
        has_router_bias=True,
        has_leading_dense_blocks=True,
    ),
}
