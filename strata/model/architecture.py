"""GGUF file -> ModelSpec. Decides that keys and tensors of the file tell the same story, and says which key or tensor
does not; knows nothing of how a tensor's bytes are read or computed with.

The story: `block_count` blocks, of which the last `nextn_predict_layers` are NextN (MTP) blocks. Those are checked
like any layer. A single one is the model's drafter; of several none is, since one is all that can be drafted with.
"""

import re
from collections.abc import Iterable, Mapping

from strata.model.architecture_rules import ARCHITECTURES, ArchitectureRules
from strata.model.blobs import take_blob_layout
from strata.model.expected_tensors import Expected, attention_tensors, ffn_tensors, global_tensors, nextn_tensors
from strata.model.file_tensors import FileTensors
from strata.model.gguf.limits import quoted
from strata.model.gguf.model_file import ModelFile
from strata.model.hyperparameters import Hyperparameters, read_hyperparameters
from strata.model.recurrent_tensors import recurrent_tensors
from strata.model.spec import BlobLayout, DrafterSpec, ModelSpec, TensorInfo

_BLOCK = re.compile(r"blk\.([0-9]{1,9})\.(.+)", re.DOTALL)


def spec_of(model: ModelFile) -> ModelSpec:
    """Raises ModelError for an architecture, key, type or tensor that is missing, contradicts another or is not
    supported. A tensor that the architecture has no use for is refused, since it would have changed the result."""
    architecture = model.metadata.text("general.architecture")
    rules = ARCHITECTURES.get(architecture)
    if rules is None:
        raise model.metadata.error(
            "general.architecture", f"= {quoted(architecture)} is not supported; {', '.join(ARCHITECTURES)} are"
        )
    hyper = read_hyperparameters(model.metadata, architecture, rules)
    tensors = FileTensors(model.path, model.tensors)
    _check_blocks(tensors, hyper, architecture)
    dense = tensors.take_all(global_tensors(hyper))
    blobs: list[BlobLayout | None] = []
    for block in range(hyper.num_layers):
        block_dense, blob = _take_block(tensors, hyper, rules, block)
        dense |= block_dense
        blobs.append(blob)
    drafters = [take_drafter(tensors, hyper, rules, block) for block in range(hyper.num_layers, hyper.num_blocks)]
    tensors.refuse_untaken(architecture)
    return _spec(model, architecture, hyper, rules, dense, tuple(blobs), drafters[0] if len(drafters) == 1 else None)


def take_drafter(tensors: FileTensors, hyper: Hyperparameters, rules: ArchitectureRules, block: int) -> DrafterSpec:
    """The NextN block `block`, checked against the keys of its file."""
    dense, blob = _take_block(tensors, hyper, rules, block)
    return DrafterSpec(hyper.num_experts if blob else 0, dense, blob)


def _spec(
    model: ModelFile,
    architecture: str,
    hyper: Hyperparameters,
    rules: ArchitectureRules,
    dense: dict[str, TensorInfo],
    blobs: tuple[BlobLayout | None, ...],
    drafter: DrafterSpec | None,
) -> ModelSpec:
    return ModelSpec(
        architecture=architecture,
        name=model.metadata.text("general.name", model.path.stem),
        num_layers=hyper.num_layers,
        hidden_size=hyper.hidden_size,
        num_heads=hyper.num_heads,
        num_kv_heads=hyper.num_kv_heads,
        head_dim=hyper.head_dim,
        vocab_size=hyper.vocab_size,
        context_tokens=hyper.context_tokens,
        rms_epsilon=hyper.rms_epsilon,
        attention_scale=hyper.attention_scale,
        rope=hyper.rope,
        num_experts=hyper.num_experts,
        num_experts_used=hyper.num_experts_used,
        expert_weights_scale=hyper.expert_weights_scale,
        dense=dense,
        blobs=blobs,
        identities=model.identities,
        num_nextn_layers=hyper.num_nextn_layers,
        drafter=drafter,
        recurrent=hyper.recurrent,
        is_recurrent=hyper.is_recurrent[: hyper.num_layers],
        has_attention_gate=rules.has_attention_gate,
        ffn_norm=rules.ffn_norm,
        gating=rules.gating,
        normalizes_expert_weights=hyper.normalizes_expert_weights,
    )


def _take_block(
    tensors: FileTensors, hyper: Hyperparameters, rules: ArchitectureRules, block: int
) -> tuple[dict[str, TensorInfo], BlobLayout | None]:
    is_nextn = block >= hyper.num_layers
    if hyper.is_recurrent[block]:
        mixer = recurrent_tensors(tensors, hyper, block)
    else:
        mixer = attention_tensors(hyper, rules)
        _split_qkv(tensors, mixer, block)
    # A mixture may have a drafter with a dense FFN, which its tensors say.
    is_dense = hyper.is_dense(block) or (is_nextn and f"blk.{block}.ffn_gate.weight" in tensors)
    expected = mixer | ffn_tensors(hyper, rules, is_dense=is_dense) | (nextn_tensors(hyper) if is_nextn else {})
    dense = tensors.take_all({f"blk.{block}.{name}": tensor for name, tensor in expected.items()})
    return dense, None if is_dense else take_blob_layout(tensors, hyper, block)


def _split_qkv(tensors: FileTensors, mixer: Mapping[str, Expected], block: int) -> None:
    """A file may hold the three projections of a block that attends, or their biases, as one tensor."""
    for kind in ("weight", "bias"):
        parts = {f"blk.{block}.attn_{role}.{kind}": mixer[f"attn_{role}.{kind}"].shape[-1] for role in "qkv"}
        tensors.split_rows(f"blk.{block}.attn_qkv.{kind}", parts)


def _check_blocks(tensors: FileTensors, hyper: Hyperparameters, architecture: str) -> None:
    """Block numbers and NextN tensors against `block_count` and `nextn_predict_layers`: the two keys that a converter
    gets wrong together, so the message names both."""
    keys = (
        f"{architecture}.block_count={hyper.num_blocks}, {architecture}.nextn_predict_layers={hyper.num_nextn_layers}"
    )
    seen: set[int] = set()
    for name, block, rest in _in_blocks(tensors.untaken()):
        if block >= hyper.num_blocks:
            raise tensors.error(f"tensor {quoted(name)} is in a block that the keys do not have: {keys}")
        if rest.startswith("nextn.") and block < hyper.num_layers:
            raise tensors.error(f"tensor {quoted(name)} is of a NextN block, but block {block} is a layer: {keys}")
        seen.add(block)
    if seen and min(seen) >= hyper.num_layers:
        raise tensors.error(f"holds a NextN block and no layers; give it as --mtp FILE beside its model: {keys}")
    for block in range(hyper.num_blocks):
        if block not in seen:
            what = "layer" if block < hyper.num_layers else "NextN block"
            raise tensors.error(f"{what} {block} has no tensors: {keys}")


def _in_blocks(names: Iterable[str]) -> Iterable[tuple[str, int, str]]:
    for name in names:
        if match := _BLOCK.fullmatch(name):
            yield name, int(match[1]), match[2]
