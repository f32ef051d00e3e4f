"""The numbers a model file gives about its architecture, read once and checked.

Decides ranges, defaults and which keys must be neutral, because a key that changes the math and is ignored gives
fluent nonsense. Knows nothing of tensors.
"""

import math
from dataclasses import dataclass

from strata.model.architecture_rules import ArchitectureRules, ExpertUse, SharedExpert
from strata.model.gguf.limits import quoted
from strata.model.gguf.metadata import Metadata
from strata.model.gguf.vocabulary import TOKENS
from strata.model.recurrence import read_recurrence, recurrent_blocks
from strata.model.spec import Gating, RecurrentSpec, RopeSpec

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
    "expert_group_count": (0.0, 1.0),
    "expert_group_used_count": (0.0, 1.0),
}
_GATINGS = {Gating.SOFTMAX: 1, Gating.SIGMOID: 2}  # of expert_gating_func; 0 and absent mean the architecture's own


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """`num_blocks` counts NextN blocks, `num_layers` (the trunk) does not. `ffn_size` is the width of one expert, or of
    the FFN of a dense model, `dense_ffn_size` that of a dense block, 0 where a mixture's file does not say it,
    `shared_ffn_size` that of the shared expert; `num_experts` is 0 in a dense model. `is_recurrent` has a flag for each
    of the blocks."""

    num_blocks: int
    num_nextn_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    dense_ffn_size: int
    shared_ffn_size: int
    num_leading_dense: int
    num_experts: int
    num_experts_used: int
    expert_weights_scale: float
    normalizes_expert_weights: bool
    vocab_size: int
    context_tokens: int
    rms_epsilon: float
    attention_scale: float
    rope: RopeSpec
    recurrent: RecurrentSpec | None
    is_recurrent: tuple[bool, ...]

    @property
    def num_layers(self) -> int:
        return self.num_blocks - self.num_nextn_layers

    def is_dense(self, block: int) -> bool:
        """Whether a block of the trunk has a dense FFN."""
        return not self.num_experts or block < self.num_leading_dense


def read_hyperparameters(metadata: Metadata, architecture: str, rules: ArchitectureRules) -> Hyperparameters:
    """Raises ModelError naming the key that is missing, of a wrong type, out of range or not supported."""
    prefix = f"{architecture}."
    _refuse_other_math(metadata, prefix, rules)
    num_blocks = metadata.integer(f"{prefix}block_count", minimum=1, maximum=MAX_BLOCKS)
    num_nextn_layers = metadata.integer(f"{prefix}nextn_predict_layers", 0, maximum=num_blocks - 1)
    hidden_size = metadata.integer(f"{prefix}embedding_length", minimum=1)
    num_layers = num_blocks - num_nextn_layers
    is_recurrent = recurrent_blocks(metadata, prefix, rules, num_blocks=num_blocks, num_layers=num_layers)
    num_heads, num_kv_heads = _heads(metadata, prefix, is_recurrent)
    head_dim = _head_dim(metadata, prefix, hidden_size=hidden_size, num_heads=num_heads)
    num_experts, num_experts_used = _experts(metadata, prefix, architecture, rules)
    ffn_size = _ffn_size(metadata, prefix, rules, num_blocks=num_blocks, num_experts_used=num_experts_used)
    scale = metadata.number(f"{prefix}attention.scale", 0.0)
    return Hyperparameters(
        num_blocks=num_blocks,
        num_nextn_layers=num_nextn_layers,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        ffn_size=ffn_size,
        dense_ffn_size=metadata.per_layer_integer(f"{prefix}feed_forward_length", 0, num_layers=num_blocks),
        shared_ffn_size=_shared_ffn_size(metadata, prefix, rules, ffn_size=ffn_size) if num_experts else 0,
        num_leading_dense=_leading_dense(metadata, prefix, rules, num_layers=num_layers),
        num_experts=num_experts,
        num_experts_used=num_experts_used,
        expert_weights_scale=metadata.number(f"{prefix}expert_weights_scale", 0.0) or 1.0,
        normalizes_expert_weights=_normalizes(metadata, prefix, rules),
        vocab_size=_vocab_size(metadata, prefix),
        context_tokens=metadata.integer(f"{prefix}context_length", minimum=1),
        rms_epsilon=_positive(metadata, f"{prefix}attention.layer_norm_rms_epsilon"),
        attention_scale=scale or 1.0 / math.sqrt(head_dim),
        rope=_rope(metadata, prefix, rules, head_dim),
        recurrent=read_recurrence(metadata, prefix, rules),
        is_recurrent=is_recurrent,
    )


def _refuse_other_math(metadata: Metadata, prefix: str, rules: ArchitectureRules) -> None:
    neutral_numbers = dict(_NEUTRAL_NUMBERS)
    if not rules.has_leading_dense_blocks:
        neutral_numbers["leading_dense_block_count"] = (0.0,)
    if rules.shared_expert is not SharedExpert.PLAIN:
        neutral_numbers["expert_shared_count"] = (0.0, 1.0) if rules.shared_expert is SharedExpert.GATED else (0.0,)
    for name, neutral in neutral_numbers.items():
        value = metadata.number(prefix + name, neutral[0])
        if value not in neutral:
            raise metadata.error(prefix + name, f"= {value:g} is not supported for this architecture")
    gating, ours = metadata.integer(f"{prefix}expert_gating_func", 0), _GATINGS[rules.gating]
    if gating not in (0, ours):
        raise metadata.error(f"{prefix}expert_gating_func", f"= {gating} is not supported; {ours} ({rules.gating}) is")


def _heads(metadata: Metadata, prefix: str, is_recurrent: tuple[bool, ...]) -> tuple[int, int]:
    """What an array says of a block that does not attend (0 in some files) does not count."""
    key, key_kv = f"{prefix}attention.head_count", f"{prefix}attention.head_count_kv"
    num_blocks = len(is_recurrent)
    num_heads = metadata.per_layer_integer(key, num_layers=num_blocks, ignored=is_recurrent)
    if not 1 <= num_heads <= MAX_HEADS:
        raise metadata.error(key, f"= {num_heads:,} is outside 1 .. {MAX_HEADS:,}")
    num_kv_heads = metadata.per_layer_integer(key_kv, num_heads, num_layers=num_blocks, ignored=is_recurrent)
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


def _shared_ffn_size(metadata: Metadata, prefix: str, rules: ArchitectureRules, *, ffn_size: int) -> int:
    if rules.shared_expert is SharedExpert.GATED:
        return metadata.integer(f"{prefix}expert_shared_feed_forward_length", minimum=1)
    if rules.shared_expert is SharedExpert.PLAIN:
        return ffn_size * metadata.integer(f"{prefix}expert_shared_count", minimum=1, maximum=MAX_EXPERTS)
    return 0


def _leading_dense(metadata: Metadata, prefix: str, rules: ArchitectureRules, *, num_layers: int) -> int:
    if not rules.has_leading_dense_blocks:
        return 0
    return metadata.integer(f"{prefix}leading_dense_block_count", 0, maximum=num_layers)


def _normalizes(metadata: Metadata, prefix: str, rules: ArchitectureRules) -> bool:
    """Weights that come from a softmax sum to 1 in all architectures here, whatever a file says; those from sigmoids
    only where it says so."""
    return rules.gating is Gating.SOFTMAX or metadata.flag(f"{prefix}expert_weights_norm", False)


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
