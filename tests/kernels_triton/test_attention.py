"""Heads, their cache in every K/V format, and attention over it, against the reference, into poisoned outputs."""

import math

import pytest
import torch

from kernels.reference import attention as reference_attention
from kernels.reference import rms_norm as reference_rms_norm
from kernels.reference import rope as reference_rope
from kernels.reference.kv_cells import cell_bytes, read_cells, write_cells
from kernels.triton import kv_cells, launch_attention
from kernels.triton.formats import F16
from kernels.triton.launch_attention import KvLayer
from kernels.triton.sizes import prompt_attention_size, window_attention_size
from strata.core.kv import CellType
from tests.kernels_triton.builders import (
    DEVICE,
    KV_FORMATS,
    SCRATCH,
    header_at,
    normal,
    poisoned,
    random_kv,
    relative_error,
)

SMALL_CARD = 99 * 1024
Q4_0, Q8_0 = 2, 8


def expected_attention(q, kv, *, position):
    out = torch.empty(q.shape)
    reference_attention.attention(
        q.float().cpu(), *kv, out, SCRATCH, position=position, scale=1 / math.sqrt(q.shape[2])
    )
    return out


@pytest.mark.parametrize(("position", "rows"), [(0, 70), (45, 20), (129, 3)])
@pytest.mark.parametrize("head_dim", [64, pytest.param(128, marks=pytest.mark.soak)])
@pytest.mark.parametrize("types", KV_FORMATS)
def test_attention_equals_the_reference(position, rows, head_dim, types):
    q, scale = normal(rows, 4, head_dim, dtype=torch.float16), 1 / math.sqrt(head_dim)
    cache, numbers = random_kv(types, context=160, used=position + rows, heads=2, head_dim=head_dim)
    expected = expected_attention(q, numbers, position=position)
    out = poisoned(rows, 4, head_dim)
    size = prompt_attention_size(head_dim=head_dim, shared_bytes=SMALL_CARD)
    launch_attention.attention_prompt(q, cache, header_at(position), out, scale=scale, size=size)
    assert relative_error(out, expected) < 1e-3
    if rows > 8:
        return
    out = poisoned(rows, 4, head_dim)
    window = window_attention_size(max_rows=8, num_heads=4, num_kv_heads=2, head_dim=head_dim, shared_bytes=SMALL_CARD)
    parts = poisoned(2, rows * 4, head_dim), poisoned(2, 2, rows * 4)
    launch_attention.attention_window(q, cache, header_at(position), *parts, out, scale=scale, size=window)
    assert relative_error(out, expected) < 1e-3


def test_window_attention_over_several_splits_equals_the_reference():
    q = normal(3, 2, 64, dtype=torch.float16)
    cache, numbers = random_kv((F16, F16), context=1100, used=1025, heads=1, head_dim=64)
    size = window_attention_size(max_rows=3, num_heads=2, num_kv_heads=1, head_dim=64, shared_bytes=SMALL_CARD)
    out, parts = poisoned(3, 2, 64), (poisoned(3, 6, 64), poisoned(2, 3, 6))
    launch_attention.attention_window(q, cache, header_at(1022), *parts, out, scale=0.125, size=size)
    assert relative_error(out, expected_attention(q, numbers, position=1022)) < 1e-3


def expected_heads(qkv, weights, *, position, rotated, is_neox):
    expected = qkv.cpu().clone()
    for start, stop, weight in ((0, 4, weights and weights[0]), (4, 6, weights and weights[1])):
        part = expected[:, start:stop].reshape(-1, 64)
        if weights:
            reference_rms_norm.rms_norm(part, weight.cpu(), 1e-6, part, SCRATCH)
        part = part.view(len(qkv), -1, 64)
        reference_rope.rope(part, position=position, base=1e6, num_dims=rotated, is_neox=is_neox)
        expected[:, start:stop] = part
    return expected


def run_heads(qkv, weights, cache, *, position, rotated, is_neox):
    frequencies = 1e6 ** -(torch.arange(0, rotated, 2, dtype=torch.float64) / rotated)
    table, header = poisoned(len(qkv), 2, rotated // 2), header_at(position)
    launch_attention.angles(header, frequencies.to(DEVICE), table)
    q = poisoned(len(qkv), 4, 64)
    launch_attention.heads(qkv, table, weights, header, q, cache, epsilon=1e-6, is_neox=is_neox)
    return q


@pytest.mark.parametrize("is_neox", [True, False])
@pytest.mark.parametrize(("rotated", "has_norm"), [(64, True), (32, True), (64, False)])
def test_heads_are_normed_roped_and_cached(is_neox, rotated, has_norm):
    qkv, position = normal(3, 8, 64), 7_001
    weights = (normal(64), normal(64)) if has_norm else None
    turn = {"position": position, "rotated": rotated, "is_neox": is_neox}
    expected = expected_heads(qkv, weights, **turn)
    cache = KvLayer(*(poisoned(position + 4, 2, 64, dtype=torch.float16) for _ in range(2)), num_kv_heads=2)
    q = run_heads(qkv, weights, cache, **turn)
    assert relative_error(q, expected[:, :4]) < 1e-6
    assert relative_error(cache.keys[position : position + 3], expected[:, 4:6].half()) < 1e-4
    assert torch.equal(cache.values[position : position + 3].cpu(), expected[:, 6:].half())
    for cells in (cache.keys, cache.values):
        assert torch.isnan(cells[:position]).all() and torch.isnan(cells[position + 3 :]).all()


@pytest.mark.parametrize("type_id", [Q8_0, Q4_0])
def test_cached_blocks_are_those_of_the_reference(type_id):
    qkv = normal(5, 8, 64)
    qkv[1, 6], qkv[2, 7, :32], qkv[3, 6, 5] = 0.0, 1.0, -30.0
    cells = [poisoned(9, cell_bytes(type_id, num_kv_heads=2, head_dim=64), dtype=torch.uint8) for _ in range(2)]
    cache = KvLayer(*cells, num_kv_heads=2, key_type=type_id, value_type=type_id)
    run_heads(qkv, None, cache, position=3, rotated=64, is_neox=True)
    expected = torch.full(cells[1].shape, 77, dtype=torch.uint8)
    write_cells(qkv[:, 6:].cpu(), type_id, expected[3:8])
    assert torch.equal(cache.values.cpu(), expected)
    turned, read = expected_heads(qkv, None, position=3, rotated=64, is_neox=True)[:, 4:6], torch.empty(5, 2, 64)
    read_cells(cache.keys[3:8].cpu(), type_id, read)
    assert relative_error(read, turned) < {Q8_0: 0.01, Q4_0: 0.1}[type_id]


@pytest.mark.parametrize(("type_id", "levels"), [(Q8_0, 127), (Q4_0, 8)])
def test_a_block_read_back_is_within_half_a_level(type_id, levels):
    numbers, read = torch.randn(50, 2, 64), torch.empty(50, 2, 64)
    cells = torch.empty(50, cell_bytes(type_id, num_kv_heads=2, head_dim=64), dtype=torch.uint8)
    write_cells(numbers, type_id, cells)
    read_cells(cells, type_id, read)
    blocks, errors = numbers.view(-1, 32), (read - numbers).abs().view(-1, 32)
    largest = blocks.abs().amax(dim=1)
    level = largest / levels
    # The one level that q4_0 lacks is that of the largest number with its sign turned.
    is_end = (blocks.abs() > largest[:, None] * (levels - 1) / levels) & (type_id == Q4_0)
    assert (errors[~is_end] <= (0.5 * level + 1e-3 * largest)[:, None].expand(-1, 32)[~is_end]).all()
    assert (errors <= (level * 1.01)[:, None]).all()


@pytest.mark.parametrize("kind", [CellType.Q8_0, CellType.Q4_0])
@pytest.mark.parametrize(("heads", "head_dim"), [(1, 32), (4, 128), (2, 256)])
def test_a_card_counts_the_bytes_of_a_cell_as_the_planner_does(kind: CellType, heads: int, head_dim: int) -> None:
    assert int(kv_cells.cell_bytes(int(kind), heads, head_dim)) == heads * head_dim // 32 * kind.bytes_per_32
