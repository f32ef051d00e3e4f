"""One measured figure of a kernel, beside the ceiling that bounds it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    kernel: str
    value: float
    unit: str
    milliseconds: float
    ceiling: str
    share: float
