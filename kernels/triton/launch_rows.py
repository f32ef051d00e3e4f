# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""What is done row by row or byte by byte, as functions of tensors: rules of `launch_experts.py`."""

import triton
from torch import Tensor

from kernels.triton import elementwise, memory, norms, router

MIN_WEIGHT_SUM = 6.103515625e-5
DIGEST_PROGRAMS = 1024


def rms_norm(x: Tensor, weight: Tensor, out: Tensor, *, epsilon: float) -> None:
    """x: f32 [rows, columns]; weight: f32 [columns]; out: f32, f16 or bf16. Rows of both may lie apart."""
    columns = x.shape[1]
    assert x.stride(1) == out.stride(1) == 1, (x.stride(), out.stride())
    strides = {"X_STRIDE": x.stride(0), "OUT_STRIDE": out.stride(0)}
    sizes = {"COLUMNS": columns, "BLOCK": triton.next_power_of_2(columns), **strides}
    norms.rms_norm_kernel[(x.shape[0],)](x, weight, out, epsilon, **sizes)


def silu_mul(gate: Tensor, up: Tensor, out: Tensor) -> None:
    """out = silu(gate) * up. gate, up: f32 [rows, columns]; out: f32, f16 or bf16."""
    num_rows, columns = gate.shape
    block = min(1024, triton.next_power_of_2(columns))
    elementwise.silu_mul_kernel[(num_rows, triton.cdiv(columns, block))](gate, up, out, COLUMNS=columns, BLOCK=block)


def add_gated(hidden: Tensor, x: Tensor, gate: Tensor) -> None:
    """hidden[row] += sigmoid(gate[row]) * x[row]. hidden, x: f32 [rows, columns]; gate: f32 [rows, 1]."""
    num_rows, columns = x.shape
    block = min(1024, triton.next_power_of_2(columns))
    elementwise.add_gated_kernel[(num_rows, triton.cdiv(columns, block))](hidden, x, gate, COLUMNS=columns, BLOCK=block)


def gate_heads(query_gate: Tensor, out: Tensor) -> None:
    """out *= sigmoid(gate). query_gate: f32 [rows, heads, 2, D], the gate second; out: f32 or f16 [rows, heads, D]."""
    num_rows, heads, head_dim = out.shape
    block = triton.next_power_of_2(head_dim)
    elementwise.gate_heads_kernel[(num_rows * heads,)](query_gate, out, HEAD_DIM=head_dim, BLOCK=block, num_warps=1)


def add_bias(x: Tensor, bias: Tensor) -> None:
    """x[row] += bias. x: f32 [rows, columns], whose rows may lie apart; bias: f32 [columns]."""
    num_rows, columns = x.shape
    block = min(1024, triton.next_power_of_2(columns))
    assert x.stride(1) == 1, x.stride()
    elementwise.add_bias_kernel[(num_rows, triton.cdiv(columns, block))](
        x, bias, COLUMNS=columns, STRIDE=x.stride(0), BLOCK=block
    )


def route(
    logits: Tensor,
    ids: Tensor,
    weights: Tensor,
    *,
    weights_scale: float = 1.0,
    is_sigmoid: bool = False,
    bias: Tensor | None = None,
    normalizes: bool = True,
) -> None:
    """logits: f32 [rows, experts] -> ids int32, weights f32 [rows, used]: see `reference/router.py`. bias: f32
    [experts]."""
    num_experts = logits.shape[1]
    router.route_kernel[(logits.shape[0],)](
        logits,
        logits if bias is None else bias,
        ids,
        weights,
        weights_scale,
        NUM_EXPERTS=num_experts,
        NUM_USED=ids.shape[1],
        EXPERTS=triton.next_power_of_2(num_experts),
        SMALLEST_SUM=MIN_WEIGHT_SUM,
        IS_SIGMOID=is_sigmoid,
        HAS_BIAS=bias is not None,
        NORMALIZES=normalizes,
        num_warps=1,
    )


def combine(expert_rows: Tensor, weights: Tensor, hidden: Tensor) -> None:
    """hidden[r] += sum over j of weights[r, j] * expert_rows[r, j]. hidden: f32 [rows, columns]."""
    num_rows, used, columns = expert_rows.shape
    block = min(1024, triton.next_power_of_2(columns))
    router.combine_kernel[(num_rows, triton.cdiv(columns, block))](
        expert_rows, weights, hidden, NUM_USED=used, COLUMNS=columns, BLOCK=block
    )


def fill(target: Tensor, value: int) -> None:
    """target: uint8."""
    memory.fill_kernel[(triton.cdiv(target.numel(), 4096),)](target, value, target.numel(), BLOCK=4096)


def digest(data: Tensor, parts: Tensor, out: Tensor) -> None:
    """out[0] = the positional digest of data (uint8, a multiple of 8 bytes). parts: uint64 [DIGEST_PROGRAMS]; out:
    uint64 [1]."""
    assert data.numel() % 8 == 0, data.numel()
    programs = parts.numel()
    memory.digest_parts_kernel[(programs,)](data.view(parts.dtype), parts, data.numel() // 8, BLOCK=1024)
    memory.digest_sum_kernel[(1,)](parts, out, programs, data.numel(), BLOCK=triton.next_power_of_2(programs))
