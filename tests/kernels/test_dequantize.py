"""Dequantized weights are those of gguf-py, to the bit, for every type that it can dequantize."""

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import _type_traits
from gguf.quants import dequantize as dequantize_with_gguf
from hypothesis import given
from hypothesis import strategies as st

from kernels.reference.dequantize import block_size, dequantize, row_bytes
from kernels.reference.scratch import Scratch
from tests.kernels.quant_blocks import random_blocks

FAST = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
ALL = sorted({"F32", "F16"} | {each.name for each in _type_traits})


def same_bits(ours: torch.Tensor, theirs: np.ndarray) -> bool:
    return np.array_equal(ours.numpy().view(np.uint32), np.ascontiguousarray(theirs, np.float32).view(np.uint32))


def check(type_name: str, num_blocks: int, seed: int) -> None:
    type_id = GGMLQuantizationType[type_name]
    blocks = random_blocks(type_name, num_blocks, seed)
    expected = dequantize_with_gguf(blocks, type_id).reshape(-1)
    out = torch.full((num_blocks * block_size(type_id)[0],), torch.nan)
    dequantize(torch.from_numpy(blocks).view(-1), int(type_id), out, Scratch())
    assert np.isfinite(expected).all(), "the test's own blocks should be finite"
    assert same_bits(out, expected)


@pytest.mark.parametrize("type_name", ALL)
def test_every_type_equals_gguf_py_bit_for_bit(type_name: str) -> None:
    check(type_name, num_blocks=33, seed=1)


@given(type_name=st.sampled_from(FAST), num_blocks=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_fast_types_equal_gguf_py_for_any_blocks(type_name: str, num_blocks: int, seed: int) -> None:
    check(type_name, num_blocks, seed)


@pytest.mark.parametrize("type_name", FAST)
def test_a_reused_scratch_leaves_nothing_of_earlier_blocks(type_name: str) -> None:
    type_id, scratch = GGMLQuantizationType[type_name], Scratch()
    first, second = (torch.from_numpy(random_blocks(type_name, 8, seed)).view(-1) for seed in (2, 3))
    out = torch.empty(8 * block_size(type_id)[0])
    dequantize(first, int(type_id), out, scratch)
    dequantize(second, int(type_id), out, scratch)
    assert same_bits(out, dequantize_with_gguf(second.numpy().reshape(8, -1), type_id).reshape(-1))


def test_row_bytes_refuses_a_part_of_a_block() -> None:
    assert row_bytes(GGMLQuantizationType.Q4_1, 576) == 360
    with pytest.raises(AssertionError):
        row_bytes(GGMLQuantizationType.Q4_1, 570)


def test_scratch_gives_one_aligned_buffer_for_each_name_and_shape() -> None:
    scratch = Scratch()
    buffer = scratch.take("a", (3, 5))
    assert scratch.take("a", (3, 5)) is buffer
    assert scratch.take("b", (3, 5)).data_ptr() != buffer.data_ptr()
    assert all(scratch.take("c", (size,), torch.uint8).data_ptr() % 64 == 0 for size in range(1, 40))


def test_scratch_refuses_to_grow_beyond_its_limit() -> None:
    scratch = Scratch(limit_bytes=100)
    scratch.take("a", (25,))
    assert scratch.size_bytes == 100
    with pytest.raises(AssertionError):
        scratch.take("b", (1,))
