# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""Products with one matrix, and rows of the embedding table, as functions of tensors: rules of `launch_experts.py`."""

import triton
from torch import Tensor

from kernels.triton import grouped, memory, rows
from kernels.triton.sizes import LINEAR_GROUPED, GroupedSize, constants, rows_size


def linear_window(
    x: Tensor, addresses: Tensor, grids: Tensor, type_id: int, out: Tensor, *, is_added: bool = False
) -> None:
    """out = x W^T, or += with `is_added`. x: f32 [rows, K]; out: f32 [rows, N], whose rows may lie apart; addresses:
    int64 [1], W [N, K] in packed form."""
    size = rows_size(x.shape[1])
    matrix = _matrix(x, type_id, out, is_added)
    grid = (triton.cdiv(out.shape[1], size.block_rows),)
    rows.linear_rows_kernel[grid](x, addresses, grids, out, x.shape[0], **matrix, **constants(size))


def linear_prompt(
    x: Tensor,
    addresses: Tensor,
    grids: Tensor,
    type_id: int,
    out: Tensor,
    *,
    is_added: bool = False,
    size: GroupedSize = LINEAR_GROUPED,
) -> None:
    """`linear_window` for many rows. x: f16 or bf16, weights are rounded to that; f32 with size=LINEAR_F32: exact."""
    matrix = _matrix(x, type_id, out, is_added)
    grid = (triton.cdiv(out.shape[1], size.block_columns), triton.cdiv(x.shape[0], size.block_rows))
    grouped.linear_grouped_kernel[grid](x, addresses, grids, out, x.shape[0], **matrix, **constants(size))


def _matrix(x: Tensor, type_id: int, out: Tensor, is_added: bool) -> dict[str, int | bool]:
    assert out.stride(1) == 1, out.stride()
    return {
        "TYPE": type_id,
        "ROWS": out.shape[1],
        "COLUMNS": x.shape[1],
        "STRIDE": out.stride(0),
        "IS_ADDED": is_added,
    }


def embed(tokens: Tensor, addresses: Tensor, grids: Tensor, type_id: int, out: Tensor, *, vocab_size: int) -> None:
    """out[i] = row tokens[i] of the packed table [vocab_size, E] at addresses[0]. out: f32 [rows, E]."""
    num_rows, columns = out.shape
    memory.embed_kernel[(num_rows, triton.cdiv(columns, 256))](
        tokens, addresses, grids, out, TYPE=type_id, ROWS=vocab_size, COLUMNS=columns, BLOCK=256, num_warps=1
    )
