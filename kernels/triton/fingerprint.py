# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""What a launch of a replay does on a card: it digests bytes, notes one mark of them all, and fills others with a
pattern of it (docs/traces.md). All in one program: a replay has thousands of launches, each over a few KiB."""

import triton
import triton.language as tl

_K1 = tl.constexpr(0x9E3779B97F4A7C15)
_K2 = tl.constexpr(0xC2B2AE3D27D4EB4F)


@triton.jit(do_not_specialize=["row_address", "lane_address", "arena_address", "segment_bytes", "stride_bytes"])
def fingerprint_kernel(row_address, lane_address, arena_address, segment_bytes, stride_bytes, BLOCK: tl.constexpr):
    """row: int64, how many reads and writes there are, then (offset, size) of each in the arena. lane: int64, how many
    marks it has, how many it has room for, then the marks: that of this launch is put behind them. BLOCK words at once.

    Written without functions of its own: in the interpreter a call of one costs more than a block of bytes."""
    row = row_address.to(tl.pointer_type(tl.int64))
    lane = lane_address.to(tl.pointer_type(tl.int64))
    arena = arena_address.to(tl.int64).to(tl.pointer_type(tl.uint8))
    num_reads, num_writes = tl.load(row), tl.load(row + 1)
    lanes, byte = tl.arange(0, BLOCK).to(tl.int64), tl.arange(0, 8)
    mark = tl.zeros([1], tl.uint64)
    for read in range(num_reads):
        offset, size = tl.load(row + 2 + 2 * read), tl.load(row + 3 + 2 * read)
        total = tl.zeros([BLOCK], tl.uint64)
        for first in range(0, (size + 7) // 8, BLOCK):
            word_index = first + lanes
            at = word_index[:, None] * 8 + byte[None, :]
            place = (offset + at) // segment_bytes * stride_bytes + (offset + at) % segment_bytes
            data = tl.load(arena + place, mask=at < size, other=0).to(tl.uint64)
            word = tl.sum(data << (8 * byte[None, :]).to(tl.uint64), axis=1)
            mixed = (word ^ ((word_index + 1).to(tl.uint64) * _K1)) * _K2
            total += tl.where(word_index * 8 < size, mixed ^ (mixed >> 32), 0).to(tl.uint64)
        mixed_mark = (mark ^ (tl.sum(total, axis=0) + size.to(tl.uint64))) * _K2
        mark = (mixed_mark ^ (mixed_mark >> 32)) + _K1
    count, room = tl.load(lane), tl.load(lane + 1)
    noted = (lane + 2 + count + tl.arange(0, 1)).to(tl.pointer_type(tl.uint64))
    tl.store(noted, mark, mask=count < room)
    tl.store(lane, count + 1)
    mixed_mark = mark * _K2
    start = (mixed_mark ^ (mixed_mark >> 32)) + _K1
    for write in range(num_writes):
        offset, size = tl.load(row + 2 + 2 * (num_reads + write)), tl.load(row + 3 + 2 * (num_reads + write))
        mixed_seed = (start ^ (tl.zeros([1], tl.int64) + write).to(tl.uint64)) * _K2
        seed = (mixed_seed ^ (mixed_seed >> 32)) + _K1
        for first in range(0, (size + 7) // 8, BLOCK):
            word_index = first + lanes
            at = word_index[:, None] * 8 + byte[None, :]
            place = (offset + at) // segment_bytes * stride_bytes + (offset + at) % segment_bytes
            mixed = (seed ^ ((word_index + 1).to(tl.uint64) * _K1)) * _K2
            word = (mixed ^ (mixed >> 32))[:, None] >> (8 * byte[None, :]).to(tl.uint64)
            tl.store(arena + place, (word & 0xFF).to(tl.uint8), mask=at < size)
        tl.debug_barrier()  # what is written next may lie over it
