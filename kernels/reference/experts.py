"""Routed experts, grouped by expert: each chosen expert's bytes are read once for all rows that chose it."""

from collections.abc import Iterable

import torch
from torch import Tensor

from kernels.reference.activation import silu_mul
from kernels.reference.blocks import BAND_ROWS, ROW_BLOCK, spans
from kernels.reference.expert_weights import ExpertWeights
from kernels.reference.linear import linear
from kernels.reference.scratch import Scratch
from kernels.reference.small_experts import most_together, small_experts


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
    together: list[tuple[list[int], ExpertWeights]] = []
    for expert, weights in chosen:
        slots = chosen_slots(router_ids, expert)
        most = most_together(weights.ffn_size, normed.shape[1]) if weights.gate_up is not None else 0
        if router_ids.shape[0] <= ROW_BLOCK and most > 1:
            together.append((slots.tolist(), weights))
            if len(together) == most:
                small_experts(normed, together, used, slots_out, scratch)
                together.clear()
            continue
        for start, stop in spans(slots.numel(), BAND_ROWS):
            band = slots[start:stop]
            result = _expert(normed, band // used, weights, scratch)
            slots_out.index_copy_(0, band, result)
    if together:
        small_experts(normed, together, used, slots_out, scratch)


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
