"""Logits of hybrid models and glm4moe against llama.cpp's, in every spelling of a file and in any cut of the prompt;
and that this would see each of the mistakes that such a model invites."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels.reference import causal_conv
from strata.core.kv import KvFormat
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.programs import feed_forward, layers, recurrent
from strata.model.spec import HeadMap, ModelSpec
from tests.fixtures.gguf_file import Array, LinearShape, write_gguf
from tests.fixtures.models import HYBRIDS, model_shape, write_random_model
from tests.fixtures.weights import (
    fuse_attention_inputs,
    fuse_gate_up,
    fuse_recurrent_inputs,
    random_tensors,
)
from tests.kernels.tiny_engine import TinyEngine
from tests.oracle.llama_cpp import LlamaCpp

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TOLERANCE = 1e-4
NUM_TOKENS = 100
LINEAR = LinearShape(key_heads=2, value_heads=6, head_width=16, interval=3)
IDS = [int(token) for token in np.random.default_rng(21).integers(0, 320, NUM_TOKENS)]
SEED = 8
MIXTURES = ("qwen3next", "qwen35moe", "glm4moe")


def write(path: Path, family: str, change: Callable[[dict[str, Array]], dict[str, Array]] = dict) -> Path:
    shape = model_shape(family, layers=4, linear=LINEAR)
    return write_gguf(path, shape, change(random_tensors(shape, seed=SEED, tied=False)), quants={})


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], np.ndarray]:
    """llama.cpp's logits of a family's plain file, float32 [NUM_TOKENS, V]."""
    known: dict[str, np.ndarray] = {}

    def logits_of(family: str) -> np.ndarray:
        if family not in known:
            with LlamaCpp(write(tmp_path_factory.mktemp(family) / "model.gguf", family)) as oracle:
                known[family] = oracle.logits(IDS)
        return known[family]

    return logits_of


def logits_by_windows(spec: ModelSpec, width: int) -> np.ndarray:
    engine = TinyEngine(spec, kv_format=KvFormat.F32, experts_in_pack=(1, 2), compares_bytes=False)
    rows = [engine.read_window(IDS[at : at + width], position=at)[1] for at in range(0, NUM_TOKENS, width)]
    return torch.cat(rows).numpy()


def logits_after_chunks(spec: ModelSpec, chunks: list[int]) -> np.ndarray:
    """Of the last eight tokens, after chunks that end where they begin."""
    engine, read = TinyEngine(spec, kv_format=KvFormat.F32, compares_bytes=False), NUM_TOKENS - 8
    engine.read_prompt(IDS[:read], chunks)
    return engine.read_window(IDS[read:], position=read)[1].numpy()


def error_of(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max())


@pytest.mark.parametrize("family", [*HYBRIDS, "glm4moe"])
def test_logits_equal_llama_cpp_token_by_token_and_in_chunks(
    family: str, expected: Callable[[str], np.ndarray], tmp_path: Path
) -> None:
    spec = spec_of(open_model(write(tmp_path / "model.gguf", family)))
    theirs = expected(family)
    one_by_one = logits_by_windows(spec, 1)
    assert np.ptp(theirs) > 1.0 and error_of(one_by_one, theirs) < TOLERANCE
    for chunks in ([92], [1, 2, 3, 40, 46], [64, 28]):
        ours = logits_after_chunks(spec, chunks)
        assert error_of(ours, theirs[-8:]) < TOLERANCE
        assert np.array_equal(ours, one_by_one[-8:])


SPELLINGS = {
    "fused recurrent inputs": ("qwen3next", lambda tensors: fuse_recurrent_inputs(tensors, LINEAR)),
    "fused attention inputs": ("qwen3next", fuse_attention_inputs),
    "fused gate and up": ("qwen35moe", fuse_gate_up),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_has_the_bits_of_the_plain_one(
    spelling: str, expected: Callable[[str], np.ndarray], tmp_path: Path
) -> None:
    family, change = SPELLINGS[spelling]
    file, plain_file = open_model(write(tmp_path / "a.gguf", family, change)), open_model(write(tmp_path / "b", family))
    assert file.tensors.keys() != plain_file.tensors.keys()
    spec, plain = spec_of(file), spec_of(plain_file)
    ours = logits_by_windows(spec, 8)
    assert error_of(ours, expected(family)) < TOLERANCE
    if spelling != "fused recurrent inputs":
        assert np.array_equal(ours, logits_by_windows(plain, 8))


def test_llama_cpp_reads_the_fused_recurrent_inputs_as_we_do(
    expected: Callable[[str], np.ndarray], tmp_path: Path
) -> None:
    family, change = SPELLINGS["fused recurrent inputs"]
    with LlamaCpp(write(tmp_path / "model.gguf", family, change)) as oracle:
        assert error_of(oracle.logits(IDS), expected(family)) < TOLERANCE


def unrolled(x: Tensor, weight: Tensor, state: Tensor, out: Tensor, scratch: object) -> None:
    causal_conv.causal_conv(x, weight, state.clone(), out, scratch)  # type: ignore[arg-type]


def ungated(gate: Tensor, x: Tensor, out: Tensor, scratch: object) -> None:
    out.copy_(x)


@pytest.mark.parametrize("family", HYBRIDS)
def test_a_wrong_head_map_is_seen(family: str, expected: Callable[[str], np.ndarray], tmp_path: Path) -> None:
    spec = spec_of(open_model(write(tmp_path / "model.gguf", family)))
    assert spec.recurrent is not None
    other = HeadMap.TILED if spec.recurrent.head_map is HeadMap.GROUPED else HeadMap.GROUPED
    wrong = replace(spec, recurrent=replace(spec.recurrent, head_map=other))
    assert error_of(logits_by_windows(wrong, 8), expected(family)) > 100 * TOLERANCE


@pytest.mark.parametrize(
    ("module", "name", "bug"),
    [
        (recurrent, "causal_conv", unrolled),
        (recurrent, "silu_mul", lambda gate, output, out, scratch: out.copy_(output)),
        (layers, "sigmoid_mul", ungated),
        (feed_forward, "sigmoid_mul", ungated),
    ],
    ids=["conv state not rolled", "no output gate", "no attention gate", "no gate of the shared expert"],
)
def test_what_is_left_out_is_seen(
    module: object,
    name: str,
    bug: object,
    expected: Callable[[str], np.ndarray],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = spec_of(open_model(write(tmp_path / "model.gguf", "qwen35moe")))
    assert error_of(logits_by_windows(spec, 8), expected("qwen35moe")) < TOLERANCE
    monkeypatch.setattr(module, name, bug)
    assert error_of(logits_by_windows(spec, 8), expected("qwen35moe")) > 100 * TOLERANCE


@pytest.mark.parametrize("family", MIXTURES)
def test_a_file_with_a_nextn_block_has_the_logits_of_the_trunk(family: str, tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "model.gguf", arch=family, nextn=1, seed=SEED)
    with LlamaCpp(path) as oracle:
        theirs = oracle.logits(IDS[:40])
    engine = TinyEngine(spec_of(open_model(path)), kv_format=KvFormat.F32)
    ours = torch.cat([engine.read_window(IDS[at : at + 8], position=at)[1] for at in range(0, 40, 8)]).numpy()
    assert error_of(ours, theirs) < TOLERANCE
