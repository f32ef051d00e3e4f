"""Every kernel as a function of rows: `compute(rows)` gives one result for each row named, in that order.

Used by the property that a row's bits depend on the row alone. `kernels` says which kernels the op runs: a test holds
the union of these against all kernels there are. `is_run`: rows must be neighbours (positions of one sequence).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.triton import launch
from kernels.triton.sizes import DOWN_GROUPED, LINEAR_F32, prompt_attention_size, window_attention_size
from tests.kernels_triton.builders import DEVICE, Experts, Matrix, header_at, normal, poisoned, random_ids

Q4_K, Q8_0, Q6_K, F32 = 12, 8, 14, 0


@dataclass(frozen=True)
class RowOp:
    name: str
    kernels: tuple[str, ...]
    num_rows: int
    compute: Callable[[list[int]], Tensor]
    is_run: bool = False


def experts_window() -> RowOp:
    experts = Experts.random((Q4_K, Q4_K, Q6_K), hidden=512, ffn=256, count=6, used=3)
    x, ids = normal(8, 512), random_ids(8, 6, 3)

    def compute(rows: list[int]) -> Tensor:
        act, out = poisoned(len(rows) * 3, 256), poisoned(len(rows), 3, 512)
        launch.experts_window(x[rows].contiguous(), ids[rows].contiguous(), experts.addresses, experts.shape, act, out)
        return out

    return RowOp("experts_window", ("gate_up_rows_kernel", "down_rows_kernel"), 8, compute)


def experts_prompt() -> RowOp:
    experts = Experts.random((Q4_K, Q4_K, Q6_K), hidden=512, ffn=256, count=4, used=2)
    x, ids = normal(150, 512, dtype=torch.float16), random_ids(150, 4, 2)

    def compute(rows: list[int]) -> Tensor:
        pairs = 2 * len(rows)
        some = ids[rows].contiguous()
        ints = {"dtype": torch.int32}
        grouping = launch.Grouping(poisoned(pairs // 128 + 1, 4, **ints), poisoned(5, **ints), poisoned(4, **ints), poisoned(pairs, **ints))  # fmt: skip
        launch.group(some, grouping, num_experts=4)
        tiles = launch.Tiles(poisoned(pairs // 128 + 5, 4, **ints), poisoned(1, **ints))
        selected = torch.ones(4, dtype=torch.uint8, device=DEVICE)
        launch.make_tiles(grouping.starts, selected, tiles, num_experts=4, block_rows=DOWN_GROUPED.block_rows)
        act, out = poisoned(pairs, 256, dtype=torch.float16), poisoned(len(rows), 2, 512)
        launch.experts_prompt(x[rows].contiguous(), grouping.sorted_pairs, tiles, experts.addresses, experts.shape, act, out)
        return out

    kernels = ("count_kernel", "scan_kernel", "place_kernel", "tiles_kernel", "gate_up_grouped_kernel", "down_grouped_kernel")
    return RowOp("experts_prompt", kernels, 150, compute)


def linear_window(type_id: int = Q8_0) -> RowOp:
    matrix = Matrix.random(type_id, rows=72, columns=320)
    x = normal(8, 320)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 72)
        launch.linear_window(x[rows].contiguous(), matrix.addresses, type_id, out)
        return out

    return RowOp("linear_window", ("linear_rows_kernel",), 8, compute)


def linear_prompt(type_id: int = Q8_0) -> RowOp:
    matrix = Matrix.random(type_id, rows=72, columns=320)
    x = normal(150, 320, dtype=torch.bfloat16 if DEVICE == "cuda" else torch.float16)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 72)
        launch.linear_prompt(x[rows].contiguous(), matrix.addresses, type_id, out)
        return out

    return RowOp("linear_prompt", ("linear_grouped_kernel",), 150, compute)


def linear_f32() -> RowOp:
    matrix = Matrix.random(F32, rows=40, columns=96)
    x = normal(50, 96)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 40)
        launch.linear_prompt(x[rows].contiguous(), matrix.addresses, F32, out, size=LINEAR_F32)
        return out

    return RowOp("linear_f32", ("linear_grouped_kernel",), 50, compute)


def _cache(num_keys: int, used: int) -> tuple[Tensor, Tensor]:
    """keys, values with NaN where nobody wrote."""
    keys, values = (normal(num_keys, 2, 64, dtype=torch.float16) for _ in range(2))
    keys[used:], values[used:] = torch.nan, torch.nan
    return keys, values


def attention_prompt() -> RowOp:
    q = normal(200, 4, 64, dtype=torch.float16)
    keys, values = _cache(256, 200)
    size = prompt_attention_size(head_dim=64, shared_bytes=99 * 1024)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 4, 64)
        unwritten_keys, unwritten_values = keys.clone(), values.clone()
        unwritten_keys[rows[-1] + 1 :], unwritten_values[rows[-1] + 1 :] = torch.nan, torch.nan
        launch.attention_prompt(
            q[rows].contiguous(), unwritten_keys, unwritten_values, header_at(rows[0]), out, scale=1 / math.sqrt(64), size=size
        )  # fmt: skip
        return out

    return RowOp("attention_prompt", ("prompt_attention_kernel",), 200, compute, is_run=True)


def attention_window(first: int = 508) -> RowOp:
    """Eight rows around the border of a split of 512 keys."""
    q = normal(8, 4, 64, dtype=torch.float16)
    keys, values = _cache(640, first + 8)
    size = window_attention_size(max_rows=8, num_heads=4, num_kv_heads=2, head_dim=64)

    def compute(rows: list[int]) -> Tensor:
        out, count = poisoned(len(rows), 4, 64), len(rows) * 4
        unwritten_keys, unwritten_values = keys.clone(), values.clone()
        unwritten_keys[first + rows[-1] + 1 :], unwritten_values[first + rows[-1] + 1 :] = torch.nan, torch.nan
        launch.attention_window(
            q[rows].contiguous(), unwritten_keys, unwritten_values, header_at(first + rows[0]), poisoned(2, count, 64),
            poisoned(2, 2, count), out, scale=1 / math.sqrt(64), size=size,
        )  # fmt: skip
        return out

    return RowOp("attention_window", ("window_attention_kernel", "merge_splits_kernel"), 8, compute, is_run=True)


def rms_norm() -> RowOp:
    x, weight = normal(20, 576), normal(576)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 576, dtype=torch.float16)
        launch.rms_norm(x[rows].contiguous(), weight, out, epsilon=1e-6)
        return out

    return RowOp("rms_norm", ("rms_norm_kernel",), 20, compute)


def heads() -> RowOp:
    qkv, weight = normal(20, 8, 64), normal(64)
    frequencies = (1e4 ** -(torch.arange(32, dtype=torch.float64) / 32)).to(DEVICE)

    def compute(rows: list[int]) -> Tensor:
        table, header = poisoned(len(rows), 2, 32), header_at(rows[0])
        launch.angles(header, frequencies, table)
        q, keys, values = (poisoned(count, width, 64, dtype=torch.float16) for count, width in ((len(rows), 4), (32, 2), (32, 2)))
        launch.heads(qkv[rows].contiguous(), table, weight, weight, header, q, keys, values, epsilon=1e-6, is_neox=True)
        return torch.cat([q, keys[rows], values[rows]], dim=1)

    return RowOp("heads", ("angles_kernel", "heads_kernel"), 20, compute, is_run=True)


def route() -> RowOp:
    logits = normal(20, 24).round(decimals=1)

    def compute(rows: list[int]) -> Tensor:
        ids, weights = poisoned(len(rows), 4, dtype=torch.int32), poisoned(len(rows), 4)
        launch.route(logits[rows].contiguous(), ids, weights)
        return torch.cat([ids.float(), weights], dim=1)

    return RowOp("route", ("route_kernel",), 20, compute)


def combine() -> RowOp:
    parts, weights, hidden = normal(20, 3, 300), normal(20, 3), normal(20, 300)

    def compute(rows: list[int]) -> Tensor:
        out = hidden[rows].clone()
        launch.combine(parts[rows].contiguous(), weights[rows].contiguous(), out)
        return out

    return RowOp("combine", ("combine_kernel",), 20, compute)


def embed() -> RowOp:
    matrix = Matrix.random(Q4_K, rows=40, columns=512)
    tokens = torch.randint(0, 40, (20,), dtype=torch.int32).to(DEVICE)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 512)
        launch.embed(tokens[rows].contiguous(), matrix.addresses, Q4_K, out, vocab_size=40)
        return out

    return RowOp("embed", ("embed_kernel",), 20, compute)


def unpack() -> RowOp:
    """Rows are experts here."""
    experts = Experts.random((Q4_K, Q4_K, Q6_K), hidden=256, ffn=256, count=6, used=2)

    def compute(rows: list[int]) -> Tensor:
        out = poisoned(len(rows), 256, 256, dtype=torch.float16)
        which = torch.tensor(rows, dtype=torch.int32, device=DEVICE)
        launch.unpack(experts.addresses, which, out, Q6_K, start=experts.shape.down_start, num_rows=256, columns=256)
        return out

    return RowOp("unpack", ("unpack_kernel",), 6, compute)


OPS = (
    experts_window, experts_prompt, linear_window, linear_prompt, linear_f32, attention_prompt, attention_window, rms_norm, heads,
    route, combine, embed, unpack,
)  # fmt: skip

ROWLESS = {
    "sample_blocks_kernel": "test_ops: equal to the reference, token for token, in rows of a window",
    "sample_pick_kernel": "the same",
    "fill_kernel": "bytes, no rows",
    "digest_parts_kernel": "integers, no rows",
    "digest_sum_kernel": "integers, no rows",
}
