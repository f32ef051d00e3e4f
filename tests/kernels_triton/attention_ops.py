"""Attention and what happens to heads before it, as functions of rows, for `row_ops.py`."""

import math

import torch
from torch import Tensor

from kernels.triton import launch_attention, launch_rows
from kernels.triton.formats import F16
from kernels.triton.launch_attention import KvLayer
from kernels.triton.sizes import prompt_attention_size, window_attention_size
from tests.kernels_triton.builders import DEVICE, header_at, normal, poisoned, random_kv
from tests.kernels_triton.row_op import RowOp

Q8_0, Q4_0 = 8, 2


def _poisoned_from(cache: KvLayer, first: int) -> KvLayer:
    """A copy in which the positions from `first` on are what nobody wrote."""
    keys, values = cache.keys.clone(), cache.values.clone()
    for cells in (keys, values):
        cells[first:] = 0x7F if cells.dtype == torch.uint8 else torch.nan
    return KvLayer(keys, values, cache.num_kv_heads, cache.key_type, cache.value_type)


def attention_prompt(types: tuple[int, int] = (F16, F16)) -> RowOp:
    q = normal(200, 4, 64, dtype=torch.float16)
    cache, _ = random_kv(types, context=256, used=200, heads=2, head_dim=64)
    size = prompt_attention_size(head_dim=64, shared_bytes=99 * 1024)

    def compute(rows: list[int]) -> Tensor:
        out, seen = poisoned(len(rows), 4, 64), _poisoned_from(cache, rows[-1] + 1)
        some = q[rows].contiguous()
        launch_attention.attention_prompt(some, seen, header_at(rows[0]), out, scale=1 / math.sqrt(64), size=size)
        return out

    return RowOp("attention_prompt", ("prompt_attention_kernel",), 200, compute, is_run=True)


def attention_prompt_k8v4() -> RowOp:
    return attention_prompt((Q8_0, Q4_0))


def attention_window(types: tuple[int, int] = (F16, F16), first: int = 508) -> RowOp:
    """Eight rows around the border of a split of 512 keys."""
    q = normal(8, 2, 64, dtype=torch.float16)
    cache, _ = random_kv(types, context=640, used=first + 8, heads=1, head_dim=64)
    size = window_attention_size(max_rows=8, num_heads=2, num_kv_heads=1, head_dim=64, shared_bytes=99 * 1024)

    def compute(rows: list[int]) -> Tensor:
        out, seen = poisoned(len(rows), 2, 64), _poisoned_from(cache, first + rows[-1] + 1)
        parts = poisoned(2, len(rows) * 2, 64), poisoned(2, 2, len(rows) * 2)
        header, some = header_at(first + rows[0]), q[rows].contiguous()
        launch_attention.attention_window(some, seen, header, *parts, out, scale=1 / math.sqrt(64), size=size)
        return out

    return RowOp("attention_window", ("window_attention_kernel", "merge_splits_kernel"), 8, compute, is_run=True)


def attention_window_k8v4() -> RowOp:
    return attention_window((Q8_0, Q4_0))


def heads(types: tuple[int, int] = (F16, F16)) -> RowOp:
    qkv, weight = normal(8, 8, 64), normal(64)
    frequencies = (1e4 ** -(torch.arange(32, dtype=torch.float64) / 32)).to(DEVICE)

    def compute(rows: list[int]) -> Tensor:
        table, header = poisoned(len(rows), 2, 32), header_at(rows[0])
        launch_attention.angles(header, frequencies, table)
        q = poisoned(len(rows), 4, 64, dtype=torch.float16)
        cache, _ = random_kv(types, context=32, used=0, heads=2, head_dim=64)
        some = qkv[rows].contiguous()
        launch_attention.heads(some, table, (weight, weight), header, q, cache, epsilon=1e-6, is_neox=True)
        return torch.cat([part.reshape(len(rows), -1).float() for part in (q, cache.keys[rows], cache.values[rows])], 1)

    return RowOp("heads", ("angles_kernel", "heads_kernel"), 8, compute, is_run=True)


def heads_k8v4() -> RowOp:
    return heads((Q8_0, Q4_0))


def keys_and_values() -> RowOp:
    """As a drafter's cells are filled: no queries, and the rows of both come out of one wider row each."""
    x, norm, weight = normal(6, 64), normal(64), normal(64)
    frequencies = (1e4 ** -(torch.arange(32, dtype=torch.float64) / 32)).to(DEVICE)

    def compute(rows: list[int]) -> Tensor:
        fresh = poisoned(len(rows), 2, 64)
        for half in fresh.flatten(1).split(64, dim=1):
            launch_rows.rms_norm(x[rows].contiguous(), norm, half, epsilon=1e-6)
        table, header = poisoned(len(rows), 2, 32), header_at(rows[0])
        launch_attention.angles(header, frequencies, table)
        cache, _ = random_kv((F16, F16), context=32, used=0, heads=1, head_dim=64)
        query = poisoned(len(rows), 0, 64, dtype=torch.float16)
        launch_attention.heads(fresh, table, (weight, weight), header, query, cache, epsilon=1e-6, is_neox=True)
        return torch.cat([part[rows].reshape(len(rows), -1).float() for part in (cache.keys, cache.values)], 1)

    return RowOp("keys_and_values", ("rms_norm_kernel", "angles_kernel", "heads_kernel"), 6, compute, is_run=True)
