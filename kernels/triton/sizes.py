"""Tile sizes, fixed: a row's bits may depend on them, so nothing at run time chooses among them.

Found by timing some twenty variants of each kernel on one H200 (2026-11-29, triton 3.6.0, Q4_K, qwen3moe 30B-A3B).
Other cards take the same sizes, which are bounded to the shared memory of the smallest (99 KiB a block on sm_86, sm_89
and sm_120). Neutral there: gate and up as one tile or two, a fourth stage, eight warps with capped registers.
"""

from dataclasses import asdict, dataclass, replace
from functools import cache


@dataclass(frozen=True, slots=True)
class RowsSize:
    """Of `rows.py`: matrix rows a program, groups of 32 weights a step."""

    block_rows: int
    groups: int
    num_warps: int = 1


@dataclass(frozen=True, slots=True)
class GroupedSize:
    """Of `grouped.py`. In gate and up, block_columns of each are one tile of twice as many."""

    block_rows: int
    block_columns: int
    block_k: int
    stages: int
    num_warps: int


@dataclass(frozen=True, slots=True)
class PromptAttentionSize:
    block_rows: int
    block_keys: int
    stages: int
    num_warps: int


@dataclass(frozen=True, slots=True)
class WindowAttentionSize:
    """block_rows holds all rows of the largest window times the heads of one kv head."""

    block_rows: int
    block_keys: int
    split_keys: int
    stages: int
    num_warps: int


GATE_UP_GROUPED = GroupedSize(block_rows=128, block_columns=64, block_k=64, stages=3, num_warps=4)
DOWN_GROUPED = GroupedSize(block_rows=128, block_columns=128, block_k=64, stages=3, num_warps=4)
LINEAR_GROUPED = GroupedSize(block_rows=128, block_columns=128, block_k=64, stages=3, num_warps=4)
LINEAR_ADDED = replace(LINEAR_GROUPED, num_warps=8)  # four warps would spill the accumulators' first values
LINEAR_F32 = GroupedSize(block_rows=32, block_columns=64, block_k=32, stages=2, num_warps=4)
SPLIT_KEYS = 512  # keys of one split of window attention
HEAD_DIMS = (16, 32, 64, 128, 256)
MAX_VOCAB = 1 << 20  # ids that the sampler's order has room for
MAX_WINDOW_ROWS = 8
MAX_WINDOW_PAIRS = 128  # (row, expert) of a window
MAX_EXPERTS = 512  # of one layer: bits of the selection that a launch is given
PAIR_BLOCK = 128  # pairs (row, expert) that one program of the grouping sorts
DELTA_BLOCK_ROWS = 64  # rows of a chunk that the gated delta net takes at a time
SAMPLE_BLOCK = 1024  # tokens of the vocabulary that one program of the sampler weighs
SEARCH_DIGITS = 13  # of four bits: a key of the sampler's order has 52
SEARCH_STEPS = 2 * SEARCH_DIGITS + 1
MERGE_SPLITS = 32  # splits of window attention that are read at a time
PROGRAMS_GROUPED = 264  # two for each multiprocessor of an H200; more or fewer change no bit


@cache
def constants(size: RowsSize | GroupedSize | PromptAttentionSize | WindowAttentionSize) -> dict[str, int]:
    """What a kernel of this size is launched with."""
    return {name if name == "num_warps" else name.upper(): value for name, value in asdict(size).items()}


def for_card(size: GroupedSize, *, shared_bytes: int) -> GroupedSize:
    """The same tile with twice the warps where accumulators fill the registers of four (no wgmma: sm_8x, sm_120)."""
    return size if shared_bytes >= 200 * 1024 else replace(size, num_warps=8)


def rows_size(columns: int) -> RowsSize:
    """Long rows are cut into steps of 1,024 weights, a warp a row; short ones into steps of 256."""
    return RowsSize(block_rows=4, groups=32) if columns % 1024 == 0 else RowsSize(block_rows=8, groups=8)


def prompt_attention_size(*, head_dim: int, shared_bytes: int, has_blocks: bool = False) -> PromptAttentionSize:
    """shared_bytes: shared memory that one block may have on this card. has_blocks: K or V lie in blocks of 32, and
    unpacking them takes registers that four warps do not have (sm_120, 2026-11-29, triton 3.7.1: 104 B spilled)."""
    if head_dim <= 128 and shared_bytes >= 224 * 1024:
        return PromptAttentionSize(block_rows=128, block_keys=128, stages=3, num_warps=8)
    if head_dim > 128:  # four warps would spill over K/V in blocks
        return PromptAttentionSize(block_rows=64, block_keys=32, stages=2, num_warps=8)
    num_warps = 8 if has_blocks and head_dim == 128 else 4
    return PromptAttentionSize(block_rows=64, block_keys=64, stages=2, num_warps=num_warps)


def window_attention_size(
    *, max_rows: int, num_heads: int, num_kv_heads: int, head_dim: int, shared_bytes: int
) -> WindowAttentionSize:
    """max_rows: rows of the largest window of this process; every window uses the size made for it."""
    vectors = max_rows * num_heads // num_kv_heads
    block_rows = max(16, 1 << (vectors - 1).bit_length())
    block_keys = 64 if head_dim <= 128 else 32
    stages = 3 if head_dim <= 128 and shared_bytes >= 160 * 1024 else 2
    if block_rows * head_dim > 64 * 128 and shared_bytes < 160 * 1024:
        stages = 1
    num_warps = 8 if block_rows * head_dim > 64 * 128 else 4
    return WindowAttentionSize(
        block_rows=block_rows, block_keys=block_keys, split_keys=SPLIT_KEYS, stages=stages, num_warps=num_warps
    )
