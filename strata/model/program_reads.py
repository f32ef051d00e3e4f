"""Which dense tensors each program reads in each layer: what the core declares, and all that a program may touch.

Knows names only; imports no torch, so the planner and `strata plan` can ask.
"""

from collections.abc import Mapping

from strata.core.programs import (
    ATTENTION,
    DRAFT_HEAD,
    DRAFT_INPUT,
    DRAFT_KV,
    EMBED,
    FFN,
    HEAD,
    RECURRENT,
    ROUTER,
    SHARED,
)
from strata.model.spec import DrafterSpec, ModelSpec

ROPE_FACTORS = "rope_freqs.weight"
OUTPUT_NORM = "output_norm.weight"

_LAYER_TENSORS = {
    ATTENTION: (
        "attn_norm.weight",
        "attn_q.weight",
        "attn_q.bias",
        "attn_q_norm.weight",
        "attn_k.weight",
        "attn_k.bias",
        "attn_k_norm.weight",
        "attn_v.weight",
        "attn_v.bias",
        "attn_output.weight",
        "attn_output.bias",
    ),
    RECURRENT: (
        "attn_norm.weight",
        "attn_qkv.weight",
        "attn_gate.weight",
        "ssm_in.weight",
        "ssm_conv1d.weight",
        "ssm_ba.weight",
        "ssm_beta.weight",
        "ssm_alpha.weight",
        "ssm_dt.bias",
        "ssm_a",
        "ssm_norm.weight",
        "ssm_out.weight",
    ),
    ROUTER: (
        "ffn_norm.weight",
        "post_attention_norm.weight",
        "ffn_gate_inp.weight",
        "ffn_gate_inp.bias",
        "exp_probs_b.bias",
    ),
    SHARED: (
        "ffn_gate_inp_shexp.weight",
        "ffn_gate_shexp.weight",
        "ffn_up_shexp.weight",
        "ffn_down_shexp.weight",
    ),
    FFN: (
        "ffn_norm.weight",
        "post_attention_norm.weight",
        "ffn_gate.weight",
        "ffn_gate.bias",
        "ffn_up.weight",
        "ffn_up.bias",
        "ffn_down.weight",
        "ffn_down.bias",
    ),
}


def dense_reads(spec: ModelSpec) -> Mapping[tuple[str, int | None], tuple[str, ...]]:
    """(program, layer) -> names of the tensors it reads, of those that the model has; layer is None for `embed` and
    `head`. Programs that read no dense tensor are absent. A layer has `router` or `ffn`, never both, and `attention` or
    `recurrent`."""
    reads: dict[tuple[str, int | None], tuple[str, ...]] = {
        (EMBED, None): ("token_embd.weight",),
        (HEAD, None): (OUTPUT_NORM, spec.output_name),
    }
    for layer in range(spec.num_layers):
        if spec.is_recurrent and spec.is_recurrent[layer]:
            reads[RECURRENT, layer] = _present(spec, layer, RECURRENT)
        else:
            mixer = _present(spec, layer, ATTENTION)
            reads[ATTENTION, layer] = (*mixer, ROPE_FACTORS) if ROPE_FACTORS in spec.dense else mixer
        program = FFN if spec.blobs[layer] is None else ROUTER
        reads[program, layer] = _present(spec, layer, program)
        if shared := _present(spec, layer, SHARED):
            reads[SHARED, layer] = shared
    return reads if spec.drafter is None else reads | _drafter_reads(spec, spec.drafter)


def _drafter_reads(spec: ModelSpec, drafter: DrafterSpec) -> dict[tuple[str, int | None], tuple[str, ...]]:
    """The drafter's layer is one that attends; its K/V are filled by the same tensors."""
    layer = spec.num_layers
    fused = ("nextn.enorm.weight", "nextn.hnorm.weight", "nextn.eh_proj.weight")
    mixer = _present(spec, layer, ATTENTION)
    mixer = (*mixer, ROPE_FACTORS) if ROPE_FACTORS in spec.dense else mixer
    program = FFN if drafter.blob is None else ROUTER
    reads: dict[tuple[str, int | None], tuple[str, ...]] = {
        (DRAFT_INPUT, None): (draft_embedding(spec), OUTPUT_NORM, *(layer_tensor(layer, name) for name in fused)),
        (DRAFT_HEAD, None): (draft_norm(spec), draft_head(spec)),
        (DRAFT_KV, layer): mixer,
        (ATTENTION, layer): mixer,
        (program, layer): _present(spec, layer, program),
    }
    shared = _present(spec, layer, SHARED)
    return reads | {(SHARED, layer): shared} if shared else reads


def draft_embedding(spec: ModelSpec) -> str:
    return _own_or(spec, "nextn.embed_tokens.weight", "token_embd.weight")


def draft_norm(spec: ModelSpec) -> str:
    return _own_or(spec, "nextn.shared_head_norm.weight", OUTPUT_NORM)


def draft_head(spec: ModelSpec) -> str:
    return _own_or(spec, "nextn.shared_head_head.weight", spec.output_name)


def _own_or(spec: ModelSpec, suffix: str, of_model: str) -> str:
    """The drafter's own tensor where it has one, else the model's."""
    name = layer_tensor(spec.num_layers, suffix)
    return name if spec.has_tensor(name) else of_model


def layer_tensor(layer: int, suffix: str) -> str:
    """GGUF name of a tensor of block `layer`."""
    return f"blk.{layer}.{suffix}"


def _present(spec: ModelSpec, layer: int, program: str) -> tuple[str, ...]:
    names = (layer_tensor(layer, suffix) for suffix in _LAYER_TENSORS[program])
    return tuple(name for name in names if spec.has_tensor(name))
