"""The drafter out of a file of its own: what converters write beside a model whose NextN block they left out.

    the file   blk.{trunk}.*: the block | token_embd, output_norm, output: repeated, so that the file opens alone

Decides that such a file belongs to the model; knows nothing of how a block's bytes are read. What it repeats of the
model is held against the model's shapes and then left where it lies: the drafter uses the model's own embedding, norm
and head, which are on the card anyway. The block may differ from a layer of the trunk in types, in the width of its FFN
and in the number of its experts. A whole model with one NextN block is such a file as well; its layers are not looked
at.
"""

from collections.abc import Iterator
from dataclasses import replace

from strata.core.errors import ModelError
from strata.model.architecture import take_drafter
from strata.model.architecture_rules import ARCHITECTURES
from strata.model.expected_tensors import global_tensors
from strata.model.file_identity import shown
from strata.model.file_tensors import FileTensors
from strata.model.gguf.limits import quoted
from strata.model.gguf.model_file import ModelFile
from strata.model.gguf.vocabulary import TOKENS
from strata.model.hyperparameters import Hyperparameters, read_hyperparameters
from strata.model.spec import ModelSpec


def with_drafter_of(file: ModelFile, model: ModelFile, spec: ModelSpec) -> ModelSpec:
    """`spec`, which is `model`'s, with the NextN block of `file` in place of its own. Raises ModelError that names the
    file and every key in which it is not of this model, or the tensor that is missing or does not fit."""
    architecture = file.metadata.text("general.architecture")
    if architecture != spec.architecture:
        raise file.metadata.error(
            "general.architecture", f"= {quoted(architecture)}, the model's is {quoted(spec.architecture)}"
        )
    rules = ARCHITECTURES[architecture]
    hyper = read_hyperparameters(file.metadata, architecture, rules)
    if reasons := [*_foreign_keys(hyper, spec, architecture), *_foreign_tokens(file, model)]:
        raise ModelError(*(f"{shown(file.path)}: {reason}" for reason in reasons))
    block = hyper.num_layers
    layers = tuple(f"blk.{layer}." for layer in range(block))
    ours = {name: info for name, info in file.tensors.items() if not name.startswith(layers)}
    tensors = FileTensors(file.path, ours)
    if not any(name.startswith(f"blk.{block}.") for name in ours):
        raise tensors.error(f"NextN block {block} has no tensors, so there is no drafter in this file")
    tensors.take_all(global_tensors(hyper))
    drafter = take_drafter(tensors, hyper, rules, block)
    tensors.refuse_untaken(architecture)
    return replace(spec, drafter=drafter, identities=spec.identities | file.identities)


def _foreign_keys(hyper: Hyperparameters, spec: ModelSpec, architecture: str) -> Iterator[str]:
    """What the file says otherwise than the model, of all that the drafter shares with it."""
    if hyper.num_nextn_layers != 1:
        key = f"{architecture}.nextn_predict_layers"
        yield f"key '{key}' = {hyper.num_nextn_layers}; a drafter is exactly one NextN block"
    same = (
        ("block_count less nextn_predict_layers", hyper.num_layers, spec.num_layers),
        ("embedding_length", hyper.hidden_size, spec.hidden_size),
        ("attention.head_count", hyper.num_heads, spec.num_heads),
        ("attention.head_count_kv", hyper.num_kv_heads, spec.num_kv_heads),
        ("attention.key_length", hyper.head_dim, spec.head_dim),
        ("attention.scale", hyper.attention_scale, spec.attention_scale),
        ("attention.layer_norm_rms_epsilon", hyper.rms_epsilon, spec.rms_epsilon),
        ("expert_used_count", hyper.num_experts_used, spec.num_experts_used),
        ("expert_weights_scale", hyper.expert_weights_scale, spec.expert_weights_scale),
        ("expert_weights_norm", hyper.normalizes_expert_weights, spec.normalizes_expert_weights),
        ("vocabulary in tokens", hyper.vocab_size, spec.vocab_size),
        ("rope.freq_base", hyper.rope.base, spec.rope.base),
        ("rope.dimension_count", hyper.rope.num_dims, spec.rope.num_dims),
        ("rope.scaling.factor as a scale", hyper.rope.scale, spec.rope.scale),
    )
    for name, theirs, ours in same:
        if theirs != ours:
            yield f"{name} = {theirs}, the model has {ours}; give --mtp a drafter of this model"


def _foreign_tokens(file: ModelFile, model: ModelFile) -> Iterator[str]:
    """As many tokens, but other ones: drafts would be of another language."""
    theirs, ours = file.metadata.texts(TOKENS), model.metadata.texts(TOKENS)
    if len(theirs) == len(ours) and list(theirs) != list(ours):
        first = next(index for index, (one, two) in enumerate(zip(theirs, ours, strict=True)) if one != two)
        yield f"key '{TOKENS}': token {first:,} is {quoted(theirs[first])}, the model's is {quoted(ours[first])}"
