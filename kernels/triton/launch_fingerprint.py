# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""The kernel of `fingerprint.py` as a function of tensors and addresses: rules of `launch_experts.py`."""

from torch import Tensor

from kernels.triton.fingerprint import fingerprint_kernel

BLOCK = 256


def fingerprint(row: Tensor, lane: Tensor, *, arena_address: int, segment_bytes: int, stride_bytes: int) -> None:
    """row, lane: int64, on the card or pinned, as `fingerprint_kernel` has them; byte o of the arena is at
    arena_address + o // segment_bytes * stride_bytes + o % segment_bytes."""
    addresses = row.data_ptr(), lane.data_ptr(), arena_address
    fingerprint_kernel[(1,)](*addresses, segment_bytes, stride_bytes, BLOCK=BLOCK, num_warps=8)
