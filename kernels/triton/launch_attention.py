# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""Heads, their K/V cache and attention, as functions of tensors: rules of `launch_experts.py`."""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from kernels.triton import attention as kernels
from kernels.triton import norms
from kernels.triton.formats import F16
from kernels.triton.sizes import MERGE_SPLITS, PromptAttentionSize, WindowAttentionSize, constants


@dataclass(frozen=True, slots=True)
class KvLayer:
    """A layer's K and V: f16 [context, Hkv, D] of type F16, or uint8 [context, cell bytes] of Q8_0 or Q4_0 (K and V
    may differ; D a multiple of 32 then). See `reference/kv_cells.py`."""

    keys: Tensor
    values: Tensor
    num_kv_heads: int
    key_type: int = F16
    value_type: int = F16

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """keys, their scales, values, their scales: a cell's scales lie in the cell."""
        half = torch.float16
        return self.keys, self.keys.view(half), self.values, self.values.view(half)

    @property
    def types(self) -> dict[str, int]:
        return {"KEY_TYPE": self.key_type, "VALUE_TYPE": self.value_type, "NUM_KV_HEADS": self.num_kv_heads}


def angles(header: Tensor, frequencies: Tensor, out: Tensor) -> None:
    """out: f32 [rows, 2, pairs] of frequencies f64 [pairs]."""
    half = frequencies.numel()
    norms.angles_kernel[(out.shape[0],)](
        header, frequencies, out, HALF=half, BLOCK=triton.next_power_of_2(half), num_warps=1
    )


def heads(
    qkv: Tensor,
    angle_table: Tensor,
    weights: tuple[Tensor, Tensor] | None,
    header: Tensor,
    q_out: Tensor,
    cache: KvLayer,
    *,
    epsilon: float,
    is_neox: bool,
) -> None:
    """qkv: f32 [rows, H + 2 Hkv, D] -> normed (with `weights` of queries and keys: f32 [D] each) and roped q_out
    [rows, H, D], and keys and values at the rows' positions."""
    num_rows, all_heads, head_dim = qkv.shape
    norms.heads_kernel[(num_rows, all_heads)](
        qkv,
        angle_table,
        *(weights or (qkv, qkv)),
        header,
        q_out,
        *cache.tensors,
        epsilon,
        **cache.types,
        NUM_HEADS=q_out.shape[1],
        HEAD_DIM=head_dim,
        BLOCK=triton.next_power_of_2(head_dim),
        ROTATED=2 * angle_table.shape[2],
        IS_NEOX=is_neox,
        HAS_NORM=weights is not None,
        num_warps=1,
    )


def attention_prompt(
    q: Tensor, cache: KvLayer, header: Tensor, out: Tensor, *, scale: float, size: PromptAttentionSize
) -> None:
    """q: f16 [rows, H, D]; header: int64, [0] = position of row 0; out like q, of any float type."""
    num_rows, num_heads, head_dim = q.shape
    kernels.prompt_attention_kernel[(triton.cdiv(num_rows, size.block_rows), num_heads)](
        q,
        *cache.tensors,
        header,
        out,
        num_rows,
        scale * kernels.LOG2_E,
        **cache.types,
        NUM_HEADS=num_heads,
        HEAD_DIM=head_dim,
        **constants(size),
    )


def attention_window(
    q: Tensor,
    cache: KvLayer,
    header: Tensor,
    part_out: Tensor,
    part_state: Tensor,
    out: Tensor,
    *,
    scale: float,
    size: WindowAttentionSize,
) -> None:
    """As `attention_prompt`, split by keys. part_out: f32 [splits, rows * H, D], part_state: f32 [2, splits, rows * H],
    scratch, with splits = context / split_keys rounded up: a captured graph serves every position."""
    num_rows, num_heads, head_dim = q.shape
    splits = part_state.shape[1]
    assert splits * size.split_keys >= cache.keys.shape[0], (splits, size, cache.keys.shape)
    shape = {"NUM_HEADS": num_heads, "HEAD_DIM": head_dim}
    kernels.window_attention_kernel[(cache.num_kv_heads, splits)](
        q,
        *cache.tensors,
        header,
        part_out,
        part_state,
        num_rows,
        scale * kernels.LOG2_E,
        **cache.types,
        **shape,
        **constants(size),
    )
    kernels.merge_splits_kernel[(num_rows * num_heads,)](
        part_out, part_state, header, out, num_rows, splits, **shape, SPLIT_KEYS=size.split_keys, SPLITS=MERGE_SPLITS
    )
