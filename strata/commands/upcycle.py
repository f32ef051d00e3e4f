"""Makes a mixture of experts of a dense GGUF file: every expert starts as a copy of the dense feed-forward network.

With top-k weights that sum to 1, as in the Mixtral layout, copies give the dense model's output whatever the router
picks, so the result needs no training (the idea: sparse upcycling, arXiv:2212.05055). Decides the order of tensors in
the new file and what changes in its metadata; knows nothing of where files come from or go to.

Streams: at any moment one matrix of one expert is in memory, beside the mapped source file.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize, quantize

ROUTER_SCALE = 0.1
"""Standard deviation of the router's weights: with unit-RMS inputs the logits spread wide enough for a clear top 2."""

FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")

Advance = Callable[[int], object]
"""Told the bytes just written."""


@dataclass(frozen=True, slots=True)
class UpcycleRecipe:
    """`noise` is relative to each matrix's standard deviation; 0 makes exact copies, whose bytes stay as they are."""

    num_experts: int = 8
    num_experts_used: int = 2
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        assert 1 <= self.num_experts_used <= self.num_experts and self.noise >= 0, self


@dataclass(frozen=True, slots=True)
class _Tensor:
    """`shape` is numpy's order; rows of quantized tensors are counted in bytes. `parts` yields the data in order."""

    name: str
    type_id: GGMLQuantizationType
    shape: tuple[int, ...]
    dtype: Any
    size_bytes: int
    parts: Callable[[], Iterator[np.ndarray[Any, Any]]]


def upcycled_bytes(source: Path, recipe: UpcycleRecipe) -> int:
    """Bytes of tensor data that `upcycle` will write, padding not counted."""
    return sum(tensor.size_bytes for tensor in _plan_tensors(GGUFReader(source), recipe))


def upcycle(source: Path, target: Path, recipe: UpcycleRecipe, advance: Advance = lambda size_bytes: None) -> None:
    """Write the mixture to `target`, a new file. The same source and recipe give the same bytes.

    Raises OSError when the file cannot be written, ValueError when `source` is no dense llama model."""
    reader = GGUFReader(source)
    tensors = _plan_tensors(reader, recipe)
    writer = GGUFWriter(target, "llama")
    try:
        _describe(reader, writer, recipe)
        for tensor in tensors:
            writer.add_tensor_info(tensor.name, tensor.shape, tensor.dtype, tensor.size_bytes, raw_dtype=tensor.type_id)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
    finally:
        writer.close()
    with target.open("ab") as file:
        for tensor in tensors:
            _pad(file, writer.data_alignment)
            for part in tensor.parts():
                file.write(part.data)
                advance(part.nbytes)
        _pad(file, writer.data_alignment)


def _describe(reader: GGUFReader, writer: GGUFWriter, recipe: UpcycleRecipe) -> None:
    """The source's metadata, its name and size changed, the keys of experts added."""
    renamed = {
        "general.name": f"{_value(reader, 'general.name')}, {recipe.num_experts} experts",
        "general.size_label": f"{recipe.num_experts}x{_value(reader, 'general.size_label')}",
    }
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        sub_type = field.types[-1] if field.types[0] is GGUFValueType.ARRAY else None
        writer.add_key_value(key, renamed.get(key, field.contents()), field.types[0], sub_type=sub_type)
    writer.add_expert_count(recipe.num_experts)
    writer.add_expert_used_count(recipe.num_experts_used)
    writer.add_expert_feed_forward_length(_value(reader, "llama.feed_forward_length"))


def _plan_tensors(reader: GGUFReader, recipe: UpcycleRecipe) -> list[_Tensor]:
    if _value(reader, "general.architecture") != "llama" or "llama.expert_count" in reader.fields:
        raise ValueError("only a dense model of architecture llama can be made into this mixture")
    hidden_size = int(_value(reader, "llama.embedding_length"))
    planned: list[_Tensor] = []
    for index, tensor in enumerate(reader.tensors):
        kind = tensor.name.removesuffix(".weight").rpartition(".")[2]
        if kind not in FEED_FORWARD:
            planned.append(_copied(tensor))
            continue
        planned.append(_experts(tensor, recipe, seed=index))
        if kind == "ffn_gate":
            planned.append(_router(tensor.name.replace("ffn_gate", "ffn_gate_inp"), hidden_size, recipe, seed=index))
    return planned


def _copied(tensor: Any) -> _Tensor:
    data = np.ascontiguousarray(tensor.data)
    return _Tensor(tensor.name, tensor.tensor_type, data.shape, data.dtype, data.nbytes, lambda: iter((data,)))


def _experts(tensor: Any, recipe: UpcycleRecipe, *, seed: int) -> _Tensor:
    """`blk.N.ffn_gate.weight` [rows, row bytes] as `blk.N.ffn_gate_exps.weight` [experts, rows, row bytes]."""
    data, type_id = tensor.data, tensor.tensor_type

    def parts() -> Iterator[np.ndarray[Any, Any]]:
        dense = np.ascontiguousarray(data)
        if recipe.noise == 0:
            for _ in range(recipe.num_experts):
                yield dense
            return
        weights = dequantize(dense, type_id)
        spread = np.float32(weights.std() * recipe.noise)
        draw = np.random.default_rng((recipe.seed, 1, seed))
        for _ in range(recipe.num_experts):
            yield quantize(weights + spread * draw.standard_normal(weights.shape, np.float32), type_id)

    name = tensor.name.replace(".weight", "_exps.weight")
    shape = (recipe.num_experts, *data.shape)
    return _Tensor(name, type_id, shape, data.dtype, recipe.num_experts * data.nbytes, parts)


def _router(name: str, hidden_size: int, recipe: UpcycleRecipe, *, seed: int) -> _Tensor:
    draw = np.random.default_rng((recipe.seed, 0, seed))
    weights = draw.standard_normal((recipe.num_experts, hidden_size), np.float32) * np.float32(ROUTER_SCALE)
    return _Tensor(
        name, GGMLQuantizationType.F32, weights.shape, weights.dtype, weights.nbytes, lambda: iter((weights,))
    )


def _value(reader: GGUFReader, key: str) -> Any:
    field = reader.get_field(key)
    if field is None:
        raise ValueError(f"metadata key {key} is missing")
    return field.contents()


def _pad(file: IO[bytes], alignment: int) -> None:
    file.write(bytes(-file.tell() % alignment))
