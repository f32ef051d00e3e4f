"""Rows of bytes from wherever a table of addresses says, arena or pinned host memory."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["size_bytes"])
def gather_kernel(addresses, out, size_bytes, BLOCK: tl.constexpr):
    """out[row] = the `size_bytes` (at most BLOCK) at addresses[row]. grid (rows,)."""
    row = tl.program_id(0)
    source = tl.load(addresses + row).to(tl.pointer_type(tl.uint8))
    at = tl.arange(0, BLOCK)
    tl.store(out + row * size_bytes + at, tl.load(source + at, mask=at < size_bytes), mask=at < size_bytes)
