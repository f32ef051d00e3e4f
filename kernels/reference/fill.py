"""One byte everywhere."""

from torch import Tensor


def fill(target: Tensor, value: int) -> None:
    """target: uint8 [size_bytes]; value: 0..255."""
    assert 0 <= value <= 255, value
    target.fill_(value)
