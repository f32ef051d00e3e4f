"""Which tensors a model has, and with which shapes: the hyperparameters' claim, to be held against the file's.

Shapes are GGML's {ne0, ne1, ...}, ne0 contiguous. Routed experts are not here: they make blobs (`model.blobs`).
"""

from dataclasses import dataclass

from strata.model.architecture_rules import ArchitectureRules, SharedExpert
from strata.model.hyperparameters import Hyperparameters


@dataclass(frozen=True, slots=True)
class Expected:
    shape: tuple[int, ...]
    is_required: bool = True


def global_tensors(hyper: Hyperparameters) -> dict[str, Expected]:
    """Tensors that belong to no block. Without output.weight the head is the token embedding."""
    return {
        "token_embd.weight": Expected((hyper.hidden_size, hyper.vocab_size)),
        "output_norm.weight": Expected((hyper.hidden_size,)),
        "output.weight": Expected((hyper.hidden_size, hyper.vocab_size), is_required=False),
        "rope_freqs.weight": Expected((hyper.rope.num_dims // 2,), is_required=False),
    }


def attention_tensors(hyper: Hyperparameters, rules: ArchitectureRules) -> dict[str, Expected]:
    """Of a block that attends, under their names in the block. With a gate, a head has D query rows, then D gates."""
    hidden, width = hyper.hidden_size, hyper.num_heads * hyper.head_dim
    query, key = (2 * width if rules.has_attention_gate else width), hyper.num_kv_heads * hyper.head_dim
    tensors = {
        "attn_norm.weight": Expected((hidden,)),
        "attn_q.weight": Expected((hidden, query)),
        "attn_k.weight": Expected((hidden, key)),
        "attn_v.weight": Expected((hidden, key)),
        "attn_output.weight": Expected((width, hidden)),
        "attn_q.bias": Expected((query,), rules.has_qkv_bias),
        "attn_k.bias": Expected((key,), rules.has_qkv_bias),
        "attn_v.bias": Expected((key,), rules.has_qkv_bias),
        "attn_output.bias": Expected((hidden,), is_required=False),
    }
    if rules.has_qk_norm or rules.may_have_qk_norm:
        norm = Expected((hyper.head_dim,), rules.has_qk_norm)
        tensors |= {f"attn_{role}_norm.weight": norm for role in "qk"}
    return tensors


def ffn_tensors(hyper: Hyperparameters, rules: ArchitectureRules, *, is_dense: bool) -> dict[str, Expected]:
    """Of one block, under their names in the block: a dense FFN, or router and shared expert."""
    norm = {rules.ffn_norm: Expected((hyper.hidden_size,))}
    if is_dense:
        return norm | _gate_up_down("", hyper.hidden_size, hyper.dense_ffn_size)
    tensors = norm | {"ffn_gate_inp.weight": Expected((hyper.hidden_size, hyper.num_experts))}
    if rules.has_router_bias:
        tensors["exp_probs_b.bias"] = Expected((hyper.num_experts,))
    if rules.shared_expert is not SharedExpert.NONE:
        tensors |= _gate_up_down("_shexp", hyper.hidden_size, hyper.shared_ffn_size)
    if rules.shared_expert is SharedExpert.GATED:
        tensors["ffn_gate_inp_shexp.weight"] = Expected((hyper.hidden_size,))
    return tensors


def _gate_up_down(suffix: str, hidden: int, ffn: int) -> dict[str, Expected]:
    return {
        f"ffn_gate{suffix}.weight": Expected((hidden, ffn)),
        f"ffn_up{suffix}.weight": Expected((hidden, ffn)),
        f"ffn_down{suffix}.weight": Expected((ffn, hidden)),
    }


def nextn_tensors(hyper: Hyperparameters) -> dict[str, Expected]:
    """What a NextN block has beside the tensors of a layer that attends."""
    hidden, vocab = hyper.hidden_size, hyper.vocab_size
    return {
        "nextn.eh_proj.weight": Expected((2 * hidden, hidden)),
        "nextn.enorm.weight": Expected((hidden,)),
        "nextn.hnorm.weight": Expected((hidden,)),
        "nextn.shared_head_norm.weight": Expected((hidden,), is_required=False),
        "nextn.embed_tokens.weight": Expected((hidden, vocab), is_required=False),
        "nextn.shared_head_head.weight": Expected((hidden, vocab), is_required=False),
    }
