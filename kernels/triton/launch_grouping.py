# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""The pairs of a prompt chunk by expert, as functions of tensors (`grouping.py`). Rules of `launch_experts.py` hold."""

from dataclasses import dataclass

import triton
from torch import Tensor

from kernels.triton import grouping
from kernels.triton.sizes import PAIR_BLOCK


@dataclass(frozen=True, slots=True)
class Grouping:
    """Pairs (row, place in its ids) by expert. counts: int32 [blocks of 128 pairs, experts], scratch; starts: int32
    [experts + 1]; totals: int32 [experts], pairs of each expert; sorted_pairs: int32 [pairs]."""

    counts: Tensor
    starts: Tensor
    totals: Tensor
    sorted_pairs: Tensor


@dataclass(frozen=True, slots=True)
class Tiles:
    """entries: int32 [pairs / block rows + experts, 4]; count: int32 [1]."""

    entries: Tensor
    count: Tensor


def group(ids: Tensor, out: Grouping, *, num_experts: int) -> None:
    """Sorts the pairs of ids (int32 [rows, used]) by expert, stable."""
    pairs = ids.numel()
    blocks = triton.cdiv(pairs, PAIR_BLOCK)
    constants = {"NUM_EXPERTS": num_experts, "EXPERTS": triton.next_power_of_2(num_experts)}
    grouping.count_kernel[(blocks,)](ids, out.counts, pairs, **constants, PAIRS=PAIR_BLOCK)
    grouping.scan_kernel[(1,)](out.counts, out.starts, out.totals, blocks, **constants)
    grouping.place_kernel[(blocks,)](
        ids, out.counts, out.starts, out.sorted_pairs, pairs, NUM_EXPERTS=num_experts, PAIRS=PAIR_BLOCK
    )


def make_tiles(starts: Tensor, selected: Tensor, tiles: Tiles, *, num_experts: int, block_rows: int) -> None:
    """selected: uint8 [experts], 1 where the launch that follows computes the expert."""
    grouping.tiles_kernel[(1,)](
        starts,
        selected,
        tiles.entries,
        tiles.count,
        NUM_EXPERTS=num_experts,
        EXPERTS=triton.next_power_of_2(num_experts),
        BLOCK_ROWS=block_rows,
    )
