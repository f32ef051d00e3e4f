"""Which tensors a model has, and with which shapes: the hyperparameters' claim, to be held against the file's.

Shapes are GGML's {ne0, ne1, ...}, ne0 contiguous. Routed experts are not here: they make blobs (`model.blobs`).
"""

from dataclasses import dataclass

from strata.model.architecture_rules import ArchitectureRules
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


def block_tensors(
    hyper: Hyperparameters, rules: ArchitectureRules, block: int, *, is_dense: bool
) -> dict[str, Expected]:
    """Tensors of one block under their full names; those of a NextN block are a layer's and its own."""
    tensors = _attention(hyper, rules) | _ffn(hyper, is_dense=is_dense)
    if block >= hyper.num_layers:
        tensors |= _nextn(hyper)
    return {f"blk.{block}.{name}": expected for name, expected in tensors.items()}


def _attention(hyper: Hyperparameters, rules: ArchitectureRules) -> dict[str, Expected]:
    hidden, query, key = hyper.hidden_size, hyper.num_heads * hyper.head_dim, hyper.num_kv_heads * hyper.head_dim
    tensors = {
        "attn_norm.weight": Expected((hidden,)),
        "attn_q.weight": Expected((hidden, query)),
        "attn_k.weight": Expected((hidden, key)),
        "attn_v.weight": Expected((hidden, key)),
        "attn_output.weight": Expected((query, hidden)),
        "attn_q.bias": Expected((query,), rules.has_qkv_bias),
        "attn_k.bias": Expected((key,), rules.has_qkv_bias),
        "attn_v.bias": Expected((key,), rules.has_qkv_bias),
        "attn_output.bias": Expected((hidden,), is_required=False),
    }
    if rules.has_qk_norm:
        tensors |= {f"attn_{role}_norm.weight": Expected((hyper.head_dim,)) for role in "qk"}
    return tensors


def _ffn(hyper: Hyperparameters, *, is_dense: bool) -> dict[str, Expected]:
    norm = {"ffn_norm.weight": Expected((hyper.hidden_size,))}
    if not is_dense:
        return norm | {"ffn_gate_inp.weight": Expected((hyper.hidden_size, hyper.num_experts))}
    return norm | {
        "ffn_gate.weight": Expected((hyper.hidden_size, hyper.dense_ffn_size)),
        "ffn_up.weight": Expected((hyper.hidden_size, hyper.dense_ffn_size)),
        "ffn_down.weight": Expected((hyper.dense_ffn_size, hyper.hidden_size)),
    }


def _nextn(hyper: Hyperparameters) -> dict[str, Expected]:
    hidden, vocab = hyper.hidden_size, hyper.vocab_size
    return {
        "nextn.eh_proj.weight": Expected((2 * hidden, hidden)),
        "nextn.enorm.weight": Expected((hidden,)),
        "nextn.hnorm.weight": Expected((hidden,)),
        "nextn.shared_head_norm.weight": Expected((hidden,), is_required=False),
        "nextn.embed_tokens.weight": Expected((hidden, vocab), is_required=False),
        "nextn.shared_head_head.weight": Expected((hidden, vocab), is_required=False),
    }
