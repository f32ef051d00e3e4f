"""The two block sizes on which every bit of the reference rests.

A row of a product must have the same bits whatever rows lie beside it. The BLAS below torch promises that for no
shape: `x @ W.T` gives other bits for 1, 2, 4 and 8 rows, and for 64 where it splits the inner dimension (torch 2.13,
AVX-512, measured). So every op that multiplies, sums or takes an exponential does it on blocks of exactly ROW_BLOCK
rows, the last one padded with zeros, and inside such a block a row's bits do not depend on its place
(tests/kernels/test_row_bits.py). Elementwise products and sums are rounded one by one and need no such care.

A longer read is cut into bands of BAND_ROWS, which bound the working buffers.
"""

from collections.abc import Iterator

from torch import Tensor

from kernels.reference.scratch import Scratch

ROW_BLOCK = 16
KEY_BLOCK = 128
BAND_ROWS = 256
ALIGNMENT_BYTES = 64


def spans(count: int, step: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of consecutive pieces of at most `step`, first to last."""
    for start in range(0, count, step):
        yield start, min(start + step, count)


def row_block(x: Tensor, start: int, stop: int, scratch: Scratch, name: str) -> Tensor:
    """x[start:stop] as exactly ROW_BLOCK rows: a view where there are that many, else a zero padded copy.

    x: [rows, columns], f32. The result is contiguous and 64-byte aligned: a product's bits may depend on both."""
    block = x[start:stop]
    if stop - start == ROW_BLOCK and block.is_contiguous() and block.data_ptr() % ALIGNMENT_BYTES == 0:
        return block
    copy = scratch.take(name, (ROW_BLOCK, x.shape[1]))
    copy[: stop - start].copy_(block)
    copy[stop - start :].zero_()
    return copy
