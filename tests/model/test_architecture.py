"""A file's keys and tensors become a ModelSpec, or a ModelError that names the key or tensor that does not fit."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from strata.core.errors import ModelError
from strata.core.inventory import ModelInventory
from strata.model.architecture import spec_of
from strata.model.architecture_rules import ARCHITECTURES
from strata.model.gguf.model_file import open_model
from strata.model.inventory import inventory_of
from strata.model.spec import BlobPart, ModelSpec, RopePairing
from tests.fixtures.gguf_file import Array, ModelShape, write_gguf
from tests.fixtures.models import FAMILIES, HYBRIDS, model_shape, write_random_model
from tests.fixtures.weights import random_tensors

MOE = ("mixtral", "qwen3moe")
SEVERAL_KINDS = (*HYBRIDS, "glm4moe")
"""Families whose second layer is of another kind than the first."""


def write_changed(
    path: Path,
    shape: ModelShape,
    *,
    without: tuple[str, ...] = (),
    replaced: dict[str, Array] | None = None,
    extra_keys: dict[str, Any] | None = None,
    tensor_shape: ModelShape | None = None,
) -> Path:
    """A model whose keys say `shape`, with tensors of `tensor_shape` less those that end in `without`."""
    tensors = random_tensors(tensor_shape or shape, seed=0, tied=False) | (replaced or {})
    kept = {name: values for name, values in tensors.items() if not name.endswith(without)}
    return write_gguf(path, shape, kept, quants={}, extra_keys=extra_keys)


def reason_for(path: Path) -> str:
    model = open_model(path)
    with pytest.raises(ModelError) as caught:
        spec_of(model)
    (reason,) = caught.value.reasons
    assert str(path) in reason and "\n" not in reason
    return reason


@pytest.mark.parametrize("family", FAMILIES)
def test_the_spec_says_what_the_file_was_written_with(family: str, tmp_path: Path) -> None:
    shape = model_shape(family, layers=3, context=384)
    spec = spec_of(open_model(write_random_model(tmp_path / "m.gguf", arch=family, layers=3, context=384)))
    assert (spec.architecture, spec.name) == (shape.architecture, f"fixture {shape.architecture}")
    assert (spec.num_layers, spec.hidden_size, spec.head_dim) == (3, shape.hidden, shape.head_dim)
    assert (spec.num_heads, spec.num_kv_heads) == (shape.heads, shape.kv_heads)
    assert (spec.vocab_size, spec.context_tokens) == (shape.vocab, 384)
    assert (spec.num_experts, spec.num_experts_used) == (shape.experts, shape.used if shape.experts else 0)
    assert spec.attention_scale == 1 / math.sqrt(shape.head_dim)
    assert spec.rms_epsilon == np.float32(1e-6) and spec.expert_weights_scale == (1.5 if family == "glm4moe" else 1.0)
    assert spec.rope.pairing is (RopePairing.NORM if shape.architecture == "llama" else RopePairing.NEOX)
    assert (spec.rope.base, spec.rope.num_dims, spec.rope.scale) == (10_000.0, shape.rope_dims or shape.head_dim, 1.0)
    assert [blob is None for blob in spec.blobs] == [shape.is_dense(layer) for layer in range(3)]
    assert list(spec.is_recurrent) == [shape.is_recurrent(layer) for layer in range(3)]
    expected = {name for name in random_tensors(shape, seed=0, tied=False) if "_exps" not in name}
    assert spec.dense.keys() == expected


@pytest.mark.parametrize("tied", [False, True])
def test_a_tied_model_has_the_embedding_as_output(tied: bool, tmp_path: Path) -> None:
    spec = spec_of(open_model(write_random_model(tmp_path / "m.gguf", tied=tied)))
    assert spec.output_name == ("token_embd.weight" if tied else "output.weight")


@pytest.mark.slow
@given(
    quants=st.tuples(*[st.sampled_from(["F32", "F16", "Q4_0", "Q4_1", "Q5_0", "Q8_0", "MXFP4"])] * 3),
    experts=st.integers(2, 5),
    ffn=st.sampled_from([32, 33, 96]),
)
@example(quants=("Q4_0", "Q5_0", "F32"), experts=2, ffn=33)
def test_a_blob_is_gate_up_down_each_on_16_bytes(
    quants: tuple[str, str, str], experts: int, ffn: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """33 rows of Q4_0 are 594 B, so up does not follow gate at once; a down of 33 columns must be of whole elements."""
    assume(ffn % 32 == 0 or quants[2] in ("F32", "F16"))
    path = tmp_path_factory.getbasetemp() / "blob.gguf"
    sizes: dict[str, Any] = {"layers": 1, "hidden": 32, "heads": 1, "kv_heads": 1, "vocab": 259}
    model = open_model(write_random_model(path, expert_quants=quants, experts=experts, ffn=ffn, **sizes))
    spec = spec_of(model)
    (blob,) = spec.blobs
    assert blob is not None
    assert blob.gate.offset_bytes == 0
    for before, part in ((blob.gate, blob.up), (blob.up, blob.down)):
        assert part.offset_bytes % 16 == 0
        assert 0 <= part.offset_bytes - (before.offset_bytes + before.size_bytes) < 16
    assert blob.size_bytes == blob.down.offset_bytes + blob.down.size_bytes
    for role, part in (("gate", blob.gate), ("up", blob.up), ("down", blob.down)):
        info = model.tensors[f"blk.0.ffn_{role}_exps.weight"]
        assert (part.type_id, part.columns, part.rows) == (info.type_id, *info.shape[:2])
        assert part.size_bytes * experts == info.size_bytes
        offsets = [info.offset_bytes + expert * part.size_bytes for expert in range(experts)]
        assert part.expert_sources == tuple((path, offset) for offset in offsets)


def test_old_per_expert_tensors_make_the_same_blobs(tmp_path: Path) -> None:
    merged = spec_of(open_model(write_random_model(tmp_path / "new.gguf")))
    single = spec_of(open_model(write_random_model(tmp_path / "old.gguf", per_expert_tensors=True)))
    for ours, theirs in zip(single.blobs, merged.blobs, strict=True):
        assert ours is not None and theirs is not None
        for part, other in ((ours.gate, theirs.gate), (ours.up, theirs.up), (ours.down, theirs.down)):
            assert replace(part, expert_sources=()) == replace(other, expert_sources=())
            assert [content(part, expert) for expert in range(8)] == [content(other, expert) for expert in range(8)]


def content(part: BlobPart, expert: int) -> bytes:
    path, offset_bytes = part.expert_sources[expert]
    return path.read_bytes()[offset_bytes : offset_bytes + part.size_bytes]


def test_fused_tensors_are_cut_into_rows(tmp_path: Path) -> None:
    """attn_qkv holds q, k, v rows; ffn_gate_up_exps holds each expert's gate rows, then its up rows."""
    shape = model_shape("mixtral", layers=1)
    tensors = random_tensors(shape, seed=0, tied=False)
    plain = spec_of(open_model(write_gguf(tmp_path / "plain.gguf", shape, tensors, quants={})))
    qkv = [tensors.pop(f"blk.0.attn_{role}.weight") for role in "qkv"]
    gate_up = [tensors.pop(f"blk.0.ffn_{role}_exps.weight") for role in ("gate", "up")]
    tensors["blk.0.attn_qkv.weight"] = np.concatenate(qkv)
    tensors["blk.0.ffn_gate_up_exps.weight"] = np.concatenate(gate_up, axis=1)
    fused = spec_of(open_model(write_gguf(tmp_path / "fused.gguf", shape, tensors, quants={})))
    assert fused.dense.keys() == plain.dense.keys()
    for name, info in plain.dense.items():
        assert dense_content(fused, name) == dense_content(plain, name)
        assert fused.dense[name].shape == info.shape
    ours, theirs = fused.blobs[0], plain.blobs[0]
    assert ours is not None and theirs is not None
    for expert in range(8):
        assert content(ours.gate, expert) == content(theirs.gate, expert)
        assert content(ours.up, expert) == content(theirs.up, expert)


def dense_content(spec: ModelSpec, name: str) -> bytes:
    info = spec.dense[name]
    return info.path.read_bytes()[info.offset_bytes : info.offset_bytes + info.size_bytes]


@pytest.mark.parametrize("family", MOE)
def test_the_inventory_counts_every_byte_that_the_file_holds(family: str, tmp_path: Path) -> None:
    model = open_model(write_random_model(tmp_path / "m.gguf", arch=family, quant="Q8_0"))
    inventory = inventory_of(spec_of(model))
    assert isinstance(inventory, ModelInventory)
    assert inventory.dense_bytes + inventory.expert_bytes == sum(info.size_bytes for info in model.tensors.values())
    assert inventory.num_pairs == 16 and inventory.num_moe_layers == 2
    assert all(item.size_bytes == model.tensors[item.name].size_bytes for item in inventory.weights)


def test_a_dense_model_has_no_blobs_in_its_inventory(tmp_path: Path) -> None:
    inventory = inventory_of(spec_of(open_model(write_random_model(tmp_path / "m.gguf", arch="qwen3"))))
    assert (inventory.blob_bytes, inventory.expert_bytes, inventory.num_pairs) == ((0, 0), 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_that_is_missing_or_misshapen_is_named(family: str, tmp_path: Path) -> None:
    shape = model_shape(family, layers=2 if family in SEVERAL_KINDS else 1, vocab=259)
    optional: tuple[str, ...] = ("output.weight",)
    if family == "glm4moe":
        optional += ("q.bias", "k.bias", "v.bias", "q_norm.weight", "k_norm.weight")
    for name, values in random_tensors(shape, seed=0, tied=False).items():
        if not name.endswith(optional):
            reason = reason_for(write_changed(tmp_path / "m.gguf", shape, without=(name,)))
            assert f"'{name.replace('ssm_ba', 'ssm_beta')}'" in reason and "missing" in reason
        taller = np.concatenate([values, values[:1]])
        reason = reason_for(write_changed(tmp_path / "m.gguf", shape, replaced={name: taller}))
        assert f"'{name}' has shape {taller.shape[::-1]}, the file's keys ask for {values.shape[::-1]}" in reason


@pytest.mark.parametrize("name", ["blk.0.attn_sinks.weight", "blk.0.ffn_gate.bias", "rope_factors_long.weight"])
def test_a_tensor_without_a_place_is_refused(name: str, tmp_path: Path) -> None:
    changed = {name: np.ones(4, dtype=np.float32)}
    assert f"'{name}' has no place" in reason_for(
        write_changed(tmp_path / "m.gguf", model_shape("mixtral"), replaced=changed)
    )


def test_rope_frequencies_and_biases_are_kept_where_a_file_has_them(tmp_path: Path) -> None:
    shape = model_shape("mixtral", layers=1)
    query = shape.heads * shape.head_dim
    extra = {
        "rope_freqs.weight": np.ones(shape.head_dim // 2, dtype=np.float32),
        "blk.0.attn_q.bias": np.ones(query, dtype=np.float32),
        "blk.0.attn_output.bias": np.ones(shape.hidden, dtype=np.float32),
    }
    spec = spec_of(open_model(write_changed(tmp_path / "m.gguf", shape, replaced=extra)))
    assert extra.keys() <= spec.dense.keys()


def test_a_known_type_without_math_is_refused_with_the_supported_ones(tmp_path: Path) -> None:
    model = open_model(write_random_model(tmp_path / "m.gguf"))
    tensors = model.tensors | {"output_norm.weight": replace(model.tensors["output_norm.weight"], type_id=28)}
    with pytest.raises(ModelError, match=r"'output_norm.weight' has type F64.*supported are F32, F16"):
        spec_of(replace(model, tensors=tensors))


def test_an_unknown_architecture_lists_the_supported_ones(tmp_path: Path) -> None:
    path = write_changed(tmp_path / "m.gguf", replace(model_shape("mixtral"), architecture="mamba"))
    reason = reason_for(path)
    assert "'mamba' is not supported" in reason and all(name in reason for name in ARCHITECTURES)


def test_experts_of_one_layer_with_different_types_are_refused(tmp_path: Path) -> None:
    model = open_model(write_random_model(tmp_path / "m.gguf", per_expert_tensors=True, quant="Q5_0"))
    name = "blk.1.ffn_up.3.weight"
    with pytest.raises(ModelError, match=r"'blk.1.ffn_up.3.weight' has type IQ4_NL, 'blk.1.ffn_up.0.weight' has Q5_0"):
        spec_of(replace(model, tensors=model.tensors | {name: replace(model.tensors[name], type_id=20)}))


BAD_KEYS = [
    ("mixtral", "rope.scaling.type", "yarn", "'yarn' is not supported in this version; none and linear are"),
    ("mixtral", "rope.scaling.type", "longrope", "'longrope' is not supported"),
    ("mixtral", "rope.scaling.type", 1, "not a string"),
    ("mixtral", "rope.scaling.factor", -2.0, "negative"),
    ("mixtral", "rope.scaling.attn_factor", 0.5, "not supported"),
    ("qwen3moe", "logit_scale", 0.5, "not supported"),
    ("qwen3moe", "expert_gating_func", 2, "1 (softmax) is"),
    ("mixtral", "attention.scale", math.inf, "not finite"),
    ("mixtral", "nextn_predict_layers", 2, "is outside 0 .. 1"),
    ("qwen2", "expert_count", 4, "is dense"),
]


@pytest.mark.parametrize(("family", "key", "value", "expected"), BAD_KEYS)
def test_a_key_that_would_change_the_math_is_refused(
    family: str, key: str, value: Any, expected: str, tmp_path: Path
) -> None:
    shape = model_shape(family)
    path = write_changed(tmp_path / "m.gguf", shape, extra_keys={f"{shape.architecture}.{key}": value})
    reason = reason_for(path)
    assert f"{shape.architecture}.{key}" in reason and expected in reason


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"layers": 0}, "block_count"),
        ({"hidden": 0}, "embedding_length"),
        ({"heads": 0}, "head_count"),
        ({"kv_heads": 3}, "does not divide head_count=4"),
        ({"head_dim": 31}, "dimension_count"),
        ({"used": 9}, "= 9 is outside 1 .. 8"),
        ({"context": 0}, "context_length"),
        ({"layers": 100_000}, "block_count"),
        ({"experts": 100_000}, "expert_count"),
        ({"layers": 3}, "layer 2 has no tensors: llama.block_count=3"),
        ({"layers": 1}, "in a block that the keys do not have: llama.block_count=1"),
    ],
)
def test_a_number_out_of_range_is_refused_by_key(change: dict[str, int], expected: str, tmp_path: Path) -> None:
    shape = model_shape("mixtral")
    assert expected in reason_for(
        write_changed(tmp_path / "m.gguf", replace(shape, **change), tensor_shape=shape)  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("keys", "scale"),
    [
        ({"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, 1.0),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, 0.25),
        ({"rope.scaling.factor": 2.0}, 0.5),
        ({"rope.scale_linear": 8.0}, 0.125),
    ],
)
def test_linear_rope_scaling_divides_positions(keys: dict[str, Any], scale: float, tmp_path: Path) -> None:
    extra_keys = {f"llama.{key}": value for key, value in keys.items()}
    spec = spec_of(open_model(write_random_model(tmp_path / "m.gguf", extra_keys=extra_keys)))
    assert spec.rope.scale == scale


def test_scales_are_read_where_a_file_sets_them(tmp_path: Path) -> None:
    keys = {"qwen3moe.expert_weights_scale": 2.5, "qwen3moe.attention.scale": 0.5}
    spec = spec_of(open_model(write_random_model(tmp_path / "m.gguf", arch="qwen3moe", extra_keys=keys)))
    assert (spec.expert_weights_scale, spec.attention_scale) == (2.5, 0.5)
