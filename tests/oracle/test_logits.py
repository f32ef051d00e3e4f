"""Our float32 logits against llama.cpp's, at every position of tiny random models."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf.quants import dequantize

from strata.core.kv import KvFormat
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from tests.fixtures.gguf_file import write_gguf
from tests.fixtures.models import FAMILIES, model_shape, write_random_model
from tests.fixtures.weights import random_tensors
from tests.kernels.tiny_engine import TinyEngine
from tests.oracle.llama_cpp import LlamaCpp

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

NUM_TOKENS = 140
"""Beyond one block of keys."""


def our_logits(path: Path, ids: list[int]) -> np.ndarray:
    """float32 [len(ids), V]: a prompt for the K/V, then windows of 8 for the logits of every position."""
    engine = TinyEngine(spec_of(open_model(path)), kv_format=KvFormat.F32, experts_in_pack=(1, 2))
    engine.read_prompt(ids, [len(ids)])
    rows = [engine.read_window(ids[at : at + 8], position=at)[1] for at in range(0, len(ids), 8)]
    return torch.cat(rows).numpy()


def token_ids(seed: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 320, NUM_TOKENS)]


def check(ours: Path, theirs: Path, seed: int, *, tolerance: float = 1e-4) -> None:
    ids = token_ids(seed)
    with LlamaCpp(theirs) as oracle:
        expected = oracle.logits(ids)
    assert np.ptp(expected) > 1.0, "random weights should give logits that differ"
    np.testing.assert_allclose(our_logits(ours, ids), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("arch", FAMILIES)
def test_f32_logits_equal_llama_cpp_at_every_position(tmp_path: Path, arch: str) -> None:
    path = write_random_model(tmp_path / "model.gguf", arch=arch, seed=3)
    check(path, path, seed=11)


@pytest.mark.parametrize("keys", [{"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}], ids=["linear rope"])
def test_scaled_rope_equals_llama_cpp(tmp_path: Path, keys: dict[str, int | float | str | bool]) -> None:
    extra = {f"llama.{key}": value for key, value in keys.items()}
    path = write_random_model(tmp_path / "model.gguf", arch="mixtral", seed=4, extra_keys=extra)
    check(path, path, seed=12)


def test_rope_factors_of_the_file_equal_llama_cpp(tmp_path: Path) -> None:
    shape = model_shape("llama")
    tensors = random_tensors(shape, seed=7, tied=False)
    factors = np.linspace(1.0, 8.0, shape.head_dim // 2, dtype=np.float32)
    paths = [tmp_path / "plain.gguf", tmp_path / "factors.gguf"]
    write_gguf(paths[0], shape, tensors, quants={})
    write_gguf(paths[1], shape, tensors | {"rope_freqs.weight": factors}, quants={})
    check(paths[1], paths[1], seed=15)
    ids = token_ids(15)[:20]
    assert np.abs(our_logits(paths[0], ids) - our_logits(paths[1], ids)).max() > 0.1, "the factors should matter"


@pytest.mark.parametrize(("arch", "quant"), [("mixtral", "Q4_1"), ("qwen3moe", "Q8_0"), ("llama", "Q4_0")])
def test_a_quantized_file_has_the_logits_of_its_dequantized_copy(tmp_path: Path, arch: str, quant: str) -> None:
    quantized = write_random_model(tmp_path / "model.gguf", arch=arch, quant=quant, seed=5)
    check(quantized, dequantized_copy(quantized, tmp_path / "f32.gguf"), seed=13)


def test_a_tied_head_equals_llama_cpp(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "model.gguf", arch="llama", seed=6, tied=True)
    # Logits of a tied head are three times as large here, up to 20, and so is the rounding.
    check(path, path, seed=14, tolerance=3e-4)


def dequantized_copy(source: Path, target: Path) -> Path:
    """The same file with every tensor as F32. llama.cpp rounds activations wherever weights are quantized, so this is
    the file that it must be asked about."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        if key == "general.file_type":
            writer.add_file_type(LlamaFileType.ALL_F32)
        elif field.types[0] == GGUFValueType.ARRAY:
            writer.add_key_value(key, field.contents(), field.types[0], sub_type=field.types[-1])
        else:
            writer.add_key_value(key, field.contents(), field.types[0])
    for tensor in reader.tensors:
        is_plain = tensor.tensor_type == GGMLQuantizationType.F32
        values = tensor.data if is_plain else dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
