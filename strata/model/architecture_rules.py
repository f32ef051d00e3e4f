"""What differs between the architectures that are supported: one table. Knows nothing of files."""

from dataclasses import dataclass
from enum import StrEnum

from strata.model.spec import RopePairing


class ExpertUse(StrEnum):
    NEVER = "never"
    BY_KEY = "by key"  # experts iff expert_count > 0
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class ArchitectureRules:
    """`has_qkv_bias`: the three biases must be there; without it, as for `attn_output.bias`, they may be.
    `is_ffn_shared_by_used_experts`: without an expert width of its own, feed_forward_length is that of all used experts
    together."""

    rope_pairing: RopePairing
    experts: ExpertUse
    has_qkv_bias: bool = False
    has_qk_norm: bool = False
    is_ffn_shared_by_used_experts: bool = False


ARCHITECTURES: dict[str, ArchitectureRules] = {
    # Llama, Mistral, SmolLM, and Mixtral with experts.
    "llama": ArchitectureRules(RopePairing.NORM, ExpertUse.BY_KEY),
    "qwen2": ArchitectureRules(RopePairing.NEOX, ExpertUse.NEVER, has_qkv_bias=True),
    "qwen3": ArchitectureRules(RopePairing.NEOX, ExpertUse.NEVER, has_qk_norm=True),
    "qwen3moe": ArchitectureRules(
        RopePairing.NEOX, ExpertUse.ALWAYS, has_qk_norm=True, is_ffn_shared_by_used_experts=True
    ),
}
