"""Which tile sizes are fast on this card: the measurement behind the fixed sizes in `kernels/triton/sizes.py`.

    python -m bench.sweep [experts] [grouped] [attention] [--out FILE]

Shapes of qwen3moe 30B-A3B with Q4_K experts. Prints one line a variant, best first; run it when a kernel changes.
"""

import argparse
import json
import math
import sys
import time

import torch

from bench.inputs import EMBED, EXPERTS, FFN, LAYERS, USED, ExpertLayout, expert_layout, random_blobs, random_choice
from bench.timing import graph_ms, median_ms
from kernels.triton import attention, grouped, grouping, rows

Q4_K = 12


def sweep(name, variants, run, work, unit):
    """Time `run(*variant)` for each; `work` / seconds / 1e12 is the figure."""
    lines = []
    for variant in variants:
        try:
            started = time.perf_counter()
            milliseconds = run(*variant)
            lines.append((work / milliseconds / 1e9, milliseconds, variant, time.perf_counter() - started))
        except Exception as error:  # a variant that does not fit the card is a result of the sweep
            print(name, variant, type(error).__name__, str(error).splitlines()[0][:90])
    lines.sort(reverse=True)
    for figure, milliseconds, variant, took in lines:
        print(f"{name:22s} {figure:8.3f} {unit}  {milliseconds:9.4f} ms  {variant}  ({took:.1f} s)")
    sys.stdout.flush()
    return [(round(figure, 4), round(ms, 5), variant) for figure, ms, variant, _ in lines]


def sweep_experts():
    layout = expert_layout(Q4_K)
    blobs = random_blobs(layout, LAYERS * 12, "cuda", Q4_K)
    table = torch.zeros((LAYERS, EXPERTS), dtype=torch.int64, device="cuda")
    ids = torch.zeros((LAYERS, USED), dtype=torch.int32, device="cuda")
    for layer in range(LAYERS):
        chosen = torch.randperm(EXPERTS)[:12]
        places = blobs.data_ptr() + (layer * 12 + torch.arange(12)) * layout.size
        table[layer, chosen.cuda()] = places.cuda()
        ids[layer] = chosen[:USED].int().cuda()
    x = torch.randn(1, EMBED, device="cuda")
    act = torch.empty(USED, FFN, device="cuda")
    out = torch.empty(USED, EMBED, device="cuda")

    def gate_up(block_rows, groups, warps):
        def step():
            for layer in range(LAYERS):
                rows.gate_up_rows_kernel[(FFN // block_rows, USED)](
                    x, ids[layer], table[layer], act, USED, NUM_USED=USED, GATE_START=0, UP_START=layout.up, GATE_TYPE=Q4_K,
                    UP_TYPE=Q4_K, ROWS=FFN, COLUMNS=EMBED, BLOCK_ROWS=block_rows, GROUPS=groups, MAX_PAIRS=128, num_warps=warps,
                )  # fmt: skip

        return graph_ms(step)

    def down(block_rows, groups, warps):
        def step():
            for layer in range(LAYERS):
                rows.down_rows_kernel[(EMBED // block_rows, USED)](
                    act, ids[layer], table[layer], out, USED, START=layout.down, TYPE=Q4_K, ROWS=EMBED, COLUMNS=FFN,
                    BLOCK_ROWS=block_rows, GROUPS=groups, MAX_PAIRS=128, num_warps=warps,
                )  # fmt: skip

        return graph_ms(step)

    weights = LAYERS * USED * layout.up * 2
    found = {"gate_up": sweep("gate_up_rows", [
        (4, 8, 1), (8, 8, 1), (4, 16, 1), (8, 16, 1), (2, 32, 1), (4, 32, 1), (8, 32, 1), (2, 64, 1), (4, 64, 1), (1, 64, 1), (4, 16, 2), (8, 16, 2),
        (4, 32, 2), (8, 32, 2), (4, 64, 2), (8, 16, 4), (8, 32, 4), (16, 16, 4), (4, 64, 4), (8, 64, 4)], gate_up, weights, "TB/s")}  # fmt: skip
    found["down"] = sweep("down_rows", [
        (4, 8, 1), (8, 8, 1), (16, 8, 1), (4, 16, 1), (8, 16, 1), (16, 16, 1), (2, 32, 1), (4, 32, 1), (8, 32, 1), (8, 8, 2), (16, 8, 2), (32, 8, 2), (4, 32, 2), (8, 32, 2),
        (16, 16, 4), (16, 8, 4), (32, 8, 4), (64, 8, 4)], down, weights / 2, "TB/s")  # fmt: skip
    return found


def cap(registers):
    return {"maxnreg": registers} if registers else {}


def sweep_grouped(num_tokens=4096):
    layout, kind = expert_layout(Q4_K), [Q4_K]
    blobs = random_blobs(layout, EXPERTS, "cuda", Q4_K)
    table = blobs.data_ptr() + torch.arange(EXPERTS, device="cuda") * layout.size
    ids = random_choice(num_tokens).cuda()
    pairs = num_tokens * USED
    order = torch.sort(ids.view(-1), stable=True).indices.int()
    starts = torch.cat([torch.zeros(1), torch.cumsum(torch.bincount(ids.view(-1).cpu(), minlength=EXPERTS), 0)]).int().cuda()
    selected = torch.ones(EXPERTS, dtype=torch.uint8, device="cuda")
    x = torch.randn(num_tokens, EMBED, device="cuda").bfloat16()
    act = torch.empty(pairs, FFN, device="cuda", dtype=torch.bfloat16)
    act.normal_()
    out = torch.empty(pairs, EMBED, device="cuda", dtype=torch.bfloat16)

    def tiles_of(block_rows):
        tiles = torch.zeros((pairs // block_rows + EXPERTS, 4), dtype=torch.int32, device="cuda")
        num_tiles = torch.zeros(1, dtype=torch.int32, device="cuda")
        grouping.tiles_kernel[(1,)](starts, selected, tiles, num_tiles, NUM_EXPERTS=EXPERTS, EXPERTS=128, BLOCK_ROWS=block_rows)
        return tiles, num_tiles

    def gate_up(bm, bn, bk, stages, warps, programs, registers):
        tiles, num_tiles = tiles_of(bm)
        return median_ms(lambda: grouped.gate_up_grouped_kernel[(programs,)](
            x, table, order, tiles, num_tiles, act, NUM_USED=USED, GATE_START=0, UP_START=layout.up, GATE_TYPE=kind[0], UP_TYPE=kind[0],
            ROWS=FFN, COLUMNS=EMBED, BLOCK_ROWS=bm, BLOCK_COLUMNS=bn, BLOCK_K=bk, STAGES=stages, num_warps=warps, **cap(registers)))  # fmt: skip

    def down(bm, bn, bk, stages, warps, programs, registers):
        tiles, num_tiles = tiles_of(bm)
        return median_ms(lambda: grouped.down_grouped_kernel[(programs,)](
            act, table, order, tiles, num_tiles, out, START=layout.down, TYPE=kind[0], ROWS=EMBED, COLUMNS=FFN, BLOCK_ROWS=bm,
            BLOCK_COLUMNS=bn, BLOCK_K=bk, STAGES=stages, num_warps=warps, **cap(registers)))  # fmt: skip

    operations = 2.0 * pairs * EMBED * FFN
    found = {"gate_up": sweep("gate_up_grouped", [
        (128, 64, 64, 3, 4, 264, 0), (128, 64, 64, 2, 4, 264, 0), (128, 64, 64, 3, 8, 264, 128), (128, 64, 64, 2, 8, 264, 128), (128, 64, 64, 3, 8, 264, 0),
        (128, 128, 64, 3, 8, 132, 0), (64, 64, 64, 3, 4, 396, 0), (64, 128, 64, 3, 8, 264, 128), (128, 64, 32, 4, 4, 264, 0), (128, 64, 128, 2, 4, 264, 0), (128, 64, 64, 4, 4, 264, 0),
        (64, 128, 64, 3, 4, 264, 0)],
        gate_up, 2 * operations, "TFLOP/s")}  # fmt: skip
    found["down"] = sweep("down_grouped", [
        (128, 128, 64, 3, 4, 264, 0), (128, 128, 64, 2, 4, 264, 0), (128, 128, 64, 3, 8, 264, 128), (128, 128, 64, 2, 8, 264, 128), (64, 128, 64, 3, 4, 396, 168),
        (64, 256, 64, 3, 8, 264, 128), (128, 128, 32, 4, 4, 264, 0), (128, 128, 64, 4, 4, 264, 0), (128, 128, 64, 3, 4, 1056, 0)],
        down, operations, "TFLOP/s")  # fmt: skip
    numbers = torch.empty(EXPERTS, 3 * FFN * EMBED, dtype=torch.bfloat16, device="cuda").normal_()
    table = numbers.data_ptr() + torch.arange(EXPERTS, device="cuda") * numbers.shape[1] * 2
    layout = ExpertLayout(up=FFN * EMBED * 2, down=FFN * EMBED * 4, size=FFN * EMBED * 6)
    kind[0] = 30
    found["gate_up_bf16"] = sweep("gate_up_grouped bf16", [
        (128, 64, 64, 3, 4, 264, 0), (128, 128, 64, 3, 8, 132, 0), (128, 128, 64, 4, 8, 132, 0), (128, 64, 64, 4, 4, 264, 0), (64, 64, 64, 4, 4, 396, 0), (128, 64, 64, 3, 8, 264, 0), (128, 128, 64, 3, 8, 4224, 0), (64, 128, 64, 4, 4, 264, 0), (128, 64, 128, 2, 4, 264, 0)],
        gate_up, 2 * operations, "TFLOP/s")  # fmt: skip
    found["down_bf16"] = sweep("down_grouped bf16", [
        (128, 128, 64, 3, 4, 264, 0), (128, 256, 64, 3, 8, 132, 0), (128, 128, 64, 4, 8, 264, 0), (64, 256, 64, 3, 4, 264, 0), (128, 128, 64, 3, 8, 264, 0)],
        down, operations, "TFLOP/s")  # fmt: skip
    packed = random_blobs(expert_layout(Q4_K), EXPERTS, "cuda", Q4_K)
    places = packed.data_ptr() + torch.arange(EXPERTS, device="cuda") * packed.shape[1]
    which = torch.arange(EXPERTS, device="cuda", dtype=torch.int32)

    def unpack(bn, bk, warps):
        return median_ms(lambda: grouped.unpack_kernel[(FFN // bn, EMBED // bk, EXPERTS)](
            places, which, numbers, START=0, TYPE=Q4_K, ROWS=FFN, COLUMNS=EMBED, BLOCK_COLUMNS=bn, BLOCK_K=bk, num_warps=warps))  # fmt: skip

    found["unpack"] = sweep("unpack (one of three)", [(32, 256, 4), (16, 256, 4), (64, 256, 8), (8, 512, 4), (16, 512, 4), (32, 128, 4), (4, 1024, 4)], unpack, EXPERTS * FFN * EMBED * 2.5625, "TB/s")
    return found


def sweep_attention(length=16384):
    heads, kv_heads, dim = 32, 4, 128
    keys = torch.randn(length, kv_heads, dim, device="cuda").half()
    values = torch.randn(length, kv_heads, dim, device="cuda").half()
    q = torch.randn(length, heads, dim, device="cuda").half()
    out = torch.empty(length, heads, dim, device="cuda", dtype=torch.bfloat16)
    header = torch.zeros(32, dtype=torch.int64, device="cuda")
    scale = attention.LOG2_E / math.sqrt(dim)

    def prompt(bm, bn, stages, warps):
        return median_ms(lambda: attention.prompt_attention_kernel[(length // bm, heads)](
            q, keys, values, header, out, length, scale, NUM_HEADS=heads, NUM_KV_HEADS=kv_heads, HEAD_DIM=dim, BLOCK_ROWS=bm,
            BLOCK_KEYS=bn, STAGES=stages, num_warps=warps))  # fmt: skip

    operations = 2.0 * 2 * heads * dim * length * (length + 1) / 2
    found = {"prompt": sweep("prompt_attention", [
        (128, 128, 3, 8), (128, 64, 4, 8), (128, 64, 3, 8), (64, 64, 4, 4)],
        prompt, operations, "TFLOP/s")}  # fmt: skip
    header[0] = length - 1
    sets = 24
    many_keys = torch.randn(sets, length, kv_heads, dim, device="cuda").half()
    many_values = torch.randn(sets, length, kv_heads, dim, device="cuda").half()

    def window(block_rows, bn, split, stages, warps, merge):
        splits = length // split
        part_out = torch.empty(splits, 8 * heads, dim, device="cuda")
        part_state = torch.empty(2, splits, 8 * heads, device="cuda")

        def step():
            for index in range(sets):
                attention.window_attention_kernel[(kv_heads, splits)](
                    q, many_keys[index], many_values[index], header, part_out, part_state, 1, scale, NUM_HEADS=heads, NUM_KV_HEADS=kv_heads,
                    HEAD_DIM=dim, BLOCK_ROWS=block_rows, BLOCK_KEYS=bn, SPLIT_KEYS=split, STAGES=stages, num_warps=warps)  # fmt: skip
                attention.merge_splits_kernel[(heads,)](
                    part_out, part_state, header, out, 1, splits, NUM_HEADS=heads, HEAD_DIM=dim, SPLIT_KEYS=split, SPLITS=merge)  # fmt: skip

        return graph_ms(step)

    found["window"] = sweep("window_attention", [
        (16, 128, 512, 3, 4, 16), (16, 128, 512, 3, 4, 32), (16, 128, 512, 2, 4, 32), (16, 64, 512, 3, 4, 32), (16, 64, 512, 4, 4, 32), (16, 64, 512, 5, 4, 32), (16, 128, 512, 3, 8, 32), (16, 64, 256, 3, 2, 32), (16, 64, 512, 3, 2, 32),
        (16, 32, 512, 4, 2, 32), (16, 32, 256, 4, 2, 64), (16, 64, 256, 3, 4, 64), (16, 64, 256, 4, 4, 64), (16, 128, 1024, 3, 4, 16), (64, 64, 512, 3, 4, 32), (64, 128, 512, 2, 4, 32), (64, 128, 512, 2, 8, 32), (64, 64, 512, 4, 4, 32), (32, 64, 512, 4, 4, 32)],
        window, 2.0 * sets * length * kv_heads * dim * 2, "TB/s")  # fmt: skip
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["experts", "grouped", "attention"])
    parser.add_argument("--out")
    arguments = parser.parse_args()
    run = {"experts": sweep_experts, "grouped": sweep_grouped, "attention": sweep_attention}
    found = {part: run[part]() for part in arguments.parts}
    if arguments.out:
        with open(arguments.out, "w") as file:
            json.dump(found, file)


if __name__ == "__main__":
    main()
