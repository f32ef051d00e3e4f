"""Hybrid models and glm4moe: which layers are of which kind, which spellings a file may have, which keys contradict."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.core.errors import ModelError
from strata.core.inventory import StateKind
from strata.core.programs import ATTENTION, FFN, RECURRENT, ROUTER, SHARED
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.inventory import inventory_of
from strata.model.program_reads import dense_reads
from strata.model.spec import Gating, HeadMap, ModelSpec
from tests.fixtures.gguf_file import Array, LinearShape, ModelShape, write_gguf
from tests.fixtures.models import HYBRIDS, model_shape, write_random_model
from tests.fixtures.weights import fuse_attention_inputs, fuse_recurrent_inputs, random_tensors, split_beta_alpha

MIXTURES = ("qwen3next", "qwen35moe", "glm4moe")


def written(path: Path, shape: ModelShape, tensors: dict[str, Array] | None = None, **keys: Any) -> Path:
    extra = {f"{shape.architecture}.{key.replace('__', '.')}": value for key, value in keys.items()}
    weights = random_tensors(shape, seed=0, tied=False) if tensors is None else tensors
    return write_gguf(path, shape, weights, quants={}, extra_keys=extra)


def spec_from(path: Path) -> ModelSpec:
    return spec_of(open_model(path))


def reason_for(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        spec_from(path)
    (reason,) = caught.value.reasons
    return reason


@pytest.mark.parametrize(
    ("family", "head_map"), [("qwen3next", "grouped"), ("qwen35moe", "tiled"), ("qwen35", "tiled")]
)
def test_the_last_of_every_interval_attends_and_the_others_have_state(
    family: str, head_map: str, tmp_path: Path
) -> None:
    linear = LinearShape(key_heads=3, value_heads=6, head_width=8, taps=4, interval=4)
    shape = model_shape(family, layers=6, linear=linear)
    spec = spec_from(written(tmp_path / "m.gguf", shape))
    assert spec.is_recurrent == (True, True, True, False, True, True)
    assert spec.recurrent is not None and spec.recurrent.head_map is HeadMap(head_map)
    assert spec.has_attention_gate and spec.ffn_norm == "post_attention_norm.weight"
    inventory = inventory_of(spec)
    assert inventory.state_kinds == {StateKind.KV, StateKind.RECURRENT}
    state_bytes = 4 * (6 * 8 * 8 + 3 * (2 * 3 * 8 + 6 * 8))
    assert inventory.state_bytes == tuple(state_bytes if flag else 0 for flag in spec.is_recurrent)
    assert inventory.mixer_floats == 3 * 4 * 32 + 2 * 2 * 32


def test_without_an_interval_every_fourth_layer_attends(tmp_path: Path) -> None:
    shape = model_shape("qwen35moe", layers=5, linear=LinearShape(interval=4))
    spec = spec_from(written(tmp_path / "m.gguf", shape, full_attention_interval=None))
    assert spec.is_recurrent == (True, True, True, False, True)


def with_flags(path: Path, key: str, flags: list[bool] | list[int]) -> Path:
    """A qwen35moe file of two layers and a NextN block with an array under `key`."""
    return written(path, model_shape("qwen35moe", nextn=1), **{key.replace(".", "__"): flags})


def test_flags_of_the_file_go_before_the_interval(tmp_path: Path) -> None:
    key = "attention.recurrent_layers"
    spec = spec_from(with_flags(tmp_path / "m.gguf", key, [True, False, False]))
    assert spec.is_recurrent == (True, False) and spec.num_nextn_layers == 1
    reason = reason_for(with_flags(tmp_path / "m.gguf", key, [False, True, False]))
    assert "'blk.0.attn_qkv.weight' has shape (64, 128)" in reason and "need 384 rows" in reason
    assert "has 2 elements, block_count=3" in reason_for(with_flags(tmp_path / "m.gguf", key, [True, False]))
    assert "NextN block recurrent: block 2" in reason_for(with_flags(tmp_path / "m.gguf", key, [True, False, True]))


def test_arrays_say_nothing_of_layers_that_do_not_attend(tmp_path: Path) -> None:
    key = "attention.head_count_kv"
    assert spec_from(with_flags(tmp_path / "m.gguf", key, [0, 2, 2])).num_kv_heads == 2
    assert "different or negative values [2, 4]" in reason_for(with_flags(tmp_path / "m.gguf", key, [0, 2, 4]))
    assert "has 2 elements" in reason_for(with_flags(tmp_path / "m.gguf", key, [0, 2]))


@pytest.mark.parametrize("family", [*HYBRIDS, "glm4moe"])
def test_a_nextn_block_attends_and_is_left_out(family: str, tmp_path: Path) -> None:
    spec = spec_from(write_random_model(tmp_path / "m.gguf", arch=family, nextn=1))
    assert (spec.num_layers, spec.num_nextn_layers, len(spec.is_recurrent)) == (2, 1, 2)
    assert not any(name.startswith("blk.2.") for name in spec.dense)


def test_grouped_heads_may_be_spelled_in_two_ways_each(tmp_path: Path) -> None:
    shape = model_shape("qwen3next")
    assert shape.linear is not None
    plain = random_tensors(shape, seed=0, tied=False)
    fused = fuse_recurrent_inputs(plain, shape.linear)
    names = spec_from(written(tmp_path / "m.gguf", shape, fused)).dense.keys()
    assert "blk.0.ssm_in.weight" in names and "blk.0.attn_qkv.weight" not in names
    names = spec_from(written(tmp_path / "m.gguf", shape, split_beta_alpha(plain, shape.linear))).dense.keys()
    assert "blk.0.ssm_beta.weight" in names and "blk.0.ssm_ba.weight" not in names
    both = plain | {name: values for name, values in fused.items() if "ssm_in" in name}
    assert "'blk.0.attn_qkv.weight' and 1 more has no place" in reason_for(written(tmp_path / "m.gguf", shape, both))


def test_tiled_heads_have_no_interleaved_spelling(tmp_path: Path) -> None:
    shape = model_shape("qwen35moe")
    assert shape.linear is not None
    fused = fuse_recurrent_inputs(random_tensors(shape, seed=0, tied=False), shape.linear)
    assert "'blk.0.attn_qkv.weight'" in reason_for(written(tmp_path / "m.gguf", shape, fused))


def test_a_fused_projection_of_a_layer_that_attends_is_cut_with_its_gate(tmp_path: Path) -> None:
    shape = model_shape("qwen35moe")
    plain = random_tensors(shape, seed=0, tied=False)
    whole = spec_from(written(tmp_path / "a.gguf", shape, plain))
    cut = spec_from(written(tmp_path / "b.gguf", shape, fuse_attention_inputs(plain)))
    for role in "qkv":
        ours, theirs = (spec.dense[f"blk.1.attn_{role}.weight"] for spec in (cut, whole))
        assert ours.shape == theirs.shape
        assert _content(ours.path, ours.offset_bytes, ours.size_bytes) == _content(
            theirs.path, theirs.offset_bytes, theirs.size_bytes
        )
    assert cut.dense["blk.0.attn_qkv.weight"].shape == whole.dense["blk.0.attn_qkv.weight"].shape


def _content(path: Path, offset_bytes: int, size_bytes: int) -> bytes:
    return path.read_bytes()[offset_bytes : offset_bytes + size_bytes]


@pytest.mark.parametrize("family", MIXTURES)
def test_the_inventory_counts_every_byte_of_a_hybrid_file(family: str, tmp_path: Path) -> None:
    model = open_model(write_random_model(tmp_path / "m.gguf", arch=family, quant="Q8_0"))
    inventory = inventory_of(spec_of(model))
    assert inventory.dense_bytes + inventory.expert_bytes == sum(info.size_bytes for info in model.tensors.values())


@pytest.mark.parametrize("family", [*HYBRIDS, "glm4moe"])
def test_programs_read_every_dense_tensor_and_each_layer_has_one_mixer(family: str, tmp_path: Path) -> None:
    spec = spec_from(write_random_model(tmp_path / "m.gguf", arch=family))
    reads = dense_reads(spec)
    assert {name for names in reads.values() for name in names} == spec.dense.keys()
    for layer in range(spec.num_layers):
        assert ((RECURRENT, layer) in reads, (ATTENTION, layer) in reads) == (
            spec.is_recurrent[layer],
            not spec.is_recurrent[layer],
        )
        is_mixture = spec.blobs[layer] is not None
        assert [(program, layer) in reads for program in (ROUTER, SHARED, FFN)] == [is_mixture] * 2 + [not is_mixture]


def test_glm_has_leading_dense_layers_and_a_shared_expert_of_several_widths(tmp_path: Path) -> None:
    spec = spec_from(write_random_model(tmp_path / "m.gguf", arch="glm4moe", layers=3, ffn=64))
    assert [blob is None for blob in spec.blobs] == [True, False, False]
    assert spec.dense["blk.0.ffn_up.weight"].shape == (64, 128)
    assert spec.dense["blk.1.ffn_up_shexp.weight"].shape == (64, 128)
    assert spec.gating is Gating.SIGMOID and spec.normalizes_expert_weights


@pytest.mark.parametrize(
    ("family", "change", "expected"),
    [
        ("qwen3next", {"value_heads": 5}, "ssm.time_step_rank' = 5 value heads are no multiple of group_count=2"),
        ("qwen35moe", {"taps": 1}, "ssm.conv_kernel' = 1 is outside 2 .. 64"),
        ("qwen35", {"head_width": 0}, "ssm.state_size"),
        ("qwen35", {"interval": 0}, "full_attention_interval"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused_by_key(
    family: str, change: dict[str, int], expected: str, tmp_path: Path
) -> None:
    shape = model_shape(family)
    assert shape.linear is not None
    tensors = random_tensors(shape, seed=0, tied=False)
    changed = replace(shape, linear=replace(shape.linear, **change))
    assert expected in reason_for(written(tmp_path / "m.gguf", changed, tensors))


def test_an_inner_size_that_heads_do_not_make_is_refused(tmp_path: Path) -> None:
    reason = reason_for(written(tmp_path / "m.gguf", model_shape("qwen35"), ssm__inner_size=65))
    assert "= 65, but 4 value heads of state_size=16 make 64" in reason


def test_keys_of_another_router_are_refused(tmp_path: Path) -> None:
    glm, mixture = model_shape("glm4moe"), model_shape("qwen35moe")
    assert "= 2 is not supported; 1 (softmax) is" in reason_for(
        written(tmp_path / "m.gguf", mixture, expert_gating_func=2)
    )
    assert "leading_dense_block_count" in reason_for(written(tmp_path / "m.gguf", mixture, leading_dense_block_count=1))
    assert "expert_group_count" in reason_for(written(tmp_path / "m.gguf", glm, expert_group_count=4))


def test_vectors_are_as_long_as_there_are_heads(tmp_path: Path) -> None:
    shape = model_shape("qwen3next")
    tensors = random_tensors(shape, seed=0, tied=False) | {"blk.0.ssm_a": np.ones(3, np.float32)}
    assert "'blk.0.ssm_a' has shape (3,), the file's keys ask for (4,)" in reason_for(
        written(tmp_path / "m.gguf", shape, tensors)
    )
