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


def format_bytes(size_bytes: int) -> str:
    """`1,572,864 B` as `1.5 MiB`: for people, never for parsing."""
    for factor, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(size_bytes) >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"
