# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""The kernels of `bookkeeping.py` as functions of tensors: rules of `launch_experts.py`."""

from collections.abc import Iterable

import triton
from torch import Tensor

from kernels.reference.sample import TokenTables
from kernels.triton import bookkeeping
from kernels.triton.sizes import MAX_EXPERTS, MAX_WINDOW_ROWS


def select(experts: Iterable[int], selected: Tensor) -> None:
    """selected: uint8 [experts of the layer], 1 for those in `experts`, 0 for all others."""
    num_experts = selected.numel()
    assert num_experts <= MAX_EXPERTS == 32 * bookkeeping.WORDS, (num_experts, MAX_EXPERTS)
    words = [0] * bookkeeping.WORDS
    for expert in experts:
        words[expert // 32] |= 1 << expert % 32
    signed = (word - (word >> 31 << 32) for word in words)
    bookkeeping.select_kernel[(1,)](
        selected, *signed, NUM_EXPERTS=num_experts, EXPERTS=triton.next_power_of_2(num_experts)
    )


def count_reads(
    ids: Tensor, addresses: Tensor, reads: Tensor, usage: Tensor | None, *, arena_address: int, arena_bytes: int
) -> None:
    """reads: int64 [2] += experts among `ids` (int32) read from the arena, and from elsewhere: each expert once.
    usage: int32 [experts of the layer], += 1 for each of them; None where nobody asks."""
    num_experts = addresses.numel()
    bookkeeping.count_reads_kernel[(1,)](
        ids,
        addresses,
        reads,
        reads if usage is None else usage,
        ids.numel(),
        arena_address,
        arena_bytes,
        NUM_EXPERTS=num_experts,
        EXPERTS=triton.next_power_of_2(num_experts),
        PAIRS=16,
        HAS_USAGE=usage is not None,
    )


def count_chosen(ids: Tensor, counts: Tensor) -> None:
    """counts: int32 [experts of the layer], how often each is among `ids` (int32)."""
    num_experts = counts.numel()
    bookkeeping.count_chosen_kernel[(1,)](
        ids,
        counts,
        ids.numel(),
        NUM_EXPERTS=num_experts,
        EXPERTS=triton.next_power_of_2(num_experts),
        PAIRS=16,
    )


def accept(
    result: Tensor,
    num_sampled: Tensor,
    tables: TokenTables,
    params: Tensor,
    tokens: Tensor,
    sampled: Tensor | None,
    header: Tensor,
) -> None:
    """Which rows of a window stand, of those sampled to `result`, int64 [rows], and all that follows for the next one.

    tables: of `launch_sampling.sample`, whose counts grow; params: as there; tokens: int32 [rows], what was drafted in
    all but the first, which becomes the last token that stands; sampled: int32 [rows]; num_sampled: int64 [1]; header:
    int64, [0] = position."""
    assert result.numel() <= MAX_WINDOW_ROWS, result.shape
    bookkeeping.accept_kernel[(1,)](
        result,
        num_sampled,
        tables.counts,
        tables.terminators,
        params,
        tokens,
        tokens if sampled is None else sampled,
        header,
        result.numel(),
        IS_NOTED=sampled is not None,
        MAX_ROWS=MAX_WINDOW_ROWS,
        num_warps=1,
    )


def place_behind(source: Tensor, header: Tensor, *, behind: int) -> None:
    """header[0] = source[0] - behind. Both int64."""
    bookkeeping.place_behind_kernel[(1,)](source, header, behind, num_warps=1)
