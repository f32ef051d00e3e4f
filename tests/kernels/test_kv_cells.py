"""K and V in blocks: how far a number moves, that gguf-py makes the same blocks, and that a position's bytes and what
is read of them depend on nothing else."""

from itertools import pairwise

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kernels.reference.append_kv import append_kv
from kernels.reference.attention import attention
from kernels.reference.kv_cells import Q4_0, Q8_0, BlockCells, cell_bytes
from kernels.reference.scratch import Scratch
from strata.core.kv import CellType, KvFormat, kv_layout

HEADS, HEAD_DIM, CONTEXT = 2, 64, 300
TYPES = (Q8_0, Q4_0)


def numbers(rows: int, seed: int = 0, *, spread: float = 1.0) -> Tensor:
    return torch.randn(rows, HEADS, HEAD_DIM, generator=torch.Generator().manual_seed(seed)) * spread


def empty_cells(type_id: int, rows: int = CONTEXT) -> BlockCells:
    size_bytes = cell_bytes(type_id, num_kv_heads=HEADS, head_dim=HEAD_DIM)
    return BlockCells(torch.zeros(rows, size_bytes, dtype=torch.uint8), type_id, HEADS, HEAD_DIM)


def written(type_id: int, values: Tensor) -> BlockCells:
    cells = empty_cells(type_id, values.shape[0])
    cells.write(values, position=0)
    return cells


def read(cells: BlockCells, start: int, stop: int) -> Tensor:
    read_out = torch.full((stop - start, HEADS, HEAD_DIM), torch.nan)
    cells.read(start, stop, read_out)
    return read_out


def test_the_planner_counts_the_bytes_that_a_cell_has() -> None:
    layout = kv_layout(kv_format=KvFormat.K8V4, context_tokens=7, num_kv_heads=HEADS, head_dim=HEAD_DIM)
    sizes = [cell_bytes(kind, num_kv_heads=HEADS, head_dim=HEAD_DIM) for kind in (CellType.Q8_0, CellType.Q4_0)]
    assert [layout.key_bytes, layout.value_bytes] == sizes


@given(seed=st.integers(0, 2**32 - 1), exponent=st.integers(-10, 8))
@settings(max_examples=30)
@pytest.mark.parametrize(("type_id", "steps"), [(Q8_0, 127), (Q4_0, 8)])
def test_a_number_moves_by_half_a_step_of_its_block(type_id: int, steps: int, seed: int, exponent: int) -> None:
    """A step is the block's largest number over `steps`, rounded to f16. In four bits the end that the largest number
    is not on has one step less, so numbers beyond it move by up to one step."""
    values = numbers(5, seed, spread=2.0**exponent)
    back = read(written(type_id, values), 0, 5)
    blocks, moved = values.view(-1, 32), back.view(-1, 32)
    largest = blocks.abs().amax(dim=1, keepdim=True)
    step = largest / steps
    reach = 0.5 if type_id == Q8_0 else 1.0
    bound = reach * step + largest * 2.0**-11 + steps * 2.0**-25
    assert bool(((blocks - moved).abs() <= bound).all())
    assert bool((blocks != moved).any()), "numbers are rounded at all"


@pytest.mark.parametrize("type_id", TYPES)
def test_zeros_stay_zeros_and_untouched_bytes_read_as_zeros(type_id: int) -> None:
    assert bool((read(written(type_id, torch.zeros(3, HEADS, HEAD_DIM)), 0, 3) == 0).all())
    assert bool((read(empty_cells(type_id), 17, 40) == 0).all())


@pytest.mark.parametrize(("type_id", "kind"), [(Q8_0, "Q8_0"), (Q4_0, "Q4_0")])
def test_scales_and_codes_are_those_of_gguf_py(type_id: int, kind: str) -> None:
    values = numbers(9)
    blocks = gguf.quants.quantize(values.flatten(1).numpy(), gguf.GGMLQuantizationType[kind]).reshape(
        -1, 18 if type_id == Q4_0 else 34
    )
    data = written(type_id, values).data
    codes_bytes = HEADS * HEAD_DIM // (2 if type_id == Q4_0 else 1)
    scales = np.ascontiguousarray(data[:, codes_bytes:].numpy()).view(np.float16).reshape(-1)
    assert np.array_equal(scales, np.ascontiguousarray(blocks[:, :2]).view(np.float16).reshape(-1))
    codes = data[:, :codes_bytes].numpy().reshape(len(blocks), -1)
    if type_id == Q4_0:
        low, high = blocks[:, 2:] & 15, blocks[:, 2:] >> 4  # ggml keeps numbers 0 to 15 in the low bits
        assert np.array_equal(np.stack([codes & 15, codes >> 4], axis=2).reshape(-1, 32), np.hstack([low, high]))
    else:
        assert np.array_equal(codes, blocks[:, 2:])


@pytest.mark.parametrize("type_id", TYPES)
@given(cuts=st.lists(st.integers(0, 40), max_size=5))
@settings(max_examples=15)
def test_a_positions_bytes_do_not_depend_on_what_is_written_with_it(type_id: int, cuts: list[int]) -> None:
    values = numbers(40)
    pieces = empty_cells(type_id, 40)
    for start, stop in pairwise(sorted({0, 40, *cuts})):
        append_kv(values[start:stop], values[start:stop], pieces, pieces, position=start)
    assert torch.equal(pieces.data, written(type_id, values).data)


def test_rows_of_a_longer_buffer_are_written_as_rows_of_their_own() -> None:
    wide = torch.randn(6, HEADS + 3, HEAD_DIM)
    strided = wide[:, 1 : HEADS + 1]
    assert not strided.is_contiguous()
    assert torch.equal(written(Q4_0, strided).data, written(Q4_0, strided.contiguous()).data)


@pytest.mark.parametrize("types", [(Q8_0, Q8_0), (Q4_0, Q4_0), (Q8_0, Q4_0)])
@pytest.mark.parametrize("position", [0, 130, 255])
def test_attention_reads_blocks_as_the_numbers_they_say(types: tuple[int, int], position: int) -> None:
    rows = 20
    keys, values = (written(kind, numbers(CONTEXT, seed)) for seed, kind in enumerate(types))
    query = torch.randn(rows, 2 * HEADS, HEAD_DIM, generator=torch.Generator().manual_seed(7))
    plain = [read(cells, 0, CONTEXT) for cells in (keys, values)]
    outputs = [torch.empty(rows, 2 * HEADS, HEAD_DIM) for _ in range(2)]
    attention(query, keys, values, outputs[0], Scratch(), position=position, scale=0.3)
    attention(query, plain[0], plain[1], outputs[1], Scratch(), position=position, scale=0.3)
    assert torch.equal(outputs[0], outputs[1])


def test_more_positions_than_the_cache_has_are_our_own_mistake() -> None:
    cells = empty_cells(Q8_0, 4)
    with pytest.raises(AssertionError):
        append_kv(numbers(2), numbers(2), cells, cells, position=3)


def test_a_cell_that_is_read_is_the_one_that_was_written() -> None:
    cells, values = empty_cells(Q8_0, 8), numbers(8)
    for row in (5, 2, 7):
        cells.write(values[row : row + 1], position=row)
    expected = torch.zeros(8, HEADS, HEAD_DIM)
    expected[[5, 2, 7]] = read(written(Q8_0, values), 0, 8)[[5, 2, 7]]
    assert torch.equal(read(cells, 0, 8), expected)
