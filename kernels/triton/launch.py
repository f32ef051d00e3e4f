# mypy: allow-untyped-calls, disable-error-code="no-any-return"
"""The kernels as functions of tensors: grids and fixed sizes, nothing else. No allocation, no synchronization.

Every tensor is contiguous, on the card (or readable by it) and 256-byte aligned; outputs and scratch are the caller's.
`addresses`: int64, where a card may read each blob or matrix, in packed form (`packing.py`). Work is queued on the
current stream. Windows (1 to 8 rows) take f32 activations, prompt chunks f16 or bf16 ones.
"""

from dataclasses import dataclass

from torch import Tensor

from kernels.triton import attention as attention_kernels
from kernels.triton import grouped, grouping, memory, norms, router, rows, sampling
from kernels.triton.sizes import (
    DOWN_GROUPED,
    GATE_UP_GROUPED,
    LINEAR_GROUPED,
    PROGRAMS_GROUPED,
    GroupedSize,
    PromptAttentionSize,
    WindowAttentionSize,
    rows_size,
)

MIN_WEIGHT_SUM = 6.103515625e-5
SAMPLE_BLOCK = 1024
DIGEST_PROGRAMS = 1024


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """Matrices of a blob: gate and up [ffn, hidden], down [hidden, ffn]; starts in bytes, multiples of 16."""

    hidden_size: int
    ffn_size: int
    num_experts: int
    num_used: int
    gate_type: int
    up_type: int
    down_type: int
    gate_start: int
    up_start: int
    down_start: int


@dataclass(frozen=True, slots=True)
class Grouping:
    """Pairs (row, place in its ids) by expert. counts: int32 [blocks of 128 pairs, experts], scratch; starts: int32
    [experts + 1]; totals: int32 [experts], pairs of each expert; sorted_pairs: int32 [pairs]."""

    counts: Tensor
    starts: Tensor
    totals: Tensor
    sorted_pairs: Tensor


@dataclass(frozen=True, slots=True)
class Tiles:
    """entries: int32 [pairs / block rows + experts, 4]; count: int32 [1]."""

    entries: Tensor
    count: Tensor


def power_of_two(value: int) -> int:
    return 1 << (value - 1).bit_length()


def ceil_div(value: int, by: int) -> int:
    return -(-value // by)


# --- experts -----------------------------------------------------------------------------------------------------


def experts_window(
    normed: Tensor, ids: Tensor, addresses: Tensor, shape: ExpertShape, act: Tensor, expert_rows: Tensor
) -> None:
    """expert_rows[row, j] = down(silu(gate x) * (up x)) of expert ids[row, j], x = normed[row].

    normed: f32 [rows, hidden]; ids: int32 [rows, used]; act: f32 [rows * used, ffn], scratch; expert_rows: f32."""
    pairs = ids.numel()
    size = rows_size(shape.hidden_size)
    rows.gate_up_rows_kernel[(ceil_div(shape.ffn_size, size.block_rows), pairs)](
        normed,
        ids,
        addresses,
        act,
        pairs,
        NUM_USED=shape.num_used,
        GATE_START=shape.gate_start,
        UP_START=shape.up_start,
        GATE_TYPE=shape.gate_type,
        UP_TYPE=shape.up_type,
        ROWS=shape.ffn_size,
        COLUMNS=shape.hidden_size,
        BLOCK_ROWS=size.block_rows,
        GROUPS=size.groups,
        MAX_PAIRS=rows.MAX_PAIRS,
        num_warps=size.num_warps,
    )
    size = rows_size(shape.ffn_size)
    rows.down_rows_kernel[(ceil_div(shape.hidden_size, size.block_rows), pairs)](
        act,
        ids,
        addresses,
        expert_rows,
        pairs,
        START=shape.down_start,
        TYPE=shape.down_type,
        ROWS=shape.hidden_size,
        COLUMNS=shape.ffn_size,
        BLOCK_ROWS=size.block_rows,
        GROUPS=size.groups,
        MAX_PAIRS=rows.MAX_PAIRS,
        num_warps=size.num_warps,
    )


def group(ids: Tensor, grouping_out: Grouping, *, num_experts: int) -> None:
    """Sorts the pairs of ids (int32 [rows, used]) by expert, stable."""
    pairs = ids.numel()
    blocks = ceil_div(pairs, grouping.PAIR_BLOCK)
    counts, starts = grouping_out.counts, grouping_out.starts
    experts = power_of_two(num_experts)
    grouping.count_kernel[(blocks,)](
        ids, counts, pairs, NUM_EXPERTS=num_experts, PAIRS=grouping.PAIR_BLOCK, EXPERTS=experts
    )
    grouping.scan_kernel[(1,)](
        counts, starts, grouping_out.totals, blocks, NUM_EXPERTS=num_experts, EXPERTS=experts
    )
    grouping.place_kernel[(blocks,)](
        ids, counts, starts, grouping_out.sorted_pairs, pairs, NUM_EXPERTS=num_experts, PAIRS=grouping.PAIR_BLOCK
    )


def make_tiles(starts: Tensor, selected: Tensor, tiles: Tiles, *, num_experts: int, block_rows: int) -> None:
    """selected: uint8 [experts], 1 where the launch that follows computes the expert."""
    grouping.tiles_kernel[(1,)](
        starts,
        selected,
        tiles.entries,
        tiles.count,
        NUM_EXPERTS=num_experts,
        EXPERTS=power_of_two(num_experts),
        BLOCK_ROWS=block_rows,
    )


def experts_prompt(
    normed: Tensor,
    sorted_pairs: Tensor,
    tiles: Tiles,
    addresses: Tensor,
    shape: ExpertShape,
    act: Tensor,
    expert_rows: Tensor,
    *,
    gate_up_size: GroupedSize = GATE_UP_GROUPED,
    down_size: GroupedSize = DOWN_GROUPED,
) -> None:
    """`experts_window` for the experts in `tiles`, made with block_rows of both sizes (they are equal).

    normed: f16 or bf16 [rows, hidden]; act: the same type, [rows * used, ffn], scratch; expert_rows: f32, f16 or
    bf16 [rows, used, hidden], of which only the tiles' pairs are written."""
    assert gate_up_size.block_rows == down_size.block_rows, (gate_up_size, down_size)
    grouped.gate_up_grouped_kernel[(PROGRAMS_GROUPED,)](
        normed,
        addresses,
        sorted_pairs,
        tiles.entries,
        tiles.count,
        act,
        NUM_USED=shape.num_used,
        GATE_START=shape.gate_start,
        UP_START=shape.up_start,
        GATE_TYPE=shape.gate_type,
        UP_TYPE=shape.up_type,
        ROWS=shape.ffn_size,
        COLUMNS=shape.hidden_size,
        BLOCK_ROWS=gate_up_size.block_rows,
        BLOCK_COLUMNS=gate_up_size.block_columns,
        BLOCK_K=gate_up_size.block_k,
        STAGES=gate_up_size.stages,
        num_warps=gate_up_size.num_warps,
    )
    grouped.down_grouped_kernel[(PROGRAMS_GROUPED,)](
        act,
        addresses,
        sorted_pairs,
        tiles.entries,
        tiles.count,
        expert_rows,
        START=shape.down_start,
        TYPE=shape.down_type,
        ROWS=shape.hidden_size,
        COLUMNS=shape.ffn_size,
        BLOCK_ROWS=down_size.block_rows,
        BLOCK_COLUMNS=down_size.block_columns,
        BLOCK_K=down_size.block_k,
        STAGES=down_size.stages,
        num_warps=down_size.num_warps,
    )


def unpack(
    addresses: Tensor, experts: Tensor, out: Tensor, type_id: int, *, start: int, num_rows: int, columns: int
) -> None:
    """out[i] = the matrix at byte `start` of blob experts[i] (int32), as out's float type: [n, num_rows, columns]."""
    grid = (ceil_div(num_rows, 16), ceil_div(columns, 256), experts.numel())
    grouped.unpack_kernel[grid](
        addresses, experts, out, START=start, TYPE=type_id, ROWS=num_rows, COLUMNS=columns, BLOCK_COLUMNS=16, BLOCK_K=256
    )


# --- dense products ----------------------------------------------------------------------------------------------


def linear_window(x: Tensor, addresses: Tensor, type_id: int, out: Tensor) -> None:
    """out = x W^T. x: f32 [rows, K], out: f32 [rows, N]; addresses: int64 [1], W [N, K] in packed form."""
    columns, num_rows = x.shape[1], out.shape[1]
    size = rows_size(columns)
    rows.linear_rows_kernel[(ceil_div(num_rows, size.block_rows),)](
        x,
        addresses,
        out,
        x.shape[0],
        TYPE=type_id,
        ROWS=num_rows,
        COLUMNS=columns,
        BLOCK_ROWS=size.block_rows,
        GROUPS=size.groups,
        num_warps=size.num_warps,
    )


def linear_prompt(
    x: Tensor, addresses: Tensor, type_id: int, out: Tensor, *, size: GroupedSize = LINEAR_GROUPED
) -> None:
    """`linear_window` for many rows. x: f16 or bf16, weights are rounded to that; f32 with size=LINEAR_F32: exact."""
    columns, num_rows = x.shape[1], out.shape[1]
    grouped.linear_grouped_kernel[(ceil_div(num_rows, size.block_columns), ceil_div(x.shape[0], size.block_rows))](
        x,
        addresses,
        out,
        x.shape[0],
        TYPE=type_id,
        ROWS=num_rows,
        COLUMNS=columns,
        BLOCK_ROWS=size.block_rows,
        BLOCK_COLUMNS=size.block_columns,
        BLOCK_K=size.block_k,
        STAGES=size.stages,
        num_warps=size.num_warps,
    )


# --- attention ---------------------------------------------------------------------------------------------------


def attention_prompt(
    q: Tensor, keys: Tensor, values: Tensor, header: Tensor, out: Tensor, *, scale: float, size: PromptAttentionSize
) -> None:
    """q: f16 [rows, H, D]; keys, values: f16 [context, Hkv, D]; header: int64, [0] = position of row 0; out like q."""
    num_rows, num_heads, head_dim = q.shape
    attention_kernels.prompt_attention_kernel[(ceil_div(num_rows, size.block_rows), num_heads)](
        q,
        keys,
        values,
        header,
        out,
        num_rows,
        scale * attention_kernels.LOG2_E,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=keys.shape[1],
        HEAD_DIM=head_dim,
        BLOCK_ROWS=size.block_rows,
        BLOCK_KEYS=size.block_keys,
        STAGES=size.stages,
        num_warps=size.num_warps,
    )


def attention_window(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    header: Tensor,
    part_out: Tensor,
    part_state: Tensor,
    out: Tensor,
    *,
    scale: float,
    size: WindowAttentionSize,
) -> None:
    """As `attention_prompt`, split by keys. part_out: f32 [splits, rows * H, D], part_state: f32 [2, splits, rows * H],
    scratch, with splits = context / split_keys rounded up: a captured graph serves every position."""
    num_rows, num_heads, head_dim = q.shape
    splits = part_state.shape[1]
    assert splits * size.split_keys >= keys.shape[0], (splits, size, keys.shape)
    attention_kernels.window_attention_kernel[(keys.shape[1], splits)](
        q,
        keys,
        values,
        header,
        part_out,
        part_state,
        num_rows,
        scale * attention_kernels.LOG2_E,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=keys.shape[1],
        HEAD_DIM=head_dim,
        BLOCK_ROWS=size.block_rows,
        BLOCK_KEYS=size.block_keys,
        SPLIT_KEYS=size.split_keys,
        STAGES=size.stages,
        num_warps=size.num_warps,
    )
    attention_kernels.merge_splits_kernel[(num_rows * num_heads,)](
        part_out,
        part_state,
        header,
        out,
        num_rows,
        splits,
        NUM_HEADS=num_heads,
        HEAD_DIM=head_dim,
        SPLIT_KEYS=size.split_keys,
        SPLITS=size.merge_splits,
    )


# --- the small ones ----------------------------------------------------------------------------------------------


def rms_norm(x: Tensor, weight: Tensor, out: Tensor, *, epsilon: float) -> None:
    """x: f32 [rows, columns]; weight: f32 [columns]; out: f32, f16 or bf16."""
    columns = x.shape[1]
    norms.rms_norm_kernel[(x.shape[0],)](
        x, weight, out, epsilon, COLUMNS=columns, BLOCK=power_of_two(columns), X_STRIDE=columns, OUT_STRIDE=columns
    )


def angles(header: Tensor, frequencies: Tensor, out: Tensor) -> None:
    """out: f32 [rows, 2, pairs] of frequencies f64 [pairs]."""
    half = frequencies.numel()
    norms.angles_kernel[(out.shape[0],)](header, frequencies, out, HALF=half, BLOCK=power_of_two(half), num_warps=1)


def heads(
    qkv: Tensor,
    angle_table: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    header: Tensor,
    q_out: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    epsilon: float,
    is_neox: bool,
) -> None:
    """qkv: f32 [rows, H + 2 Hkv, D] -> normed and roped q_out [rows, H, D], and keys, values at the rows' positions."""
    num_rows, all_heads, head_dim = qkv.shape
    assert (q_weight is None) == (k_weight is None)
    has_norm = q_weight is not None
    norms.heads_kernel[(num_rows, all_heads)](
        qkv,
        angle_table,
        q_weight if has_norm else qkv,
        k_weight if has_norm else qkv,
        header,
        q_out,
        keys,
        values,
        epsilon,
        NUM_HEADS=q_out.shape[1],
        NUM_KV_HEADS=keys.shape[1],
        HEAD_DIM=head_dim,
        BLOCK=power_of_two(head_dim),
        ROTATED=2 * angle_table.shape[2],
        IS_NEOX=is_neox,
        HAS_NORM=has_norm,
        num_warps=1,
    )


def route(logits: Tensor, ids: Tensor, weights: Tensor, *, weights_scale: float = 1.0) -> None:
    """logits: f32 [rows, experts] -> ids int32, weights f32 [rows, used]: see `reference/router.py`."""
    num_experts = logits.shape[1]
    router.route_kernel[(logits.shape[0],)](
        logits,
        ids,
        weights,
        weights_scale,
        NUM_EXPERTS=num_experts,
        NUM_USED=ids.shape[1],
        EXPERTS=power_of_two(num_experts),
        SMALLEST_SUM=MIN_WEIGHT_SUM,
        num_warps=1,
    )


def combine(expert_rows: Tensor, weights: Tensor, hidden: Tensor) -> None:
    """hidden[r] += sum over j of weights[r, j] * expert_rows[r, j]. hidden: f32 [rows, columns]."""
    num_rows, used, columns = expert_rows.shape
    block = min(1024, power_of_two(columns))
    router.combine_kernel[(num_rows, ceil_div(columns, block))](
        expert_rows, weights, hidden, NUM_USED=used, COLUMNS=columns, BLOCK=block
    )


def embed(tokens: Tensor, addresses: Tensor, type_id: int, out: Tensor, *, vocab_size: int) -> None:
    """out[i] = row tokens[i] of the packed table [vocab_size, E] at addresses[0]. out: f32 [rows, E]."""
    num_rows, columns = out.shape
    memory.embed_kernel[(num_rows, ceil_div(columns, 256))](
        tokens, addresses, out, TYPE=type_id, ROWS=vocab_size, COLUMNS=columns, BLOCK=256, num_warps=1
    )


def fill(target: Tensor, value: int) -> None:
    """target: uint8."""
    memory.fill_kernel[(ceil_div(target.numel(), 4096),)](target, value, target.numel(), BLOCK=4096)


def digest(data: Tensor, parts: Tensor, out: Tensor) -> None:
    """out[0] = the positional digest of data (uint8, a multiple of 8 bytes). parts: uint64 [DIGEST_PROGRAMS]; out:
    uint64 [1]."""
    assert data.numel() % 8 == 0, data.numel()
    programs = parts.numel()
    memory.digest_parts_kernel[(programs,)](data.view(parts.dtype), parts, data.numel() // 8, BLOCK=1024)
    memory.digest_sum_kernel[(1,)](parts, out, programs, data.numel(), BLOCK=power_of_two(programs))


def sample(
    logits: Tensor,
    params: Tensor,
    bias: Tensor,
    counts: Tensor,
    seen: Tensor,
    terminators: Tensor,
    header: Tensor,
    best: Tensor,
    where: Tensor,
    result: Tensor,
) -> None:
    """result[row] = the token after position header[0] + row. logits: f32 [rows, V]; params: int64 [32], packed by
    `pack_sampling` (top_k, top_p and min_p must be off); best: f64, where: int32 [rows, blocks], scratch."""
    num_rows, vocab = logits.shape
    blocks = ceil_div(vocab, SAMPLE_BLOCK)
    sampling.sample_blocks_kernel[(blocks, num_rows)](
        logits,
        params,
        params.view(best.dtype),
        bias,
        counts,
        seen,
        terminators,
        header,
        best,
        where,
        VOCAB=vocab,
        BLOCK=SAMPLE_BLOCK,
    )
    sampling.sample_pick_kernel[(num_rows,)](best, where, result, blocks, VOCAB=vocab, BLOCKS=power_of_two(blocks))

