"""`strata inspect`: what a model file holds, from its header alone."""

import re
from collections import Counter

from strata.commands.drafter_text import drafter_line
from strata.commands.terminal_text import one_line
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import ModelFile, open_model
from strata.model.inventory import drafter_inventory, inventory_of
from strata.model.quant_types import QUANT_TYPES
from strata.model.spec import ModelSpec, TensorInfo
from strata.sizes import format_bytes

_BLOCK = re.compile(r"blk\.(\d+)\.")
_GROUPS = (
    ("experts", ("_exps.", ".ffn_gate.", ".ffn_up.", ".ffn_down.")),
    ("recurrent", (".ssm_",)),
    ("shared expert", ("_shexp.",)),
    ("attention", (".attn_",)),
    ("router", (".ffn_gate_inp.", ".exp_probs_b.")),
    ("norms", ("norm.",)),
    ("embedding", ("token_embd.",)),
    ("output head", ("output.weight",)),
)


def run(path: str) -> int:
    """Raises ModelError for a file that is broken or not supported."""
    file = open_model(path)
    print("\n".join(inspect_lines(file, spec_of(file))))
    return 0


def inspect_lines(file: ModelFile, spec: ModelSpec) -> list[str]:
    """Text of the file itself goes out without control characters."""
    experts = "none (a dense model)"
    if spec.num_experts:
        blobs = [blob.size_bytes for blob in spec.blobs if blob is not None]
        sizes = ", ".join(f"{size_bytes:,}" for size_bytes in sorted(set(blobs)))
        experts = (
            f"{spec.num_experts} a layer, {spec.num_experts_used} used, in {len(blobs)} layers; blobs of {sizes} B"
        )
    template = file.metadata.get("tokenizer.chat_template")
    return [
        f"file          {one_line(str(file.path))}, {_count(len(file.shards), 'shard')}, "
        f"{format_bytes(file.total_bytes)}, GGUF v{file.version}",
        f"architecture  {spec.architecture}: {one_line(spec.name)}",
        f"shape         {spec.num_layers} layers, hidden {spec.hidden_size}, heads {spec.num_heads}/"
        f"{spec.num_kv_heads} of {spec.head_dim}, vocabulary {spec.vocab_size:,}, context {spec.context_tokens:,}",
        *_recurrent_lines(spec),
        f"experts       {experts}",
        f"MTP           {_mtp(spec)}",
        f"chat template {'in the file' if template else 'none: ChatML is used'}",
        "",
        *group_lines(list(file.tensors.values()), num_layers=spec.num_layers),
    ]


def _recurrent_lines(spec: ModelSpec) -> list[str]:
    """Nothing for a model whose layers all attend."""
    if spec.recurrent is None:
        return []
    state_bytes = sum(inventory_of(spec).state_bytes)
    return [
        f"recurrent     {sum(spec.is_recurrent)} of the layers, heads {spec.recurrent.num_value_heads}/"
        f"{spec.recurrent.num_key_heads} of {spec.recurrent.head_width}; state of a conversation "
        f"{format_bytes(state_bytes)}"
    ]


def _mtp(spec: ModelSpec) -> str:
    found = _count(spec.num_nextn_layers, "NextN block")
    if spec.num_nextn_layers > 1:
        return f"{found}; one can be the drafter"
    if spec.drafter is None:
        return found
    return f"{found}: {drafter_line(drafter_inventory(spec.drafter), num_experts_used=spec.num_experts_used)}"


def group_lines(tensors: list[TensorInfo], *, num_layers: int) -> list[str]:
    """Tensors by group: how many, how many bytes, in which types. Blocks behind `num_layers` are NextN blocks."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    types: dict[str, Counter[str]] = {}
    for tensor in tensors:
        group = group_of(tensor.name, num_layers=num_layers)
        counts[group] += 1
        sizes[group] += tensor.size_bytes
        types.setdefault(group, Counter())[QUANT_TYPES[tensor.type_id].name] += 1
    return [
        f"{group:<13} {counts[group]:>5} {'tensor ' if counts[group] == 1 else 'tensors'}  "
        f"{format_bytes(size_bytes):>10}  "
        + ", ".join(f"{count} x {name}" for name, count in types[group].most_common())
        for group, size_bytes in sizes.most_common()
    ]


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def group_of(name: str, *, num_layers: int) -> str:
    """The part of a model that a tensor belongs to, by its GGUF name: a NextN block is one part."""
    if (block := _BLOCK.match(name)) and int(block[1]) >= num_layers:
        return "MTP"
    for group, marks in _GROUPS:
        if any(mark in name for mark in marks):
            return "router" if ".ffn_gate_inp." in name else group
    return "other"
