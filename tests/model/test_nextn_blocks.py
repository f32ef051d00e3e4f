"""What the keys say of NextN (MTP) blocks against what the file holds: a defined result for every combination."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from strata.config.refusals import check_config
from strata.config.values import Mtp, ServeConfig
from strata.core.errors import ModelError
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.inventory import inventory_of
from strata.planning import model_facts
from tests.fixtures.gguf_file import Array, ModelShape, write_gguf
from tests.fixtures.models import model_shape
from tests.fixtures.weights import random_tensors

LAYERS = 2


def nextn_tensors(kind: str, blocks: int) -> dict[str, Array]:
    """A trunk of two layers, and `blocks` NextN blocks of which the last one is whole, half there or away."""
    shape = replace(model_shape("qwen3moe", layers=LAYERS), nextn=blocks)
    tensors = random_tensors(shape, seed=0, tied=False)
    last = f"blk.{LAYERS + blocks - 1}."
    if kind == "none":
        return {name: values for name, values in tensors.items() if not name.startswith(last)}
    if kind == "partial":
        del tensors[f"{last}nextn.hnorm.weight"]
    return tensors


def outcome(
    path: Path, *, key: int, tensors: dict[str, Array], shape: ModelShape | None = None, mtp: Mtp | None = None
) -> str:
    write_gguf(path, replace(shape or model_shape("qwen3moe", layers=LAYERS), nextn=key), tensors, quants={})
    try:
        spec = spec_of(open_model(path))
    except ModelError as error:
        return str(error)
    if refusals := check_config(ServeConfig(str(path), mtp=mtp), facts=model_facts(spec, inventory_of(spec))):
        return refusals[0].reason
    assert not any(".nextn." in name or name.startswith("blk.2.") for name in spec.dense)
    assert spec.num_layers == len(spec.blobs) == LAYERS
    assert (spec.drafter is not None) == (spec.num_nextn_layers == 1)
    return f"accepted with {spec.num_nextn_layers}"


WITH_MTP = {
    "accepted with 0": "mtp refused: the model has no NextN block; name a drafter with --mtp FILE, or leave --mtp out",
    "accepted with 2": "mtp refused: the model has 2 NextN blocks, one can be the drafter; name a drafter with",
}
"""What becomes of an outcome when a drafter is asked for; all others stay what they are."""


@pytest.mark.parametrize("mtp", [None, Mtp()])
@pytest.mark.parametrize(
    ("key", "kind", "expected"),
    [
        (0, "none", "accepted with 0"),
        (0, "partial", "in a block that the keys do not have: qwen3moe.block_count=2, qwen3moe.nextn_predict_layers=0"),
        (0, "all", "in a block that the keys do not have: qwen3moe.block_count=2, qwen3moe.nextn_predict_layers=0"),
        (1, "none", "NextN block 2 has no tensors: qwen3moe.block_count=3, qwen3moe.nextn_predict_layers=1"),
        (1, "partial", "tensor 'blk.2.nextn.hnorm.weight' of shape (64,) is missing"),
        (1, "all", "accepted with 1"),
        (2, "none", "NextN block 3 has no tensors: qwen3moe.block_count=4, qwen3moe.nextn_predict_layers=2"),
        (2, "partial", "tensor 'blk.3.nextn.hnorm.weight' of shape (64,) is missing"),
        (2, "all", "accepted with 2"),
    ],
)
def test_keys_and_nextn_tensors_are_held_against_each_other(
    key: int, kind: str, expected: str, mtp: Mtp | None, tmp_path: Path
) -> None:
    seen = outcome(tmp_path / "m.gguf", key=key, tensors=nextn_tensors(kind, blocks=max(key, 1)), mtp=mtp)
    assert (expected if mtp is None else WITH_MTP.get(expected, expected)) in seen


def test_a_nextn_block_inside_the_trunk_is_refused(tmp_path: Path) -> None:
    """The block is counted by block_count, but the key that says so is absent."""
    tensors = nextn_tensors("all", blocks=1)
    reason = outcome(tmp_path / "m.gguf", key=0, tensors=tensors, shape=model_shape("qwen3moe", layers=LAYERS + 1))
    assert "'blk.2.nextn.eh_proj.weight' is of a NextN block, but block 2 is a layer" in reason
    assert "qwen3moe.nextn_predict_layers=0" in reason


@pytest.mark.parametrize(
    ("name", "shape"), [("nextn.eh_proj.weight", (64, 64)), ("nextn.embed_tokens.weight", (300, 64))]
)
def test_a_head_of_another_size_is_refused(name: str, shape: tuple[int, int], tmp_path: Path) -> None:
    tensors = nextn_tensors("all", blocks=1) | {f"blk.2.{name}": np.ones(shape, dtype=np.float32)}
    reason = outcome(tmp_path / "m.gguf", key=1, tensors=tensors)
    assert f"'blk.2.{name}' has shape {shape[::-1]}, the file's keys ask for" in reason


def test_a_file_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    outcome(path, key=0, tensors=nextn_tensors("none", blocks=1))
    model = open_model(path)
    bare = {key: value for key, value in model.metadata.items() if not key.startswith("tokenizer.")}
    types = {key: model.metadata.type_of(key) for key in bare}
    with pytest.raises(ModelError, match=r"'tokenizer.ggml.tokens' is missing: the file has no tokenizer"):
        spec_of(replace(model, metadata=type(model.metadata)(path, bare, types)))
