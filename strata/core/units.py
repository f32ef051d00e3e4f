"""Bytes and how they are written. Decides nothing; knows nothing of a model or a device."""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

SLOT_ALIGNMENT_BYTES = 256
"""Every extent given to a kernel starts and is sized on this grid (`lending.md` 2, stride)."""


def align_up(value: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is at least `value`."""
    assert alignment > 0
    return -(-value // alignment) * alignment
