# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""What stands between the products of a feed-forward network, number by number."""

import triton
import triton.language as tl


@triton.jit
def silu_mul_kernel(gate, up, out, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """out = silu(gate) * up, rounded to out's type. gate, up: f32 [rows, COLUMNS]; grid (rows, column blocks)."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < COLUMNS
    at = tl.program_id(0).to(tl.int64) * COLUMNS + column
    value = tl.load(gate + at, mask=inside, other=0.0)
    product = value / (1.0 + tl.exp(-value)) * tl.load(up + at, mask=inside, other=0.0)
    tl.store(out + at, product.to(out.dtype.element_ty), mask=inside)


@triton.jit
def add_gated_kernel(hidden, x, gate, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """hidden[row] += sigmoid(gate[row]) * x[row]. hidden, x: f32 [rows, COLUMNS]; grid (rows, column blocks)."""
    row, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < COLUMNS
    at = row * COLUMNS + column
    factor = 1.0 / (1.0 + tl.exp(-tl.load(gate + row)))
    total = tl.load(hidden + at, mask=inside, other=0.0) + factor * tl.load(x + at, mask=inside, other=0.0)
    tl.store(hidden + at, total, mask=inside)


@triton.jit
def gate_heads_kernel(query_gate, out, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr):
    """out *= sigmoid(gate), each head. query_gate: f32 [rows, heads, 2, HEAD_DIM], the gate second; out: [rows, heads,
    HEAD_DIM]; grid (rows * heads,)."""
    head, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = column < HEAD_DIM
    gate = tl.load(query_gate + (2 * head + 1) * HEAD_DIM + column, mask=inside, other=0.0)
    at = out + head * HEAD_DIM + column
    value = tl.load(at, mask=inside, other=0.0).to(tl.float32) / (1.0 + tl.exp(-gate))
    tl.store(at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def add_bias_kernel(x, bias, COLUMNS: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """x[row] += bias, in place. x: f32, a row of COLUMNS every STRIDE numbers; grid (rows, column blocks)."""
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < COLUMNS
    at = x + tl.program_id(0).to(tl.int64) * STRIDE + column
    tl.store(at, tl.load(at, mask=inside, other=0.0) + tl.load(bias + column, mask=inside, other=0.0), mask=inside)
