"""Experts so small that a call costs more than its products: all of a launch are taken together, up to the products.

    rows of each expert    [n, 16, E]  one block, zero padded -> transposed    [n, E, 16]
    gate and up            dequantized at once -> [n, 2 F, E]; a product an expert -> [n, 2 F, 16]
    down                   the same, of silu(gate) * up as it lies

Every product has the shape, the operands and so the bits that `linear` gives it; what is left out are calls.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.reference.blocks import ROW_BLOCK
from kernels.reference.dequantize import dequantize
from kernels.reference.expert_weights import ExpertWeights
from kernels.reference.linear import tile_rows
from kernels.reference.scratch import Scratch

TOGETHER_WEIGHTS = 512 * 1024
"""Of gate and up, dequantized at once: 2 MiB of floats."""


def most_together(ffn_size: int, hidden: int) -> int:
    """Experts that are taken together, fewer than 2 where that gains nothing or `linear` would tile their products."""
    is_one_tile = 2 * ffn_size <= tile_rows(hidden) and hidden <= tile_rows(ffn_size)
    return TOGETHER_WEIGHTS // (2 * ffn_size * hidden) if is_one_tile else 0


def small_experts(
    normed: Tensor, chosen: Sequence[tuple[list[int], ExpertWeights]], used: int, slots_out: Tensor, scratch: Scratch
) -> None:
    """slots_out[slot] = down( silu(gate x) * (up x) ) with x = normed[slot // used], for the slots of each expert.

    normed: f32 [rows, E], rows <= ROW_BLOCK; slots_out: f32 [rows * used, E]; at most `most_together` experts, all with
    `gate_up` and of the same types."""
    first, hidden = chosen[0][1], normed.shape[1]
    num_experts, ffn = len(chosen), first.ffn_size
    most = most_together(ffn, hidden)
    slots = torch.tensor([slot for slots, _ in chosen for slot in slots])
    lanes = torch.tensor([index * ROW_BLOCK + at for index, (each, _) in enumerate(chosen) for at in range(len(each))])
    rows = scratch.take("small.rows", (most * ROW_BLOCK, hidden))[: num_experts * ROW_BLOCK]
    blocks = rows.view(num_experts, ROW_BLOCK, hidden)
    rows.zero_().index_copy_(0, lanes, normed.index_select(0, slots // used))
    inputs = scratch.take("small.inputs", (most, hidden, ROW_BLOCK))[:num_experts]
    inputs.copy_(blocks.transpose(1, 2))
    both = scratch.take("small.both", (most, 2 * ffn, ROW_BLOCK))[:num_experts]
    _products(
        [each.gate_up for _, each in chosen if each.gate_up is not None], first.gate_type_id, inputs, both, scratch
    )
    gate, up = both[:, :ffn], both[:, ffn:]
    weight = scratch.take("small.weight", (most, ffn, ROW_BLOCK))[:num_experts]
    torch.neg(gate, out=weight).exp_().add_(1.0).reciprocal_().mul_(gate).mul_(up)
    products = scratch.take("small.products", (most, hidden, ROW_BLOCK))[:num_experts]
    _products([each.down for _, each in chosen], first.down_type_id, weight, products, scratch)
    blocks.copy_(products.transpose(1, 2))
    slots_out.index_copy_(0, slots, rows.index_select(0, lanes))


def _products(matrices: Sequence[Tensor], type_id: int, inputs: Tensor, out: Tensor, scratch: Scratch) -> None:
    """out[i] = W[i] inputs[i]. matrices: uint8, the bytes of each W; inputs: f32 [n, K, 16]; out: f32 [n, N, 16]."""
    num_outputs, columns = out.shape[1], inputs.shape[1]
    most = TOGETHER_WEIGHTS // (num_outputs * columns)
    data = scratch.take("small.bytes", (most, matrices[0].numel()), torch.uint8)[: len(matrices)]
    torch.stack(list(matrices), out=data)
    tiles = scratch.take("small.tiles", (most, num_outputs, columns))[: len(matrices)]
    dequantize(data.view(-1), type_id, tiles, scratch)
    for tile, block, product in zip(tiles.unbind(), inputs.unbind(), out.unbind(), strict=True):
        torch.mm(tile, block, out=product)
