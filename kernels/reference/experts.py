"""Routed experts, grouped by expert: each chosen expert's bytes are read once for all rows that chose it."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.reference.activation import silu_mul
from kernels.reference.blocks import BAND_ROWS, spans
from kernels.reference.linear import linear
from kernels.reference.scratch import Scratch


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


def chosen_slots(router_ids: Tensor, expert: int) -> Tensor:
    """int64 [n]: indexes row * K + j of router_ids [rows, K] that name `expert`, ascending."""
    return torch.nonzero(router_ids.reshape(-1) == expert).view(-1)


def experts(
    normed: Tensor,
    router_ids: Tensor,
    chosen: Iterable[tuple[int, ExpertWeights]],
    expert_rows: Tensor,
    scratch: Scratch,
) -> None:
    """expert_rows[row, j] = down( silu(gate x) * (up x) ) with x = normed[row], for each `router_ids[row, j]` among
    the experts given as (id, weights); other entries of expert_rows are left alone.

    normed: f32 [rows, E]; router_ids: int32 [rows, K]; expert_rows: f32 [rows, K, E]."""
    used = router_ids.shape[1]
    slots_out = expert_rows.view(-1, expert_rows.shape[2])
    for expert, weights in chosen:
        slots = chosen_slots(router_ids, expert)
        for start, stop in spans(slots.numel(), BAND_ROWS):
            band = slots[start:stop]
            result = _expert(normed, band // used, weights, scratch)
            slots_out.index_copy_(0, band, result)


def _expert(normed: Tensor, rows: Tensor, weights: ExpertWeights, scratch: Scratch) -> Tensor:
    """rows: int64 [n], n <= BAND_ROWS -> f32 [n, E], valid until the next call."""
    count = rows.numel()
    x = scratch.take("experts.x", (BAND_ROWS, normed.shape[1]))[:count]
    torch.index_select(normed, 0, rows, out=x)
    both = scratch.take("experts.gate_up", (BAND_ROWS, 2 * weights.ffn_size))[:count]
    gate, up = both[:, : weights.ffn_size], both[:, weights.ffn_size :]
    if weights.gate_up is not None:
        linear(x, weights.gate_up, weights.gate_type_id, both, scratch)
    else:
        linear(x, weights.gate, weights.gate_type_id, gate, scratch)
        linear(x, weights.up, weights.up_type_id, up, scratch)
    silu_mul(gate, up, gate, scratch)
    linear(gate, weights.down, weights.down_type_id, x, scratch)
    return x
