# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""Which rows go to which expert, on the device, in a stable order and without atomics.

    ids [rows * used] --count--> counts [blocks, experts]     one program a block of pairs
                      --place--> sorted_pairs                 a pair's place: pairs of smaller experts, pairs of its
                                                              expert in earlier blocks, then earlier in its own block
                      --tiles--> tiles, num_tiles             for the experts that one launch computes

The order is that of (expert, pair), so it does not depend on the blocks.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_pairs"])
def count_kernel(ids, counts, num_pairs, NUM_EXPERTS: tl.constexpr, PAIRS: tl.constexpr, EXPERTS: tl.constexpr):
    """counts[block, e] = pairs of the block that chose e. EXPERTS: NUM_EXPERTS as a power of two."""
    block = tl.program_id(0)
    pair = block * PAIRS + tl.arange(0, PAIRS)
    chosen = tl.load(ids + pair, mask=pair < num_pairs, other=-1)
    expert = tl.arange(0, EXPERTS)
    total = tl.sum((chosen[:, None] == expert[None, :]).to(tl.int32), axis=0)
    tl.store(counts + block * NUM_EXPERTS + expert, total, mask=expert < NUM_EXPERTS)


@triton.jit(do_not_specialize=["num_blocks"])
def scan_kernel(counts, starts, totals, num_blocks, NUM_EXPERTS: tl.constexpr, EXPERTS: tl.constexpr):
    """One program. Turns counts into exclusive sums over earlier blocks, in place; totals[e] = all pairs of e;
    starts[e] = pairs of smaller experts, starts[NUM_EXPERTS] = all pairs."""
    expert = tl.arange(0, EXPERTS)
    inside = expert < NUM_EXPERTS
    running = tl.zeros([EXPERTS], tl.int32)
    for block in range(num_blocks):
        here = tl.load(counts + block * NUM_EXPERTS + expert, mask=inside, other=0)
        tl.store(counts + block * NUM_EXPERTS + expert, running, mask=inside)
        running += here
    before = tl.cumsum(running, axis=0) - running
    tl.store(starts + expert, before, mask=inside)
    tl.store(starts + NUM_EXPERTS, tl.sum(running, axis=0))
    tl.store(totals + expert, running, mask=inside)


@triton.jit(do_not_specialize=["num_pairs"])
def place_kernel(ids, counts, starts, sorted_pairs, num_pairs, NUM_EXPERTS: tl.constexpr, PAIRS: tl.constexpr):
    block = tl.program_id(0)
    local = tl.arange(0, PAIRS)
    pair = block * PAIRS + local
    inside = pair < num_pairs
    chosen = tl.load(ids + pair, mask=inside, other=-1)
    again = tl.load(ids + block * PAIRS + tl.arange(0, PAIRS), mask=inside, other=-2)
    earlier = (chosen[:, None] == again[None, :]) & (tl.arange(0, PAIRS)[None, :] < local[:, None])
    rank = tl.sum(earlier.to(tl.int32), axis=1)
    place = tl.load(starts + chosen, mask=inside, other=0) + rank
    place += tl.load(counts + block * NUM_EXPERTS + chosen, mask=inside, other=0)
    tl.store(sorted_pairs + place, pair, mask=inside)


@triton.jit
def tiles_kernel(
    starts, selected, tiles, num_tiles, NUM_EXPERTS: tl.constexpr, EXPERTS: tl.constexpr, BLOCK_ROWS: tl.constexpr
):
    """One program. selected: uint8 [NUM_EXPERTS], 1 where this launch computes the expert. tiles: int32 [*, 4]."""
    expert = tl.arange(0, EXPERTS)
    inside = expert < NUM_EXPERTS
    first = tl.load(starts + expert, mask=inside, other=0)
    end = tl.load(starts + expert + 1, mask=inside, other=0)
    wanted = tl.load(selected + expert, mask=inside, other=0) != 0
    here = tl.where(wanted, (end - first + BLOCK_ROWS - 1) // BLOCK_ROWS, 0)
    at = tl.cumsum(here, axis=0) - here
    tl.store(num_tiles, tl.sum(here, axis=0))
    for step in range(tl.max(here, axis=0)):
        mask = step < here
        entry = tiles + (at + step) * 4
        tl.store(entry, expert, mask=mask)
        tl.store(entry + 1, first + step * BLOCK_ROWS, mask=mask)
        tl.store(entry + 2, tl.minimum(first + (step + 1) * BLOCK_ROWS, end), mask=mask)
        tl.store(entry + 3, 0, mask=mask)
