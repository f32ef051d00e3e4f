"""What an expert is made of."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """One expert's matrices in file form: gate and up are [F, E], down is [E, F]. `gate_up`: gate and up as one matrix
    [2 F, E], where up lies behind gate and both are of one type; it is then used in place of them."""

    gate: Tensor
    gate_type_id: int
    up: Tensor
    up_type_id: int
    down: Tensor
    down_type_id: int
    ffn_size: int
    gate_up: Tensor | None = None
