"""A plan for a card is made of what the card will hold; what its kernels do not compute is refused, unread."""

from dataclasses import replace
from pathlib import Path

import pytest

from strata.config.values import DeviceChoice, Mtp, ServeConfig
from strata.core.errors import ConfigError
from strata.core.kv import KvFormat
from strata.core.units import MIB
from strata.model.architecture import spec_of
from strata.model.card_form import card_form, card_inventory, check_card_form
from strata.model.card_work import card_work
from strata.model.gguf.model_file import open_model
from strata.model.spec import ModelSpec
from strata.planning import plan_model
from tests.fixtures.models import write_random_model

F16 = KvFormat.F16


def spec_at(folder: Path, **change: object) -> ModelSpec:
    return spec_of(open_model(write_random_model(folder / "m.gguf", **{"arch": "qwen3moe", "quant": "Q8_0", **change})))


def plan_for_card(path: Path, **change: object):
    return plan_model(ServeConfig(str(path), DeviceChoice.CUDA, vram_bytes=16 * MIB, **change)).plan


@pytest.mark.parametrize(
    ("change", "kv_format", "words"),
    [
        ({"head_dim": 72}, F16, "head_dim=72, the kernels attend in heads of 16, 32, 64, 128, 256; give --device twin"),
        ({"num_experts": 513}, F16, "num_experts=513 a layer, the kernels know 512; give --device twin"),
        ({"vocab_size": (1 << 20) + 1}, F16, "vocab_size=1,048,577, the sampler knows 1,048,576; give --device twin"),
        ({}, KvFormat.F32, "kv=f32, programs on a card keep K/V as f16 or in blocks; give --kv f16"),
    ],
)
def test_what_kernels_do_not_compute_is_refused_by_name(tmp_path: Path, change, kv_format, words: str) -> None:
    spec = replace(spec_at(tmp_path), **change)
    assert [refusal.reason for refusal in check_card_form(spec, kv_format=kv_format)] == [
        f"device=cuda refused: {words}"
    ]
    assert list(check_card_form(spec_at(tmp_path), kv_format=F16)) == []


def test_a_window_of_more_pairs_than_kernels_compute_is_refused(tmp_path: Path) -> None:
    spec = replace(spec_at(tmp_path), num_experts_used=40)
    assert list(check_card_form(spec, kv_format=F16, window_rows=3)) == []
    assert [refusal.reason for refusal in check_card_form(spec, kv_format=F16, window_rows=4)] == [
        "device=cuda refused: spec=4 rows of 40 experts each, the kernels compute 128 pairs of both in a window; lower "
        "--spec to 3"
    ]


def test_a_drafter_of_more_experts_than_kernels_know_is_refused(tmp_path: Path) -> None:
    spec = spec_at(tmp_path, nextn=1)
    assert spec.drafter is not None
    wide = replace(spec, drafter=replace(spec.drafter, num_experts=600))
    assert [refusal.reason for refusal in check_card_form(wide, kv_format=F16)] == [
        "device=cuda refused: num_experts=600 a layer, the kernels know 512; give --device twin"
    ]


@pytest.mark.parametrize("arch", ["qwen3moe", "qwen35"])
def test_a_drafter_is_planned_for_a_card_with_its_block_packed_and_scratch_of_its_own(
    tmp_path: Path, arch: str
) -> None:
    path = write_random_model(tmp_path / "m.gguf", arch=arch, quant="Q5_0", nextn=1, vocab=2_000)
    card = plan_for_card(path, mtp=Mtp(), spec_rows=4)
    twin = plan_model(ServeConfig(str(path), vram_bytes=16 * MIB, mtp=Mtp(), spec_rows=4)).plan
    assert card.draft is not None and twin.draft is not None
    has_block = arch == "qwen3moe"
    assert (card.block.size_bytes > twin.block.size_bytes) == has_block == (len(card.pack.block) == 8)
    assert twin.draft.buffers.scratch.size_bytes == 0 < card.draft.buffers.scratch.size_bytes
    # A drafter samples nothing.
    assert card.draft.buffers.scratch.size_bytes < card.verifier.buffers.scratch.size_bytes
    spec = spec_of(open_model(path))
    work = card_work(spec, context_tokens=512)
    assert set(work.draft) == {"draft input", "attention", "draft head", "moe" if has_block else "ffn"}
    assert "draft input" in work.prompt and "draft input" not in work.window


def test_a_card_is_planned_without_one(tmp_path: Path) -> None:
    """Sizes after packing, and scratch for the programs, which the twin's plan has not."""
    path = write_random_model(tmp_path / "m.gguf", arch="qwen3moe", quant="Q5_0")
    card, twin = plan_for_card(path), plan_model(ServeConfig(str(path), vram_bytes=16 * MIB)).plan
    assert card.inventory.max_blob_bytes > twin.inventory.max_blob_bytes
    assert card.pack.size_bytes > twin.pack.size_bytes
    assert not twin.prompt.scratch
    assert set(card.prompt.scratch) >= {"attention", "router", "experts"}
    assert twin.verifier.buffers.scratch.size_bytes == 0 < card.verifier.buffers.scratch.size_bytes


def test_a_file_that_is_refused_on_a_card_says_so_before_it_is_read(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.gguf", arch="mixtral", hidden=96, heads=4, head_dim=24)
    with pytest.raises(ConfigError, match="head_dim=24"):
        plan_for_card(path)


@pytest.mark.parametrize("arch", ["mixtral", "llama"])
def test_workspaces_are_those_of_the_layers_that_the_model_has(tmp_path: Path, arch: str) -> None:
    spec = spec_at(tmp_path, arch=arch)
    work = card_work(spec, context_tokens=512)
    kind = "moe" if spec.num_experts else "ffn"
    assert (set(work.prompt), set(work.window)) == ({"attention", kind}, {"attention", "sample", kind})
    inventory = card_inventory(spec, card_form(spec), context_tokens=512)
    assert [each.areas for each in inventory.prompt_work] == list(work.prompt.values())


def test_partial_results_of_attention_grow_with_the_context_and_with_nothing_else(tmp_path: Path) -> None:
    spec = spec_at(tmp_path)
    short, longer = (card_work(spec, context_tokens=tokens) for tokens in (512, 513))
    assert short.prompt == longer.prompt
    sizes = [{area.name: area.size_bytes(1) for area in work.window["attention"]} for work in (short, longer)]
    assert {name for name in sizes[0] if sizes[0][name] != sizes[1][name]} == {"part_out", "part_state"}
    assert sizes[1]["part_out"] == 2 * sizes[0]["part_out"] == 2 * 4 * spec.num_heads * spec.head_dim


def test_what_no_product_reads_becomes_f32_whatever_the_file_has(tmp_path: Path) -> None:
    """Vectors and the taps of a convolution: kernels read them as f32. A projection keeps its type."""
    spec = spec_at(tmp_path, arch="qwen3next", layers=4)
    taps, norm, query = "blk.0.ssm_conv1d.weight", "blk.0.attn_norm.weight", "blk.3.attn_q.weight"
    halves = {name: replace(spec.dense[name], type_id=1) for name in (taps, norm, query)}
    form = card_form(replace(spec, dense=spec.dense | halves))
    assert [form.dense[name].type_id for name in (taps, norm, query)] == [0, 0, 1]
    columns, rows = spec.dense[taps].shape
    assert form.dense[taps].size_bytes == 4 * rows * columns


def test_a_hybrid_is_planned_for_a_card_with_a_workspace_for_its_recurrent_layers(tmp_path: Path) -> None:
    spec = spec_at(tmp_path, arch="qwen3next", layers=4)
    assert list(check_card_form(spec, kv_format=F16)) == []
    work = card_work(spec, context_tokens=512)
    assert set(work.prompt) == {"attention", "recurrent", "moe"}
    names = {area.name for area in work.prompt["moe"]}
    assert {"shared_gate", "shared_up", "shared_act", "shared_out", "shared_share"} <= names
    assert "query_gate" in {area.name for area in work.window["attention"]}
