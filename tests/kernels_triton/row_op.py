"""What the property that a row's bits depend on the row alone is shown of (`row_ops.py` has all of them)."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class RowOp:
    """`compute(rows)`: one result a row, in that order. `is_run`: rows must be neighbours in a sequence."""

    name: str
    kernels: tuple[str, ...]
    num_rows: int
    compute: Callable[[list[int]], Tensor]
    is_run: bool = False
