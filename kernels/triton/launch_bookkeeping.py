# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""The kernels of `bookkeeping.py` as functions of tensors: rules of `launch_experts.py`."""

from collections.abc import Iterable

import triton
from torch import Tensor

from kernels.triton import bookkeeping
from kernels.triton.sizes import MAX_EXPERTS


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


def count_reads(ids: Tensor, addresses: Tensor, reads: Tensor, *, arena_address: int, arena_bytes: int) -> None:
    """reads: int64 [2] += experts among `ids` (int32) read from the arena, and from elsewhere: each expert once."""
    num_experts = addresses.numel()
    bookkeeping.count_reads_kernel[(1,)](
        ids,
        addresses,
        reads,
        ids.numel(),
        arena_address,
        arena_bytes,
        NUM_EXPERTS=num_experts,
        EXPERTS=triton.next_power_of_2(num_experts),
        PAIRS=16,
    )


def accept(result: Tensor, num_sampled: Tensor, counts: Tensor, tokens: Tensor, header: Tensor) -> None:
    """result, num_sampled: int64 [1]; counts: int32 [V]; tokens: int32; header: int64, [0] = position."""
    bookkeeping.accept_kernel[(1,)](result, num_sampled, counts, tokens, header, num_warps=1)
