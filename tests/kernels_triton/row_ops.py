"""Every kernel as a function of rows: `compute(rows)` gives one result for each row named, in that order.

Used by the property that a row's bits depend on the row alone. `kernels` says which kernels the op runs: a test holds
the union of these against all kernels there are.
"""

import torch
from torch import Tensor

from kernels.triton import launch_dense, launch_experts, launch_grouping, launch_rows
from kernels.triton.sizes import DOWN_GROUPED, LINEAR_F32
from tests.kernels_triton.attention_ops import (
    attention_prompt,
    attention_prompt_k8v4,
    attention_window,
    attention_window_k8v4,
    heads,
    heads_k8v4,
    keys_and_values,
)
from tests.kernels_triton.builders import (
    DEVICE,
    GRIDS,
    Experts,
    Matrix,
    normal,
    poisoned,
    random_ids,
)
from tests.kernels_triton.delta_ops import delta_chunk, delta_drafts, delta_rows, gated_norm
from tests.kernels_triton.row_op import RowOp

Q4_0, Q4_K, Q8_0, Q6_K, F32, F16, IQ2_XS, IQ3_XXS = 2, 12, 8, 14, 0, 1, 17, 18

IS_CARD = DEVICE == "cuda"
# The interpreter takes about a millisecond a program: small matrices there, those of a real model on a card.
MIX, HIDDEN, FFN = ((Q4_K, Q4_K, Q6_K), 2048, 768) if IS_CARD else ((Q4_0, Q4_0, Q8_0), 32, 32)


def experts_window() -> RowOp:
    experts = Experts.random(MIX, hidden=HIDDEN, ffn=FFN, count=4, used=2)
    num_rows = 8 if IS_CARD else 3
    x, ids = normal(num_rows, HIDDEN), random_ids(num_rows, 4, 2)

    def compute(rows: list[int]) -> Tensor:
        act, out = poisoned(len(rows) * 2, FFN), poisoned(len(rows), 2, HIDDEN)
        launch_experts.experts_window(
            x[rows].contiguous(), ids[rows].contiguous(), experts.addresses, GRIDS, experts.shape, act, out
        )
        return out

    return RowOp("experts_window", ("gate_up_rows_kernel", "down_rows_kernel"), num_rows, compute)


def experts_prompt() -> RowOp:
    experts = Experts.random(MIX, hidden=HIDDEN, ffn=FFN, count=4, used=2)
    x, ids = normal(150, HIDDEN, dtype=torch.float16), random_ids(150, 4, 2)

    def compute(rows: list[int]) -> Tensor:
        pairs = 2 * len(rows)
        some = ids[rows].contiguous()
        ints = {"dtype": torch.int32}
        grouping = launch_grouping.Grouping(
            poisoned(pairs // 128 + 1, 4, **ints), poisoned(5, **ints), poisoned(4, **ints), poisoned(pairs, **ints)
        )
        launch_grouping.group(some, grouping, num_experts=4)
        tiles = launch_grouping.Tiles(poisoned(pairs // 128 + 5, 4, **ints), poisoned(1, **ints))
        selected = torch.ones(4, dtype=torch.uint8, device=DEVICE)
        launch_grouping.make_tiles(grouping.starts, selected, tiles, num_experts=4, block_rows=DOWN_GROUPED.block_rows)
        act, out = poisoned(pairs, FFN, dtype=torch.float16), poisoned(len(rows), 2, HIDDEN)
        launch_experts.experts_prompt(
            x[rows].contiguous(),
            grouping.sorted_pairs,
            tiles,
            experts.addresses,
            GRIDS,
            experts.shape,
            act,
            out,
            num_programs=1 + len(rows) % 7,
        )
        return out

    kernels = (
        "count_kernel",
        "scan_kernel",
        "place_kernel",
        "tiles_kernel",
        "gate_up_grouped_kernel",
        "down_grouped_kernel",
    )
    return RowOp("experts_prompt", kernels, 150, compute)


def linear_window(type_id: int = Q8_0, rows: int = 12, columns: int = 320) -> RowOp:
    matrix = Matrix.random(type_id, rows=rows, columns=columns)
    x = normal(8, columns)
    num_outputs = rows

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), num_outputs)
        launch_dense.linear_window(x[rows].contiguous(), matrix.addresses, GRIDS, type_id, out)
        return out

    return RowOp("linear_window", ("linear_rows_kernel",), 8, compute)


def linear_window_iq2_xs() -> RowOp:
    return linear_window(IQ2_XS, rows=8, columns=512)


def linear_prompt_iq3_xxs() -> RowOp:
    return linear_prompt(IQ3_XXS, columns=256)


def linear_prompt(type_id: int = Q8_0, columns: int = 160) -> RowOp:
    matrix = Matrix.random(type_id, rows=72, columns=columns)
    x = normal(150, columns, dtype=torch.bfloat16 if DEVICE == "cuda" else torch.float16)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 72)
        launch_dense.linear_prompt(x[rows].contiguous(), matrix.addresses, GRIDS, type_id, out)
        return out

    return RowOp("linear_prompt", ("linear_grouped_kernel",), 150, compute)


def linear_f32() -> RowOp:
    matrix = Matrix.random(F32, rows=40, columns=96)
    x = normal(50, 96)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 40)
        launch_dense.linear_prompt(x[rows].contiguous(), matrix.addresses, GRIDS, F32, out, size=LINEAR_F32)
        return out

    return RowOp("linear_f32", ("linear_grouped_kernel",), 50, compute)


def rms_norm() -> RowOp:
    x, weight = normal(20, 576), normal(576)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 576, dtype=torch.float16)
        launch_rows.rms_norm(x[rows].contiguous(), weight, out, epsilon=1e-6)
        return out

    return RowOp("rms_norm", ("rms_norm_kernel",), 20, compute)


def linear_window_into_a_wider_row() -> RowOp:
    """Added to what is there, in rows that lie apart: as a layer's output, and as one of query, key and value."""
    matrix, x, before = Matrix.random(Q8_0, rows=12, columns=96), normal(8, 96), normal(8, 20)

    def compute(rows: list[int]) -> Tensor:
        out = before[rows].clone()
        some = x[rows].contiguous()
        launch_dense.linear_window(some, matrix.addresses, GRIDS, Q8_0, out[:, 4:16], is_added=True)
        return out

    return RowOp("linear_window_into_a_wider_row", ("linear_rows_kernel",), 8, compute)


def linear_prompt_into_a_wider_row() -> RowOp:
    matrix, x, before = Matrix.random(Q8_0, rows=12, columns=96), normal(20, 96, dtype=torch.float16), normal(20, 20)

    def compute(rows: list[int]) -> Tensor:
        out = before[rows].clone()
        some = x[rows].contiguous()
        launch_dense.linear_prompt(some, matrix.addresses, GRIDS, Q8_0, out[:, 4:16], is_added=True)
        return out

    return RowOp("linear_prompt_into_a_wider_row", ("linear_grouped_kernel",), 20, compute)


def silu_mul() -> RowOp:
    gate, up = normal(20, 300), normal(20, 300)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 300, dtype=torch.float16)
        launch_rows.silu_mul(gate[rows].contiguous(), up[rows].contiguous(), out)
        return out

    return RowOp("silu_mul", ("silu_mul_kernel",), 20, compute)


def add_bias() -> RowOp:
    x, bias = normal(20, 300), normal(40)

    def compute(rows: list[int]) -> Tensor:
        out = x[rows].clone()
        launch_rows.add_bias(out[:, 200:240], bias)
        return out

    return RowOp("add_bias", ("add_bias_kernel",), 20, compute)


def route() -> RowOp:
    logits = normal(20, 24).round(decimals=1)

    def compute(rows: list[int]) -> Tensor:
        ids, weights = poisoned(len(rows), 4, dtype=torch.int32), poisoned(len(rows), 4)
        launch_rows.route(logits[rows].contiguous(), ids, weights)
        return torch.cat([ids.float(), weights], dim=1)

    return RowOp("route", ("route_kernel",), 20, compute)


def combine() -> RowOp:
    parts, weights, hidden = normal(20, 3, 300), normal(20, 3), normal(20, 300)

    def compute(rows: list[int]) -> Tensor:
        out = hidden[rows].clone()
        launch_rows.combine(parts[rows].contiguous(), weights[rows].contiguous(), out)
        return out

    return RowOp("combine", ("combine_kernel",), 20, compute)


def route_sigmoid() -> RowOp:
    logits, bias = normal(20, 24).round(decimals=1), normal(24)

    def compute(rows: list[int]) -> Tensor:
        ids, weights = poisoned(len(rows), 4, dtype=torch.int32), poisoned(len(rows), 4)
        some = logits[rows].contiguous()
        launch_rows.route(some, ids, weights, is_sigmoid=True, bias=bias, normalizes=False)
        return torch.cat([ids.float(), weights], dim=1)

    return RowOp("route_sigmoid", ("route_kernel",), 20, compute)


def add_gated() -> RowOp:
    x, gate, hidden = normal(20, 300), normal(20, 1), normal(20, 300)

    def compute(rows: list[int]) -> Tensor:
        out = hidden[rows].clone()
        launch_rows.add_gated(out, x[rows].contiguous(), gate[rows].contiguous())
        return out

    return RowOp("add_gated", ("add_gated_kernel",), 20, compute)


def gate_heads() -> RowOp:
    query_gate, before = normal(20, 3, 2, 48), normal(20, 3, 48, dtype=torch.float16)

    def compute(rows: list[int]) -> Tensor:
        out = before[rows].clone()
        launch_rows.gate_heads(query_gate[rows].contiguous(), out)
        return out

    return RowOp("gate_heads", ("gate_heads_kernel",), 20, compute)


def embed() -> RowOp:
    matrix = Matrix.random(Q4_K, rows=40, columns=512)
    tokens = torch.randint(0, 40, (8,), dtype=torch.int32).to(DEVICE)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 512)
        launch_dense.embed(tokens[rows].contiguous(), matrix.addresses, GRIDS, Q4_K, out, vocab_size=40)
        return out

    return RowOp("embed", ("embed_kernel",), 8, compute)


def unpack() -> RowOp:
    """Rows are experts here."""
    experts = Experts.random((F16, F16, Q6_K), hidden=32, ffn=256, count=6, used=2)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 32, 256, dtype=torch.float16)
        which = torch.tensor(rows, dtype=torch.int32, device=DEVICE)
        start = experts.shape.down_start
        launch_experts.unpack(experts.addresses, GRIDS, which, out, Q6_K, start=start, num_rows=32, columns=256)
        return out

    return RowOp("unpack", ("unpack_kernel",), 6, compute)


OPS = (
    experts_window,
    experts_prompt,
    linear_window,
    linear_window_iq2_xs,
    linear_prompt,
    linear_prompt_iq3_xxs,
    linear_f32,
    linear_window_into_a_wider_row,
    linear_prompt_into_a_wider_row,
    attention_prompt,
    attention_prompt_k8v4,
    attention_window,
    attention_window_k8v4,
    rms_norm,
    silu_mul,
    add_bias,
    heads,
    heads_k8v4,
    keys_and_values,
    delta_rows,
    delta_drafts,
    delta_chunk,
    gated_norm,
    route,
    route_sigmoid,
    add_gated,
    gate_heads,
    combine,
    embed,
    unpack,
)

ROWLESS = {
    "sample_scores_kernel": "test_sampling: equal to the reference, token for token, in rows of a window",
    "keep_step_kernel": "the same",
    "sample_blocks_kernel": "the same",
    "sample_pick_kernel": "the same",
    "select_kernel": "test_bookkeeping: bits, no rows",
    "count_reads_kernel": "the same: integers, no rows",
    "count_chosen_kernel": "the same: integers, no rows",
    "accept_kernel": "the same",
    "place_behind_kernel": "the same",
    "greedy_blocks_kernel": "test_sampling: one row, and a maximum has no order",
    "greedy_pick_kernel": "the same",
    "fill_kernel": "bytes, no rows",
    "digest_parts_kernel": "integers, no rows",
    "digest_sum_kernel": "integers, no rows",
    "fingerprint_kernel": "the same",
}
