"""Every kernel with the constants that it is launched with, in the shapes of qwen3moe 30B-A3B."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kernels.triton import (
    attention,
    bookkeeping,
    delta,
    delta_blocks,
    elementwise,
    filtering,
    fingerprint,
    greedy,
    grouped,
    grouping,
    memory,
    norms,
    router,
    rows,
    sampling,
)
from kernels.triton.formats import F16, PACKED_TYPES
from kernels.triton.launch_delta import CONV_BLOCK, DeltaShape
from kernels.triton.launch_experts import ExpertShape
from kernels.triton.sizes import (
    DOWN_GROUPED,
    GATE_UP_GROUPED,
    LINEAR_ADDED,
    LINEAR_F32,
    LINEAR_GROUPED,
    MAX_WINDOW_PAIRS,
    MAX_WINDOW_ROWS,
    MERGE_SPLITS,
    constants,
    for_card,
    prompt_attention_size,
    rows_size,
    window_attention_size,
)

SHARED_BYTES = {80: 163 * 1024, 86: 99 * 1024, 89: 99 * 1024, 90: 227 * 1024, 100: 227 * 1024, 120: 99 * 1024}
"""Shared memory that one block may have (CUDA C++ programming guide, table of compute capabilities)."""

Q8_0, Q4_0, Q4_K = 8, 2, 12
KV_FORMATS = ((F16, F16), (Q8_0, Q8_0), (Q4_0, Q4_0), (Q8_0, Q4_0))
DELTA_SHAPES = (DeltaShape(16, 32, 128, 4, True), DeltaShape(16, 48, 128, 4, False), DeltaShape(4, 8, 64, 4, True))
BF16_ROWS = {"x": "*bf16"}


@dataclass(frozen=True)
class Variant:
    """A kernel, its constants (num_warps among them), and argument types that differ from `ARGUMENT_TYPES`."""

    name: str
    kernel: Any
    constants: dict[str, Any]
    types: dict[str, str] = field(default_factory=dict)


def expert_variants(type_id: int, shared_bytes: int) -> Iterator[Variant]:
    """All that reads matrices of one type."""
    shape = ExpertShape(2048, 768, 128, 8, type_id, type_id, type_id, 0, 1 << 20, 1 << 21)
    linear = {"TYPE": type_id, "ROWS": 4096, "COLUMNS": 2048, "STRIDE": 4096, "IS_ADDED": False}
    wide, deep = (constants(rows_size(columns)) for columns in (2048, 768))
    most = {"MAX_PAIRS": MAX_WINDOW_PAIRS}
    yield Variant(f"gate_up_rows {type_id}", rows.gate_up_rows_kernel, shape.gate_up | wide | most)
    yield Variant(f"down_rows {type_id}", rows.down_rows_kernel, shape.down | deep | most)
    yield Variant(f"linear_rows {type_id}", rows.linear_rows_kernel, linear | wide)
    half = {**BF16_ROWS, "out": "*bf16"}
    gate_up, down, dense = (
        constants(for_card(size, shared_bytes=shared_bytes)) for size in (GATE_UP_GROUPED, DOWN_GROUPED, LINEAR_GROUPED)
    )
    yield Variant(f"gate_up_grouped {type_id}", grouped.gate_up_grouped_kernel, shape.gate_up | gate_up, half)
    yield Variant(f"down_grouped {type_id}", grouped.down_grouped_kernel, shape.down | down, half)
    yield Variant(f"linear_grouped {type_id}", grouped.linear_grouped_kernel, linear | dense, BF16_ROWS)
    unpack = {"START": 0, "TYPE": type_id, "ROWS": 768, "COLUMNS": 2048, "BLOCK_COLUMNS": 16, "BLOCK_K": 256}
    yield Variant(f"unpack {type_id}", grouped.unpack_kernel, unpack, {"out": "*bf16"})
    table = {"TYPE": type_id, "ROWS": 151_936, "COLUMNS": 2048, "BLOCK": 256, "num_warps": 1}
    yield Variant(f"embed {type_id}", memory.embed_kernel, table)


def attention_variants(shared_bytes: int, head_dim: int, kv_format: tuple[int, int]) -> Iterator[Variant]:
    heads = {"NUM_HEADS": 32, "HEAD_DIM": head_dim}
    cache = {"KEY_TYPE": kv_format[0], "VALUE_TYPE": kv_format[1], "NUM_KV_HEADS": 4}
    kinds = {"keys": _cell_type(kv_format[0]), "values": _cell_type(kv_format[1])}
    name = f"{head_dim} {kv_format}"
    has_blocks = kv_format != (F16, F16)
    size = prompt_attention_size(head_dim=head_dim, shared_bytes=shared_bytes, has_blocks=has_blocks)
    prompt = constants(size)
    yield Variant(f"prompt_attention {name}", attention.prompt_attention_kernel, heads | cache | prompt, kinds)
    for max_rows in (1, 8):
        size = window_attention_size(
            max_rows=max_rows, num_heads=32, num_kv_heads=4, head_dim=head_dim, shared_bytes=shared_bytes
        )
        window = heads | cache | constants(size)
        yield Variant(f"window_attention {name} {max_rows}", attention.window_attention_kernel, window, kinds)
    rotated = {"BLOCK": head_dim, "ROTATED": head_dim, "IS_NEOX": True, "HAS_NORM": True, "num_warps": 1}
    yield Variant(f"heads {name}", norms.heads_kernel, heads | cache | rotated, kinds)
    fill = cache | rotated | {"NUM_HEADS": 0, "HEAD_DIM": head_dim}
    yield Variant(f"keys and values {name}", norms.heads_kernel, fill, kinds)


def merge_variant(head_dim: int) -> Variant:
    merge = {"NUM_HEADS": 32, "HEAD_DIM": head_dim, "SPLIT_KEYS": 512, "SPLITS": MERGE_SPLITS}
    return Variant(f"merge_splits {head_dim}", attention.merge_splits_kernel, merge)


def _cell_type(type_id: int) -> str:
    return "*fp16" if type_id == F16 else "*u8"


def small_variants(shared_bytes: int) -> Iterator[Variant]:
    few = {"NUM_EXPERTS": 128, "EXPERTS": 128}
    vocab, blocks = {"VOCAB": 151_936, "BLOCK": 1024}, {"BLOCKS": 256}
    dense = {"TYPE": 0, "ROWS": 128, "COLUMNS": 2048, "STRIDE": 128, "IS_ADDED": False}
    added = {"TYPE": Q4_K, "ROWS": 2048, "COLUMNS": 4096, "STRIDE": 2048, "IS_ADDED": True}
    yield Variant("linear_rows added", rows.linear_rows_kernel, added | constants(rows_size(4096)))
    yield Variant(
        "linear_grouped added",
        grouped.linear_grouped_kernel,
        added | constants(LINEAR_ADDED),
        BF16_ROWS,
    )
    yield Variant("linear_f32", grouped.linear_grouped_kernel, dense | constants(LINEAR_F32))
    yield Variant("count", grouping.count_kernel, few | {"PAIRS": 128})
    yield Variant("scan", grouping.scan_kernel, few)
    yield Variant("place", grouping.place_kernel, {"NUM_EXPERTS": 128, "PAIRS": 128})
    yield Variant("tiles", grouping.tiles_kernel, few | {"BLOCK_ROWS": 128})
    norm = {"COLUMNS": 2048, "BLOCK": 2048, "X_STRIDE": 2048, "OUT_STRIDE": 2048}
    yield Variant("rms_norm", norms.rms_norm_kernel, norm)
    for name, kind in (("rms_norm half of a pair", "*fp16"), ("rms_norm half of a window's pair", "*fp32")):
        yield Variant(name, norms.rms_norm_kernel, norm | {"OUT_STRIDE": 4096}, {"out": kind})
    yield Variant("angles", norms.angles_kernel, {"HALF": 64, "BLOCK": 64, "num_warps": 1})
    routing = few | {"NUM_USED": 8, "SMALLEST_SUM": 2.0**-14, "num_warps": 1}
    for name, is_sigmoid in (("route", False), ("route sigmoid", True)):
        kind = {"IS_SIGMOID": is_sigmoid, "HAS_BIAS": is_sigmoid, "NORMALIZES": True}
        yield Variant(name, router.route_kernel, routing | kind)
    yield Variant("combine", router.combine_kernel, {"NUM_USED": 8, "COLUMNS": 2048, "BLOCK": 1024})
    wide = {"COLUMNS": 4096, "BLOCK": 1024}
    yield Variant("silu_mul", elementwise.silu_mul_kernel, wide, {"out": "*fp16"})
    gated = {"HEAD_DIM": 256, "BLOCK": 256, "num_warps": 1}
    yield Variant("gate_heads", elementwise.gate_heads_kernel, gated, {"out": "*fp16"})
    yield Variant("add_gated", elementwise.add_gated_kernel, wide)
    yield Variant("add_bias", elementwise.add_bias_kernel, wide | {"STRIDE": 5120})
    yield Variant("select", bookkeeping.select_kernel, few)
    counted = {"NUM_EXPERTS": 512, "EXPERTS": 512, "PAIRS": 16}
    for name, has_usage in (("count_reads", False), ("count_reads of each", True)):
        usage = {} if has_usage else {"usage": "*i64"}  # what is never touched
        yield Variant(name, bookkeeping.count_reads_kernel, counted | {"HAS_USAGE": has_usage}, usage)
    yield Variant("count_chosen", bookkeeping.count_chosen_kernel, counted)
    for name, is_noted in (("accept", False), ("accept and note", True)):
        accepted = {"IS_NOTED": is_noted, "MAX_ROWS": MAX_WINDOW_ROWS, "num_warps": 1}
        yield Variant(name, bookkeeping.accept_kernel, accepted)
    yield Variant("place_behind", bookkeeping.place_behind_kernel, {"num_warps": 1})
    yield Variant("greedy_blocks", greedy.greedy_blocks_kernel, vocab, {"sums": "*fp32"})
    picked = {"VOCAB": 151_936, **blocks, "num_warps": 1}
    yield Variant(
        "greedy_pick", greedy.greedy_pick_kernel, picked, {"token": "*i32", "probability": "*fp64", "sums": "*fp32"}
    )
    yield Variant("fill", memory.fill_kernel, {"BLOCK": 4096})
    yield Variant("digest_parts", memory.digest_parts_kernel, {"BLOCK": 1024})
    yield Variant("fingerprint", fingerprint.fingerprint_kernel, {"BLOCK": 256, "num_warps": 8})
    yield Variant("digest_sum", memory.digest_sum_kernel, {"BLOCK": 1024}, {"out": "*u64"})
    yield Variant("sample_scores", sampling.sample_scores_kernel, vocab)
    yield Variant("keep_step", filtering.keep_step_kernel, vocab | blocks | {"num_warps": 8})
    yield Variant("sample_blocks", sampling.sample_blocks_kernel, vocab | blocks)
    yield Variant("sample_pick", sampling.sample_pick_kernel, {"VOCAB": 151_936} | blocks)


def delta_variants(shape: DeltaShape) -> Iterator[Variant]:
    name = f"{shape.heads} {shape.width}"
    conv = {"CHANNELS": shape.channels, "TAPS": shape.taps, "BLOCK": CONV_BLOCK}
    yield Variant(f"conv {name}", delta.conv_kernel, conv)
    yield Variant(f"remember {name}", delta.remember_kernel, conv, {"rows": "*fp32"})
    yield Variant(f"delta_rows {name}", delta.delta_rows_kernel, shape.matrices)
    yield Variant(f"commit {name}", delta.commit_kernel, shape.matrices)
    unit = {"KEY_HEADS": shape.key_heads, "CHANNELS": shape.channels, "WIDTH": shape.width, "BLOCK": shape.width}
    yield Variant(f"unit_heads {name}", delta_blocks.unit_heads_kernel, unit | {"num_warps": 1})
    yield Variant(f"delta_solve {name}", delta_blocks.delta_solve_kernel, shape.solve)
    yield Variant(f"delta_walk {name}", delta_blocks.delta_walk_kernel, shape.walk)
    norm = {"WIDTH": shape.width, "BLOCK": shape.width, "num_warps": 1}
    yield Variant(f"gated_norm {name}", delta.gated_norm_kernel, norm, {"gate": "*fp32", "out": "*fp16"})


def all_variants(shared_bytes: int) -> Iterator[Variant]:
    for type_id in (*PACKED_TYPES, 0, 1, 30):
        yield from expert_variants(type_id, shared_bytes)
    for head_dim in (64, 128, 256):
        for kv_format in KV_FORMATS:
            yield from attention_variants(shared_bytes, head_dim, kv_format)
        yield merge_variant(head_dim)
    for delta_shape in DELTA_SHAPES:
        yield from delta_variants(delta_shape)
    for head_dim in (16, 32):  # of small models, whose K/V are f16
        yield from attention_variants(shared_bytes, head_dim, KV_FORMATS[0])
        yield merge_variant(head_dim)
    yield from small_variants(shared_bytes)


def representative_variants(shared_bytes: int) -> Iterator[Variant]:
    """Every kernel once, the experts in Q4_K."""
    yield from expert_variants(Q4_K, shared_bytes)
    yield from attention_variants(shared_bytes, 128, KV_FORMATS[0])
    yield merge_variant(128)
    yield from delta_variants(DELTA_SHAPES[0])
    yield from small_variants(shared_bytes)


ARGUMENT_TYPES = {
    "row_address": "i64",
    "lane_address": "i64",
    "segment_bytes": "i32",
    "stride_bytes": "i32",
    "x": "*fp32",
    "ids": "*i32",
    "addresses": "*i64",
    "grids": "*u32",
    "out": "*fp32",
    "num_pairs": "i32",
    "num_rows": "i32",
    "sorted_pairs": "*i32",
    "tiles": "*i32",
    "num_tiles": "*i32",
    "q": "*fp16",
    "mixed": "*fp32",
    "history": "*fp32",
    "taps": "*fp32",
    "stride": "i32",
    "beta": "*fp32",
    "alpha": "*fp32",
    "rate": "*fp32",
    "state": "*fp32",
    "journal": "*fp32",
    "blocks": "*fp32",
    "log_decays": "*fp32",
    "is_journaled": "i32",
    "keys": "*fp16",
    "key_scales": "*fp16",
    "values": "*fp16",
    "value_scales": "*fp16",
    "header": "*i64",
    "scale": "fp32",
    "part_out": "*fp32",
    "part_state": "*fp32",
    "max_splits": "i32",
    "counts": "*i32",
    "starts": "*i32",
    "totals": "*i32",
    "selected": "*u8",
    "num_blocks": "i32",
    "experts": "*i32",
    "weight": "*fp32",
    "epsilon": "fp32",
    "frequencies": "*fp64",
    "angles": "*fp32",
    "qkv": "*fp32",
    "q_weight": "*fp32",
    "k_weight": "*fp32",
    "q_out": "*fp16",
    "logits": "*fp32",
    "weights": "*fp32",
    "weights_scale": "fp32",
    "expert_rows": "*fp32",
    "hidden": "*fp32",
    "tokens": "*i32",
    "target": "*u8",
    "value": "i32",
    "size_bytes": "i64",
    "words": "*u64",
    "parts": "*u64",
    "num_words": "i64",
    "num_parts": "i32",
    "wishes": "*i64",
    "reals": "*fp64",
    "bias": "*fp32",
    "seen": "*u8",
    "terminators": "*u8",
    "scores": "*fp32",
    "highest": "*fp32",
    "found": "*i64",
    "sums": "*i64",
    "keep": "*i64",
    "step": "i32",
    "best": "*fp64",
    "where": "*i32",
    "result": "*i64",
    "gate": "*fp32",
    "up": "*fp32",
    "reads": "*i64",
    "usage": "*i32",
    "query_gate": "*fp32",
    "num_sampled": "*i64",
    "sampled": "*i32",
    "source": "*i64",
    "behind": "i32",
    "arena_address": "i64",
    "arena_bytes": "i64",
    **{f"w{index}": "i32" for index in range(bookkeeping.WORDS)},
}
