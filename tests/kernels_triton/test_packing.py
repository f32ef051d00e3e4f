"""The packed form holds every bit of the file form, in as many bytes."""

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.triton.formats import F16, PACKED_TYPES, card_type, packed_bytes
from kernels.triton.packing import pack as pack_tensor
from kernels.triton.packing import pack_many, pack_rows
from tests.kernels_triton.unpacking import Bytes, unpack


def pack(data: Bytes, type_id: int, *, rows: int, columns: int) -> Bytes:
    return pack_tensor(torch.from_numpy(data), type_id, rows=rows, columns=columns).numpy()


@pytest.mark.parametrize("type_id", PACKED_TYPES)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 5), blocks=st.integers(1, 3))
def test_unpack_inverts_pack_on_any_bytes(type_id, seed, rows, blocks):
    block, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(type_id)]
    data = np.random.default_rng(seed).integers(0, 256, rows * blocks * block_bytes, dtype=np.uint8)
    packed = pack(data, type_id, rows=rows, columns=blocks * block)
    assert packed.size == data.size == packed_bytes(type_id, rows=rows, columns=blocks * block)
    assert np.array_equal(unpack(packed, type_id, rows=rows, columns=blocks * block), data)


def test_a_q4_0_row_is_words_of_places_then_scales():
    """Weights 0, 1, 2, ... 15 twice: word j holds code 4 i + j at place i."""
    data = np.concatenate([np.array([0x00, 0x3C], np.uint8), np.arange(16, dtype=np.uint8) * 17])
    packed = pack(data, 2, rows=1, columns=32)
    words = packed[:16].view(np.uint32)
    codes = [[int(words[j]) >> 4 * i & 15 for j in range(4)] for i in range(8)]
    assert codes == np.tile(np.arange(16), 2).reshape(8, 4).tolist()
    assert packed[16:].tolist() == [0x00, 0x3C]


@pytest.mark.parametrize("name", ["Q5_0", "Q5_1", "IQ4_NL", "Q2_K", "Q3_K", "IQ2_XXS", "IQ1_S", "TQ1_0"])
def test_a_type_without_a_packed_form_becomes_f16(name):
    type_id = gguf.GGMLQuantizationType[name]
    block, block_bytes = gguf.GGML_QUANT_SIZES[type_id]
    data = np.random.default_rng(1).integers(0, 60, 3 * 2 * block_bytes, dtype=np.uint8)  # small scales
    assert card_type(type_id) == F16
    packed = pack(data, type_id, rows=3, columns=2 * block)
    assert packed.size == packed_bytes(type_id, rows=3, columns=2 * block) == 3 * 2 * block * 2
    weights = gguf.quants.dequantize(data, type_id)
    assert np.any(weights != 0)
    assert np.array_equal(packed.view(np.float16), weights.astype(np.float16))


def test_a_weight_that_f16_cannot_hold_is_refused():
    data = np.concatenate([np.array([0xFF, 0x7B], np.uint8), np.full(20, 0xFF, np.uint8)])  # d = 65,504, q = 15
    with pytest.raises(ValueError, match="Q5_0 has weights beyond 65,504"):
        pack(data, gguf.GGMLQuantizationType.Q5_0, rows=1, columns=32)


@pytest.mark.parametrize("type_id", [0, 1, 30, 6, 10, *PACKED_TYPES])
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 6), cut=st.integers(0, 6))
def test_a_matrix_packed_in_two_pieces_is_the_one_packed_whole(type_id, seed, rows, cut):
    block, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(type_id)]
    columns = max(32, 2 * block)
    data = np.random.default_rng(seed).integers(0, 60, rows * columns // block * block_bytes, dtype=np.uint8)
    cut, row_bytes = min(cut, rows), data.size // rows
    target = np.full(packed_bytes(type_id, rows=rows, columns=columns), 0xEE, np.uint8)
    for first, end in ((cut, rows), (0, cut)):
        some, sizes = data[first * row_bytes : end * row_bytes], {"rows": rows, "columns": columns}
        if first < end:
            some, whole = torch.from_numpy(some), torch.from_numpy(target)
            pack_rows(some, type_id, whole, **sizes, first_row=first, num_rows=end - first)
    assert np.array_equal(target, pack(data, type_id, rows=rows, columns=columns))


@pytest.mark.parametrize("type_id", [0, 1, 30, *PACKED_TYPES])
def test_every_other_type_is_computed_as_it_is(type_id):
    assert card_type(type_id) == type_id


@pytest.mark.parametrize("type_id", [0, 1, 30, 6, 10, *PACKED_TYPES])
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 4), count=st.integers(1, 4))
def test_many_matrices_are_packed_as_each_of_them(type_id, seed, rows, count):
    block, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(type_id)]
    columns = max(32, 2 * block)
    shape = (count, rows * columns // block * block_bytes)
    data = np.random.default_rng(seed).integers(0, 60, shape, dtype=np.uint8)
    packed = pack_many(torch.from_numpy(data), type_id, rows=rows, columns=columns).numpy()
    assert packed.tolist() == [pack(one, type_id, rows=rows, columns=columns).tolist() for one in data]
