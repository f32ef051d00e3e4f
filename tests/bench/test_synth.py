"""A synthesized model file is one that the program opens, with weights that are neither zero nor wild."""

from dataclasses import replace

import gguf
import numpy as np
import pytest

from bench.synth import QUANTS, SHAPES, SynthBlocks, Tensor, model_tensors, write_model
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model

TINY = SHAPES["qwen3moe-tiny"]


@pytest.mark.slow
@pytest.mark.parametrize("quant", QUANTS)
def test_a_synthesized_model_opens_with_its_shape(tmp_path, quant):
    path, shape = tmp_path / "model.gguf", replace(TINY, nextn=1)
    size_bytes = write_model(path, shape, QUANTS[quant], own_head=True)
    model = open_model(path)
    spec = spec_of(model)
    assert (spec.num_layers, spec.num_experts, spec.vocab_size) == (TINY.layers, TINY.experts, TINY.vocab)
    assert spec.num_nextn_layers == 1
    reader = gguf.GGUFReader(path)
    assert sum(int(one.n_bytes) for one in reader.tensors) == size_bytes
    head = next(one for one in reader.tensors if one.name == "output.weight")
    assert head.tensor_type == gguf.GGMLQuantizationType.Q6_K


def test_a_model_without_an_own_head_ties_it_to_the_embedding(tmp_path):
    write_model(tmp_path / "model.gguf", TINY, QUANTS["q4_k"], own_head=False)
    names = [one.name for one in gguf.GGUFReader(tmp_path / "model.gguf").tensors]
    assert "output.weight" not in names and not any("nextn" in name for name in names)
    assert spec_of(open_model(tmp_path / "model.gguf")).num_layers == TINY.layers


@pytest.mark.parametrize("quant", QUANTS)
def test_weights_have_the_deviation_that_keeps_a_product_at_unit_variance(quant):
    tensor = Tensor("w", (64, 512), QUANTS[quant])
    data = np.concatenate(list(SynthBlocks().of(tensor)))
    weights = gguf.quants.dequantize(data, tensor.kind) * np.sqrt(512)
    # Four bits without an offset of their own are half a level off the middle.
    assert abs(float(weights.mean())) < 0.15 and 0.9 < float(weights.std()) < 1.1


def test_no_two_experts_have_the_same_bytes():
    tensor = Tensor("w", (8, 32, 256), QUANTS["q4_k"])
    data = np.concatenate(list(SynthBlocks().of(tensor))).reshape(8, -1)
    assert len({one.tobytes() for one in data}) == 8


def test_the_real_shape_has_the_real_size():
    """30.5 thousand million parameters, 17 GB in Q4_K."""
    tensors = list(model_tensors(SHAPES["qwen3moe-30b-a3b"], QUANTS["q4_k"], own_head=True))
    assert sum(int(np.prod(one.shape)) for one in tensors) == 30_532_122_624
    assert 17.0e9 < sum(one.size_bytes for one in tensors) < 17.4e9
