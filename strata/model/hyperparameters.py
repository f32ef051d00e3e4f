"""The numbers a model file gives about its architecture, read once and checked.

Decides ranges, defaults and which keys must be neutral, because a key that changes the math and is ignored gives
fluent nonsense. Knows nothing of tensors.
"""

import math
from dataclasses import dataclass

from strata.model.architecture_rules import ArchitectureRules, ExpertUse
from strata.model.gguf.limits import quoted
from strata.model.gguf.metadata import Metadata
from strata.model.gguf.vocabulary import TOKENS
from strata.model.spec import RopeSpec

MAX_BLOCKS, MAX_EXPERTS, MAX_HEADS = 1_024, 4_096, 4_096

# Keys of other architectures' math, each with the value that changes nothing here.
_NEUTRAL_NUMBERS = {
    "logit_scale": (0.0, 1.0),
    "embedding_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attn_logit_softcapping": (0.0,),
    "final_logit_softcapping": (0.0,),
    "rope.scaling.attn_factor": (0.0, 1.0),
    "expert_shared_count": (0.0,),
    "leading_dense_block_count": (0.0,),
}
_SOFTMAX = 1  # of expert_gating_func; 0 and absent mean the architecture's own, which is softmax for all of ours


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """`num_blocks` counts NextN blocks, `num_layers` (the trunk) does not. `ffn_size` is the width of a dense FFN or of
    one expert, `dense_ffn_size` that of a dense FFN, 0 where a mixture's file does not say it; `num_experts` is 0 in a
    dense model."""

    num_blocks: int
    num_nextn_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    dense_ffn_size: int
    num_experts: int
    num_experts_used: int
    expert_weights_scale: float
    vocab_size: int
    context_tokens: int
    rms_epsilon: float
    attention_scale: float
    rope: RopeSpec

    @property
    def num_layers(self) -> int:
        return self.num_blocks - self.num_nextn_layers


def read_hyperparameters(metadata: Metadata, architecture: str, rules: ArchitectureRules) -> Hyperparameters:
    """Raises ModelError naming the key that is missing, of a wrong type, out of range or not supported."""
    prefix = f"{architecture}."
    _refuse_other_math(metadata, prefix)
    num_blocks = metadata.integer(f"{prefix}block_count", minimum=1, maximum=MAX_BLOCKS)
    num_nextn_layers = metadata.integer(f"{prefix}nextn_predict_layers", 0, maximum=num_blocks - 1)
    hidden_size = metadata.integer(f"{prefix}embedding_length", minimum=1)
    num_heads, num_kv_heads = _heads(metadata, prefix, num_blocks)
    head_dim = _head_dim(metadata, prefix, hidden_size=hidden_size, num_heads=num_heads)
    num_experts, num_experts_used = _experts(metadata, prefix, architecture, rules)
    scale = metadata.number(f"{prefix}attention.scale", 0.0)
    return Hyperparameters(
        num_blocks=num_blocks,
        num_nextn_layers=num_nextn_layers,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        ffn_size=_ffn_size(metadata, prefix, rules, num_blocks=num_blocks, num_experts_used=num_experts_used),
        dense_ffn_size=metadata.per_layer_integer(f"{prefix}feed_forward_length", 0, num_layers=num_blocks),
        num_experts=num_experts,
        num_experts_used=num_experts_used,
        expert_weights_scale=metadata.number(f"{prefix}expert_weights_scale", 0.0) or 1.0,
        vocab_size=_vocab_size(metadata, prefix),
        context_tokens=metadata.integer(f"{prefix}context_length", minimum=1),
        rms_epsilon=_positive(metadata, f"{prefix}attention.layer_norm_rms_epsilon"),
        attention_scale=scale or 1.0 / math.sqrt(head_dim),
        rope=_rope(metadata, prefix, rules, head_dim),
    )


def _refuse_other_math(metadata: Metadata, prefix: str) -> None:
    for name, neutral in _NEUTRAL_NUMBERS.items():
        value = metadata.number(prefix + name, neutral[0])
        if value not in neutral:
            raise metadata.error(prefix + name, f"= {value:g} is not supported for this architecture")
    gating = metadata.integer(f"{prefix}expert_gating_func", _SOFTMAX)
    if gating not in (0, _SOFTMAX):
        raise metadata.error(f"{prefix}expert_gating_func", f"= {gating} is not supported; 1 (softmax) is")


def _heads(metadata: Metadata, prefix: str, num_blocks: int) -> tuple[int, int]:
    key, key_kv = f"{prefix}attention.head_count", f"{prefix}attention.head_count_kv"
    num_heads = metadata.per_layer_integer(key, num_layers=num_blocks)
    if not 1 <= num_heads <= MAX_HEADS:
        raise metadata.error(key, f"= {num_heads:,} is outside 1 .. {MAX_HEADS:,}")
    num_kv_heads = metadata.per_layer_integer(key_kv, num_heads, num_layers=num_blocks)
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise metadata.error(key_kv, f"= {num_kv_heads:,} does not divide head_count={num_heads:,}")
    return num_heads, num_kv_heads


def _head_dim(metadata: Metadata, prefix: str, *, hidden_size: int, num_heads: int) -> int:
    key, value_key = f"{prefix}attention.key_length", f"{prefix}attention.value_length"
    if key not in metadata and hidden_size % num_heads:
        raise metadata.error(key, f"is missing and head_count={num_heads:,} does not divide {hidden_size:,}")
    head_dim = metadata.integer(key, hidden_size // num_heads, minimum=1)
    if (value_length := metadata.integer(value_key, head_dim)) != head_dim:
        raise metadata.error(
            value_key, f"= {value_length:,} differs from the key length {head_dim:,}; one is supported"
        )
    return head_dim


def _experts(metadata: Metadata, prefix: str, architecture: str, rules: ArchitectureRules) -> tuple[int, int]:
    key, used_key = f"{prefix}expert_count", f"{prefix}expert_used_count"
    num_experts = metadata.integer(key, 0, maximum=MAX_EXPERTS)
    if num_experts and rules.experts is ExpertUse.NEVER:
        raise metadata.error(key, f"= {num_experts:,}, but architecture {architecture} is dense")
    if not num_experts:
        if rules.experts is ExpertUse.ALWAYS:
            raise metadata.error(key, f"is missing or 0; architecture {architecture} has experts")
        return 0, 0
    return num_experts, metadata.integer(used_key, minimum=1, maximum=num_experts)


def _ffn_size(
    metadata: Metadata, prefix: str, rules: ArchitectureRules, *, num_blocks: int, num_experts_used: int
) -> int:
    dense_key, expert_key = f"{prefix}feed_forward_length", f"{prefix}expert_feed_forward_length"
    if num_experts_used and metadata.integer(expert_key, 0):
        return metadata.integer(expert_key)
    size = metadata.per_layer_integer(dense_key, num_layers=num_blocks)
    if num_experts_used and rules.is_ffn_shared_by_used_experts:
        size //= num_experts_used
    if size < 1:
        raise metadata.error(dense_key, f"leaves an FFN of width {size}")
    return size


def _vocab_size(metadata: Metadata, prefix: str) -> int:
    """The token list's length: it is what ids are checked against."""
    if TOKENS not in metadata:
        raise metadata.error(TOKENS, "is missing: the file has no tokenizer")
    num_tokens = len(metadata.texts(TOKENS))
    if (said := metadata.integer(f"{prefix}vocab_size", num_tokens)) != num_tokens:
        raise metadata.error(f"{prefix}vocab_size", f"= {said:,}, but {TOKENS} has {num_tokens:,} elements")
    return num_tokens


def _positive(metadata: Metadata, key: str, default: float | None = None) -> float:
    value = metadata.number(key, default)
    if value <= 0:
        raise metadata.error(key, f"= {value:g} is not positive")
    return value


def _rope(metadata: Metadata, prefix: str, rules: ArchitectureRules, head_dim: int) -> RopeSpec:
    num_dims = metadata.integer(f"{prefix}rope.dimension_count", head_dim)
    if num_dims % 2 or not 2 <= num_dims <= head_dim:
        raise metadata.error(
            f"{prefix}rope.dimension_count", f"= {num_dims:,} is not an even number in 2 .. {head_dim:,}"
        )
    base = _positive(metadata, f"{prefix}rope.freq_base", 10_000.0)
    kind = metadata.text(f"{prefix}rope.scaling.type", "linear")
    if kind not in ("none", "linear"):
        raise metadata.error(
            f"{prefix}rope.scaling.type", f"= {quoted(kind)} is not supported in this version; none and linear are"
        )
    # Files from before rope.scaling.* name the factor rope.scale_linear. A factor of 0 means none was set.
    factor = metadata.number(f"{prefix}rope.scaling.factor", 0.0) or metadata.number(f"{prefix}rope.scale_linear", 0.0)
    if factor < 0:
        raise metadata.error(f"{prefix}rope.scaling.factor", f"= {factor:g} is negative")
    scale = 1.0 / factor if factor and kind == "linear" else 1.0
    return RopeSpec(rules.rope_pairing, base, num_dims, scale)
