"""Any shard finds the whole set, and a set that does not hang together is refused with the shard's name."""

import shutil
from pathlib import Path

import pytest

from strata.core.errors import ModelError
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.pack_reader import PackReader
from tests.fixtures.models import write_random_model
from tests.fixtures.raw_gguf import I32, STRING, U16, U32, RawGguf, RawTensor, array_of, scalar

NAMES = tuple(f"model-0000{number}-of-00003.gguf" for number in (1, 2, 3))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of three shards, alone in its folder."""
    write_random_model(tmp_path / "set" / "model.gguf", arch="qwen3moe", splits=3, seed=1)
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == list(NAMES)
    return tmp_path / "set"


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        open_model(path)
    (reason,) = caught.value.reasons
    return reason


@pytest.mark.parametrize("given", [*NAMES, "."])
def test_every_shard_and_the_folder_open_the_same_model(given: str, folder: Path, tmp_path: Path) -> None:
    model = open_model(folder / given)
    assert [shard.path.name for shard in model.shards] == list(NAMES)
    assert model.total_bytes == sum((folder / name).stat().st_size for name in NAMES)
    whole = open_model(write_random_model(tmp_path / "whole.gguf", arch="qwen3moe", seed=1))
    assert model.tensors.keys() == whole.tensors.keys()
    split_spec, whole_spec = spec_of(model), spec_of(whole)
    assert {info.path for info in split_spec.dense.values()} == {folder / name for name in NAMES}
    with PackReader(split_spec) as split_reader, PackReader(whole_spec) as whole_reader:
        for name, info in whole_spec.dense.items():
            ours, theirs = bytearray(info.size_bytes), bytearray(info.size_bytes)
            split_reader.read_dense(name, memoryview(ours))
            whole_reader.read_dense(name, memoryview(theirs))
            assert ours == theirs


@pytest.mark.parametrize("missing", NAMES)
def test_a_missing_shard_is_named(missing: str, folder: Path) -> None:
    (folder / missing).unlink()
    for given in [path.name for path in folder.iterdir()] + ["."]:
        reason = refusal(folder / given)
        assert "1 of 3 shards are missing" in reason and missing in reason


def test_swapped_shards_are_named(folder: Path) -> None:
    second, third = folder / NAMES[1], folder / NAMES[2]
    second.rename(folder / "kept")
    third.rename(second)
    (folder / "kept").rename(third)
    assert NAMES[1] in (reason := refusal(folder / NAMES[0])) and "'split.no' = 2" in reason


def test_a_shard_copied_over_another_is_named(folder: Path) -> None:
    shutil.copy(folder / NAMES[1], folder / NAMES[2])
    assert NAMES[2] in (reason := refusal(folder)) and "'split.no' = 1" in reason


@pytest.mark.parametrize("name", ["renamed.gguf", "model-00001-of-00002.gguf", "model-00002-of-00004.gguf"])
def test_a_renamed_shard_is_refused(name: str, folder: Path) -> None:
    (folder / NAMES[0]).rename(folder / name)
    reason = refusal(folder / name)
    assert name in reason and "'split.count' = 3" in reason


@pytest.mark.parametrize("number", ["00000-of-00003", "00004-of-00003", "00001-of-00000", "00001-of-99999"])
def test_an_impossible_shard_number_is_refused(number: str, folder: Path) -> None:
    (folder / NAMES[0]).rename(folder / f"model-{number}.gguf")
    assert f"model-{number}.gguf" in refusal(folder / f"model-{number}.gguf")


def test_a_shard_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    write_random_model(tmp_path / "other" / "model.gguf", arch="qwen3moe", splits=3, layers=3)
    shutil.copy(tmp_path / "other" / NAMES[1], folder / NAMES[1])
    reason = refusal(folder)
    assert NAMES[1] in reason and "mixed models" in reason


@pytest.mark.parametrize("name", ["model.gguf", NAMES[0]])
def test_concatenated_shards_are_refused(name: str, folder: Path) -> None:
    joined = b"".join((folder / shard).read_bytes() for shard in NAMES)
    (folder / name).write_bytes(joined)
    reason = refusal(folder / name)
    assert name in reason and "concatenation" in reason


def test_a_folder_with_two_models_asks_for_one(folder: Path) -> None:
    write_random_model(folder / "small.gguf")
    reason = refusal(folder)
    assert "2 models" in reason and NAMES[0] in reason and "small.gguf" in reason


def shard(
    number: int, *, count: int = 2, total: int = 2, name: str | None = None, architecture: str | None = None
) -> RawGguf:
    """Shard `number` (from 0) with one tensor; only the first one has the model's keys unless `architecture`."""
    keys: tuple[tuple[str, bytes], ...] = (
        ("split.no", scalar(U16, number)),
        ("split.count", scalar(U16, count)),
        ("split.tensors.count", scalar(I32, total)),
    )
    if number == 0 or architecture:
        keys = (("general.architecture", scalar(STRING, architecture or "llama")), *keys)
    return RawGguf(keys=keys, tensors=(RawTensor(name or f"t{number}", (4,), data=bytes(16)),))


def write_pair(folder: Path, first: RawGguf, second: RawGguf) -> Path:
    second.write(folder / "m-00002-of-00002.gguf")
    return first.write(folder / "m-00001-of-00002.gguf")


def test_only_the_first_shard_needs_the_models_keys(tmp_path: Path) -> None:
    path = write_pair(tmp_path, shard(0), shard(1))
    assert list(open_model(path).tensors) == ["t0", "t1"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (shard(0), shard(1, name="t0"), ("00002-of", "'t0' is also in shard m-00001")),
        (shard(0), shard(1, count=3), ("00002-of", "'split.count' = 3")),
        (shard(0, total=3), shard(1, total=3), ("00001-of", "'split.tensors.count' = 3, but")),
        (shard(0), shard(1, total=5), ("00002-of", "'split.tensors.count' = '5'")),
        (shard(0), shard(1, architecture="qwen2"), ("00002-of", "'general.architecture' = 'qwen2'")),
        (shard(0), RawGguf(), ("00002-of", "'split.no' is missing")),
    ],
)
def test_shards_that_disagree_are_refused(
    first: RawGguf, second: RawGguf, expected: tuple[str, str], tmp_path: Path
) -> None:
    reason = refusal(write_pair(tmp_path, first, second))
    assert expected[0] in reason and expected[1] in reason


def test_a_bad_tokenizer_in_the_first_shard_is_found_from_the_second(tmp_path: Path) -> None:
    tokenizer = (
        shard(0)
        .with_key("tokenizer.ggml.model", scalar(STRING, "gpt2"))
        .with_key("tokenizer.ggml.tokens", array_of(STRING, ["a"]))
        .with_key("tokenizer.ggml.eos_token_id", scalar(U32, 9))
    )
    write_pair(tmp_path, tokenizer, shard(1))
    assert "'tokenizer.ggml.eos_token_id' = 9" in refusal(tmp_path / "m-00002-of-00002.gguf")
