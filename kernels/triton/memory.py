# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""Rows of the embedding table, one byte everywhere, and the positional digest of bytes (`reference/digest.py`)."""

import triton
import triton.language as tl

from kernels.triton.grouped import weight_tile

_K1 = tl.constexpr(0x9E3779B97F4A7C15)
_K2 = tl.constexpr(0xC2B2AE3D27D4EB4F)


@triton.jit
def embed_kernel(
    tokens, addresses, grids, out, TYPE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr
):
    """out[i] = row tokens[i] of the packed table at addresses[0], f32. grid (rows, column blocks)."""
    row, first = tl.program_id(0), tl.program_id(1) * BLOCK
    token = tl.load(tokens + row + tl.arange(0, 1))
    tile = weight_tile(tl.load(addresses), grids, token, first, TYPE, ROWS, COLUMNS, 1, BLOCK, tl.float32)
    column = first + tl.arange(0, BLOCK)
    tl.store(out + row.to(tl.int64) * COLUMNS + column, tl.reshape(tile, [BLOCK]), mask=column < COLUMNS)


@triton.jit(do_not_specialize=["value", "size_bytes"])
def fill_kernel(target, value, size_bytes, BLOCK: tl.constexpr):
    """target: uint8 [size_bytes]."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.full([BLOCK], 0, tl.int32).to(tl.uint8) + value.to(tl.uint8), mask=at < size_bytes)


@triton.jit(do_not_specialize=["num_words"])
def digest_parts_kernel(words, parts, num_words, BLOCK: tl.constexpr):
    """parts[program] = sum over its words w_i of x xor x >>> 32, x = (w_i xor (i + 1) * K1) * K2, modulo 2^64.

    words: uint64 [num_words]. A fixed number of programs share the words; a sum modulo 2^64 has no order."""
    total = tl.zeros([BLOCK], tl.uint64)
    for block in range(tl.program_id(0), (num_words + BLOCK - 1) // BLOCK, tl.num_programs(0)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        place = (at + 1).to(tl.uint64)
        word = tl.load(words + at, mask=at < num_words, other=0)
        mixed = (word ^ (place * _K1)) * _K2
        total += tl.where(at < num_words, mixed ^ (mixed >> 32), 0).to(tl.uint64)
    tl.store(parts + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit(do_not_specialize=["num_parts", "size_bytes"])
def digest_sum_kernel(parts, out, num_parts, size_bytes, BLOCK: tl.constexpr):
    """out[0] = size_bytes + all parts."""
    lane = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(parts + lane, mask=lane < num_parts, other=0), axis=0)
    tl.store(out, total + size_bytes.to(tl.uint64))
