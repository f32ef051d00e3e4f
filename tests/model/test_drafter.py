"""The NextN block as drafter: what of it is block, head or weight, which file it may come from, and that its bytes are
the file's."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from strata.config.values import Mtp, ServeConfig
from strata.core.errors import ConfigError, ModelError
from strata.core.inventory import DrafterInventory, WeightItem
from strata.core.memory.pack import plan_pack
from strata.model.architecture import spec_of
from strata.model.drafter import with_drafter_of
from strata.model.gguf.model_file import open_model
from strata.model.inventory import inventory_of
from strata.model.pack_reader import PackReader
from strata.model.spec import ModelSpec
from strata.planning import choose_drafter, plan_model
from tests.fixtures.gguf_file import Array, ModelShape, write_gguf
from tests.fixtures.lend_model import LendPair
from tests.fixtures.models import FAMILIES, model_shape
from tests.fixtures.weights import random_tensors

LAYERS = 2
SHARED = ("token_embd.weight", "output_norm.weight", "output.weight")


def shape(family: str = "qwen3moe", **changes: int) -> ModelShape:
    return model_shape(family, **{"layers": LAYERS, "nextn": 1, "vocab": 259, **changes})


def write_model(path: Path, model: ModelShape, *, tied: bool = False, **added: Array) -> Path:
    return write_gguf(path, model, random_tensors(model, seed=1, tied=tied) | added, quants={})


def write_trunk(path: Path, model: ModelShape | None = None) -> Path:
    return write_model(path, replace(model or shape(), nextn=0))


def write_drafter(path: Path, model: ModelShape, *, left_out: tuple[str, ...] = (), **added: Array) -> Path:
    """What is given to --mtp FILE; `left_out`: ends of names."""
    wanted = (*SHARED, f"blk.{model.layers}.")
    tensors = random_tensors(model, seed=1, tied=False) | added
    kept = {name: values for name, values in tensors.items() if name.startswith(wanted) and not name.endswith(left_out)}
    return write_gguf(path, model, kept, quants={})


def joined(trunk: Path, drafter: Path) -> ModelSpec:
    model = open_model(trunk)
    return with_drafter_of(open_model(drafter), model, spec_of(model))


def read_drafter(spec: ModelSpec) -> dict[str, bytes]:
    """Every dense tensor and blob of the drafter, by name or by expert."""
    assert spec.drafter is not None
    read: dict[str, bytes] = {}
    with PackReader(spec) as reader:
        for name, info in spec.drafter.dense.items():
            target = bytearray(info.size_bytes)
            reader.read_dense(name, memoryview(target))
            read[name] = bytes(target)
        for expert in range(spec.drafter.num_experts):
            assert spec.drafter.blob is not None
            target = bytearray(b"\xaa" * spec.drafter.blob.size_bytes)
            reader.read_blob(layer=spec.num_layers, expert=expert, target=memoryview(target))
            read[f"expert {expert}"] = bytes(target)
    return read


@pytest.mark.parametrize("family", FAMILIES)
def test_every_architecture_may_have_a_drafter(family: str, tmp_path: Path) -> None:
    spec = spec_of(open_model(write_model(tmp_path / "m.gguf", shape(family))))
    bare = spec_of(open_model(write_trunk(tmp_path / "t.gguf", shape(family))))
    assert spec.drafter is not None and bare.drafter is None
    assert set(spec.dense) == set(bare.dense) and len(spec.blobs) == LAYERS
    assert all(name.startswith("blk.2.") for name in spec.drafter.dense)
    inventory = inventory_of(spec).drafter
    assert inventory is not None
    assert inventory.num_experts == spec.num_experts
    assert inventory.blob_bytes == (spec.blobs[-1].size_bytes if spec.blobs[-1] else 0)
    assert (inventory.block_bytes > 0) == (spec.num_experts > 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_architectures_drafter_may_lie_in_a_file_of_its_own(family: str, tmp_path: Path) -> None:
    drafter = write_drafter(tmp_path / "d.gguf", shape(family))
    read = read_drafter(joined(write_trunk(tmp_path / "t.gguf", shape(family)), drafter))
    assert read == read_drafter(spec_of(open_model(write_model(tmp_path / "m.gguf", shape(family)))))


def test_block_weights_and_draft_head_are_told_apart(tmp_path: Path) -> None:
    head = np.ones((259, 64), dtype=np.float32)
    names = ("nextn.shared_head_head.weight", "nextn.embed_tokens.weight")
    path = write_model(tmp_path / "m.gguf", shape(), **{f"blk.2.{name}": head for name in names})
    model = open_model(path)
    drafter = inventory_of(spec_of(model)).drafter
    assert isinstance(drafter, DrafterInventory)
    assert drafter.heads == (WeightItem("blk.2.nextn.shared_head_head.weight", head.nbytes),)
    assert "blk.2.nextn.embed_tokens.weight" in [item.name for item in drafter.weights]
    of_file = {name: info.size_bytes for name, info in model.tensors.items() if name.startswith("blk.2.")}
    held = sum(item.size_bytes for item in (*drafter.weights, *drafter.heads))
    assert held + drafter.num_experts * drafter.blob_bytes == sum(of_file.values())


@pytest.mark.parametrize(("tied", "heads"), [(False, ("output.weight",)), (True, ())])
def test_a_model_has_an_output_head_of_its_own_or_none(tied: bool, heads: tuple[str, ...], tmp_path: Path) -> None:
    assert inventory_of(spec_of(open_model(write_model(tmp_path / "m.gguf", shape(), tied=tied)))).heads == heads


def test_of_two_nextn_blocks_none_is_the_drafter(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", shape(nextn=2))
    spec = spec_of(open_model(path))
    assert (spec.num_nextn_layers, spec.drafter) == (2, None)
    with pytest.raises(ConfigError, match="the model has 2 NextN blocks, one can be the drafter; name a drafter with"):
        plan_model(ServeConfig(str(path), mtp=Mtp()))


def dense_block(model: ModelShape) -> dict[str, Array]:
    """The NextN block of a mixture with a dense FFN in place of router and experts."""
    tensors = random_tensors(model, seed=1, tied=False)
    for name in ("gate_inp", "gate_exps", "up_exps", "down_exps"):
        del tensors[f"blk.2.ffn_{name}.weight"]
    wide, narrow = np.ones((96, 64), dtype=np.float32), np.ones((64, 96), dtype=np.float32)
    return tensors | {"blk.2.ffn_gate.weight": wide, "blk.2.ffn_up.weight": wide, "blk.2.ffn_down.weight": narrow}


def test_a_drafter_with_a_dense_ffn_has_no_block(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", shape(), dense_block(shape()), quants={})
    drafter = inventory_of(spec_of(open_model(path))).drafter
    assert drafter is not None
    assert (drafter.num_experts, drafter.blob_bytes, drafter.block_bytes) == (0, 0, 0)
    assert "blk.2.ffn_up.weight" in [item.name for item in drafter.weights]


def test_a_dense_ffn_of_another_width_than_the_keys_say_is_refused(tmp_path: Path) -> None:
    tensors = dense_block(shape()) | {"blk.2.ffn_gate.weight": np.ones((32, 64), dtype=np.float32)}
    path = write_gguf(tmp_path / "m.gguf", shape(), tensors, quants={})
    with pytest.raises(ModelError, match=r"'blk.2.ffn_gate.weight' has shape \(64, 32\), the file's keys ask for"):
        spec_of(open_model(path))


def test_the_drafters_bytes_are_the_files_and_the_same_from_one_file_and_from_two(
    lend_model: Path, lend_pair: LendPair
) -> None:
    read = read_drafter(spec_of(open_model(lend_model)))
    assert read_drafter(joined(lend_pair.trunk, lend_pair.drafter)) == read
    tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(lend_model).tensors}
    for expert in range(64):
        parts = [tensors[f"blk.8.ffn_{role}_exps.weight"][expert].tobytes() for role in ("gate", "up", "down")]
        assert read.pop(f"expert {expert}") == b"".join(parts)
    assert read == {name: tensors[name].tobytes() for name in read}


def test_the_pack_holds_the_block_behind_the_trunks_blobs(lend_model: Path) -> None:
    inventory = inventory_of(spec_of(open_model(lend_model)))
    pack = plan_pack(inventory)
    drafter = inventory.drafter
    assert drafter is not None
    starts = [home.offset_bytes - pack.block[0].offset_bytes for home in pack.block]
    assert starts == [expert * drafter.slot_bytes for expert in range(64)]
    assert pack.blobs[-1][-1].end_bytes <= pack.block[0].offset_bytes
    assert {item.name for item in drafter.weights} <= set(pack.weights)


def test_a_drafter_of_another_width_type_and_number_of_experts_is_taken(tmp_path: Path) -> None:
    trunk = write_trunk(tmp_path / "t.gguf")
    spec = joined(trunk, write_drafter(tmp_path / "d.gguf", shape(ffn=32, experts=5)))
    assert spec.drafter is not None and spec.drafter.blob is not None
    assert (spec.num_experts, spec.drafter.num_experts) == (8, 5)
    assert spec.drafter.blob.size_bytes == 3 * 32 * 64 * 4
    assert set(spec.identities) == {trunk, tmp_path / "d.gguf"}


def test_a_whole_model_lends_its_block_too_and_its_layers_are_not_looked_at(tmp_path: Path) -> None:
    whole = write_model(tmp_path / "w.gguf", shape())
    spec = joined(write_trunk(tmp_path / "t.gguf"), whole)
    assert spec.drafter == spec_of(open_model(whole)).drafter
    assert all(info.path == tmp_path / "t.gguf" for info in spec.dense.values())


def test_a_drafter_file_comes_before_the_models_own_block(tmp_path: Path) -> None:
    own = write_model(tmp_path / "w.gguf", shape())
    other = write_drafter(tmp_path / "d.gguf", shape(ffn=32))
    model = open_model(own)
    config = ServeConfig(str(own), mtp=Mtp(str(other)))
    assert choose_drafter(config, model, spec_of(model)) == joined(own, other)
    assert choose_drafter(ServeConfig(str(own)), model, spec_of(model)).drafter is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"nextn": 0}, "'qwen3moe.nextn_predict_layers' = 0; a drafter is exactly one NextN block"),
        ({"nextn": 2}, "'qwen3moe.nextn_predict_layers' = 2; a drafter is exactly one NextN block"),
        ({"layers": 3}, "block_count less nextn_predict_layers = 3, the model has 2; give --mtp a drafter of this mod"),
        ({"hidden": 32}, "embedding_length = 32, the model has 64"),
        ({"heads": 2}, "attention.head_count = 2, the model has 4"),
        ({"kv_heads": 1}, "attention.head_count_kv = 1, the model has 2"),
        ({"head_dim": 16}, "attention.key_length = 16, the model has 32"),
        ({"used": 3}, "expert_used_count = 3, the model has 2"),
        ({"vocab": 265}, "vocabulary in tokens = 265, the model has 259"),
    ],
)
def test_a_drafter_of_another_model_is_refused_by_the_key(
    changes: Mapping[str, int], reason: str, tmp_path: Path
) -> None:
    drafter = write_drafter(tmp_path / "d.gguf", shape(**changes))
    with pytest.raises(ModelError) as caught:
        joined(write_trunk(tmp_path / "t.gguf"), drafter)
    assert any(each.startswith(f"{drafter}: ") and reason in each for each in caught.value.reasons)


def test_every_key_that_differs_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        joined(write_trunk(tmp_path / "t.gguf"), write_drafter(tmp_path / "d.gguf", shape(hidden=32, vocab=265)))
    assert len(caught.value.reasons) == 2


def test_a_drafter_of_another_architecture_or_vocabulary_is_refused(tmp_path: Path) -> None:
    trunk = write_trunk(tmp_path / "t.gguf")
    other = write_drafter(tmp_path / "a.gguf", shape("mixtral"))
    with pytest.raises(ModelError, match=r"a\.gguf: .*general.architecture' = 'llama', the model's is 'qwen3moe'"):
        joined(trunk, other)
    swapped = (tmp_path / "d.gguf", write_drafter(tmp_path / "s.gguf", shape()).read_bytes())
    swapped[0].write_bytes(swapped[1].replace(b"<|im_start|>", b"<|im_stark|>", 1))
    with pytest.raises(ModelError, match=r"tokens': token \d+ is '<\|im_stark\|>', the model's is '<\|im_start\|>'"):
        joined(trunk, swapped[0])


@pytest.mark.parametrize(
    ("left_out", "reason"),
    [
        (("nextn.eh_proj.weight",), "tensor 'blk.2.nextn.eh_proj.weight' of shape (128, 64) is missing"),
        (("ffn_up_exps.weight",), "tensor 'blk.2.ffn_up_exps.weight' of shape (64, 96, 8) is missing"),
        (("token_embd.weight",), "tensor 'token_embd.weight' of shape (64, 259) is missing"),
    ],
)
def test_a_drafter_file_that_is_not_whole_is_refused(left_out: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    drafter = write_drafter(tmp_path / "d.gguf", shape(), left_out=left_out)
    with pytest.raises(ModelError) as caught:
        joined(write_trunk(tmp_path / "t.gguf"), drafter)
    assert str(caught.value) == f"{drafter}: {reason}"


def test_a_drafter_file_without_its_block_or_with_what_has_no_place_is_refused(tmp_path: Path) -> None:
    trunk = write_trunk(tmp_path / "t.gguf")
    tensors = random_tensors(shape(), seed=1, tied=False)
    bare = {name: tensors[name] for name in SHARED}
    with pytest.raises(ModelError, match="NextN block 2 has no tensors, so there is no drafter in this file"):
        joined(trunk, write_gguf(tmp_path / "d.gguf", shape(), bare, quants={}))
    added = {"blk.2.ffn_strange.weight": np.ones(4, dtype=np.float32)}
    with pytest.raises(ModelError, match=r"'blk.2.ffn_strange.weight' has no place in architecture qwen3moe"):
        joined(trunk, write_drafter(tmp_path / "e.gguf", shape(), **added))


def test_a_drafter_file_is_told_from_a_broken_model(tmp_path: Path) -> None:
    drafter = write_drafter(tmp_path / "d.gguf", shape())
    with pytest.raises(ModelError, match=r"d\.gguf: holds a NextN block and no layers; give it as --mtp FILE beside"):
        spec_of(open_model(drafter))


def test_a_drafter_file_that_changed_since_its_header_was_read_is_refused(tmp_path: Path) -> None:
    drafter = write_drafter(tmp_path / "d.gguf", shape())
    spec = joined(write_trunk(tmp_path / "t.gguf"), drafter)
    with drafter.open("ab") as file:
        file.write(b"more")
    with pytest.raises(ModelError, match=r"d\.gguf: the file changed since its header was read"):
        read_drafter(spec)


def test_a_drafter_file_that_cannot_be_read_hides_no_other_reason(tmp_path: Path) -> None:
    trunk = write_trunk(tmp_path / "t.gguf")
    with pytest.raises(ConfigError) as caught:
        plan_model(ServeConfig(str(trunk), mtp=Mtp(str(tmp_path / "none.gguf")), port=70_000))
    assert [reason.partition(":")[0] for reason in caught.value.reasons] == [
        "port refused",
        str(tmp_path / "none.gguf"),
    ]
