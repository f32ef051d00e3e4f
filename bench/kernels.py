"""Each kernel's achieved share of the ceiling that bounds it, both measured in this run.

    python -m bench.kernels [--json] [--out FILE]

Shapes of qwen3moe 30B-A3B, Q4_K experts, one layer's work repeated over many layers' memory so that caches are cold.
Times are medians, by events; window kernels as one captured graph. Bytes are those of the weights or of K and V.
"""

import argparse
import json
import sys
from dataclasses import asdict

import torch
import triton

from bench.figure import Figure
from bench.inputs import (
    EMBED,
    EXPERTS,
    FFN,
    IQ2_XS,
    IQ3_XXS,
    LAYERS,
    Q4_K,
    Q8_0,
    USED,
    expert_layout,
    random_blobs,
    random_choice,
    set_scales,
)
from bench.kernels_attention import HEAD_DIM, HEADS, KV_FORMATS, KV_HEADS, attention
from bench.kernels_delta import delta_net
from bench.kernels_sampling import sampling
from bench.timing import graph_ms, median_ms
from kernels.triton import launch_attention, launch_dense, launch_experts, launch_grouping, launch_rows
from kernels.triton.launch_attention import KvLayer
from kernels.triton.packing import grid_table
from kernels.triton.sizes import DOWN_GROUPED, GroupedSize, window_attention_size

BF16 = 30


def measure_ceilings() -> dict[str, float]:
    """hbm: TB/s of a device copy, read plus written; link: GB/s of a pinned host-to-device copy; matrix: TFLOP/s."""
    n = 8192
    a, b = (torch.randn(n, n, device="cuda").bfloat16() for _ in range(2))
    matrix = 2 * n**3 / median_ms(lambda: a @ b) / 1e9
    source = torch.empty(1 << 32, dtype=torch.uint8, device="cuda").random_(0, 255)
    target = torch.empty_like(source)
    hbm = 2 * source.numel() / median_ms(lambda: target.copy_(source)) / 1e9
    host = torch.empty(1 << 29, dtype=torch.uint8, pin_memory=True).fill_(7)
    link = host.numel() / median_ms(lambda: target[: host.numel()].copy_(host, non_blocking=True)) / 1e6
    return {"hbm": hbm, "link": link, "matrix": matrix}


def grids_on_card() -> torch.Tensor:
    return torch.from_numpy(grid_table()).cuda()


def expert_shape(type_id: int = Q4_K) -> launch_experts.ExpertShape:
    layout, types = expert_layout(type_id), (type_id,) * 3
    return launch_experts.ExpertShape(EMBED, FFN, EXPERTS, USED, *types, 0, layout.up, layout.down)


def window_experts_ms(blobs: torch.Tensor, num_layers: int, num_rows: int, type_id: int = Q4_K) -> float:
    """One replay: gate, up and down of every layer, `num_rows` rows that chose 8 distinct experts each."""
    grids, shape, blobs_a_layer = grids_on_card(), expert_shape(type_id), len(blobs) // num_layers
    table = torch.zeros((num_layers, EXPERTS), dtype=torch.int64)
    ids = torch.zeros((num_layers, num_rows, USED), dtype=torch.int32)
    for layer in range(num_layers):
        chosen = torch.randperm(EXPERTS)[:blobs_a_layer]
        table[layer, chosen] = blobs.data_ptr() + (layer * blobs_a_layer + torch.arange(blobs_a_layer)) * blobs.shape[1]
        for row in range(num_rows):
            ids[layer, row] = chosen[torch.randperm(blobs_a_layer)[:USED]].int()
    table, ids = table.cuda(), ids.cuda()
    x = torch.randn(num_rows, EMBED, device="cuda")
    act, out = (torch.empty(num_rows * USED, width, device="cuda") for width in (FFN, EMBED))

    def step() -> None:
        for layer in range(num_layers):
            launch_experts.experts_window(x, ids[layer], table[layer], grids, shape, act, out)

    return graph_ms(step)


def window_experts(ceilings: dict[str, float]) -> list[Figure]:
    layout = expert_layout(Q4_K)
    blobs = random_blobs(layout, LAYERS * USED, "cuda", Q4_K)
    work = LAYERS * USED * layout.size
    milliseconds = window_experts_ms(blobs, LAYERS, 1)
    rate = work / milliseconds / 1e9
    found = [
        Figure("window experts, 8 of 128, resident, 1 row", rate, "TB/s", milliseconds, "hbm", rate / ceilings["hbm"])
    ]
    milliseconds = window_experts_ms(blobs, LAYERS, 4)
    rate = work / milliseconds / 1e9
    found.append(Figure("the same 8 experts, 4 rows", rate, "TB/s", milliseconds, "hbm", rate / ceilings["hbm"]))
    for name, type_id in (("IQ3_XXS", IQ3_XXS), ("IQ2_XS", IQ2_XS), ("Q8_0", Q8_0)):
        some = random_blobs(expert_layout(type_id), LAYERS * USED, "cuda", type_id)
        milliseconds = window_experts_ms(some, LAYERS, 1, type_id)
        rate = some.numel() / milliseconds / 1e9
        what = f"window experts, 8 of 128, {name}, 1 row"
        found.append(Figure(what, rate, "TB/s", milliseconds, "hbm", rate / ceilings["hbm"]))
    pack = blobs[: 24 * USED].cpu().pin_memory()
    milliseconds = window_experts_ms(pack, 24, 1)
    rate = pack.numel() / milliseconds / 1e6
    found.append(
        Figure("window experts, 8 of 128, none resident", rate, "GB/s", milliseconds, "link", rate / ceilings["link"])
    )
    return found


def prompt_experts(ceilings: dict[str, float], num_tokens: int) -> list[Figure]:
    grids, shape, layout = grids_on_card(), expert_shape(), expert_layout(Q4_K)
    blobs = random_blobs(layout, EXPERTS, "cuda", Q4_K)
    addresses = blobs.data_ptr() + torch.arange(EXPERTS, device="cuda") * layout.size
    ids, pairs = random_choice(num_tokens).cuda(), num_tokens * USED
    ints = {"dtype": torch.int32, "device": "cuda"}
    grouping = launch_grouping.Grouping(
        torch.empty(pairs // 128, EXPERTS, **ints),
        torch.empty(EXPERTS + 1, **ints),
        torch.empty(EXPERTS, **ints),
        torch.empty(pairs, **ints),
    )
    tiles = launch_grouping.Tiles(
        torch.empty(pairs // DOWN_GROUPED.block_rows + EXPERTS, 4, **ints), torch.empty(1, **ints)
    )
    selected = torch.ones(EXPERTS, dtype=torch.uint8, device="cuda")

    def group() -> None:
        launch_grouping.group(ids, grouping, num_experts=EXPERTS)
        launch_grouping.make_tiles(
            grouping.starts, selected, tiles, num_experts=EXPERTS, block_rows=DOWN_GROUPED.block_rows
        )

    grouping_ms = graph_ms(group)
    x = torch.randn(num_tokens, EMBED, device="cuda").bfloat16()
    act, out = (torch.empty(pairs, width, device="cuda", dtype=torch.bfloat16) for width in (FFN, EMBED))
    operations = 3 * 2.0 * pairs * EMBED * FFN

    def packed() -> None:
        launch_experts.experts_prompt(x, grouping.sorted_pairs, tiles, addresses, grids, shape, act, out)

    milliseconds = median_ms(packed)
    rate = operations / milliseconds / 1e9
    name = f"prompt experts, {num_tokens} tokens, 128 experts"
    found = [
        Figure(f"{name}, unpacked in the tile", rate, "TFLOP/s", milliseconds, "matrix", rate / ceilings["matrix"])
    ]
    weights = torch.empty(EXPERTS, 3, FFN * EMBED, dtype=torch.bfloat16, device="cuda")
    flat = weights.data_ptr() + torch.arange(EXPERTS, device="cuda") * weights[0].numel() * 2
    part = FFN * EMBED * 2
    shape_16 = launch_experts.ExpertShape(EMBED, FFN, EXPERTS, USED, BF16, BF16, BF16, 0, part, 2 * part)
    which = torch.arange(EXPERTS, **ints)
    parts = [torch.empty(EXPERTS, FFN * EMBED, dtype=torch.bfloat16, device="cuda") for _ in range(3)]

    def unpack() -> None:
        for index, (start, rows, columns) in enumerate(
            ((0, FFN, EMBED), (layout.up, FFN, EMBED), (layout.down, EMBED, FFN))
        ):
            launch_experts.unpack(
                addresses, grids, which, parts[index], Q4_K, start=start, num_rows=rows, columns=columns
            )

    unpack_ms = median_ms(unpack)
    for index in range(3):
        weights[:, index].copy_(parts[index])
    wide, deep = GroupedSize(128, 128, 64, 4, 8), GroupedSize(128, 256, 64, 3, 8)

    def numbers() -> None:
        launch_experts.experts_prompt(
            x, grouping.sorted_pairs, tiles, flat, grids, shape_16, act, out, gate_up_size=wide, down_size=deep
        )

    milliseconds = unpack_ms + median_ms(numbers)
    rate = operations / milliseconds / 1e9
    found.append(
        Figure(
            f"{name}, unpacked first ({unpack_ms:.3f} ms of it)",
            rate,
            "TFLOP/s",
            milliseconds,
            "matrix",
            rate / ceilings["matrix"],
        )
    )
    found.append(Figure(f"grouping of {pairs} pairs", pairs / grouping_ms / 1e3, "Mpair/s", grouping_ms, "-", 0.0))
    return found


def dense_step(ceilings: dict[str, float]) -> list[Figure]:
    """The dense part of one token, 48 layers, as one graph: norms, qkv, rope, attention at 1,000 cells, output,
    router, combine, and the head (151,936 rows, Q6_K); Q4_K else. Experts are left out."""
    grids, q6 = grids_on_card(), 14
    qkv_rows, context = (HEADS + 2 * KV_HEADS) * HEAD_DIM, 4096
    sizes = [qkv_rows * EMBED, EMBED * HEADS * HEAD_DIM]
    blocks = [torch.empty(LAYERS, n // 256 * 144, dtype=torch.uint8, device="cuda") for n in sizes]
    for data, rows, columns in zip(blocks, (qkv_rows, EMBED), (EMBED, HEADS * HEAD_DIM), strict=True):
        data.random_(0, 255)
        set_scales(data, Q4_K, rows=rows, columns=columns)
    head = torch.empty(1, 151_936 * EMBED // 256 * 210, dtype=torch.uint8, device="cuda").random_(0, 255)
    set_scales(head, q6, rows=151_936, columns=EMBED)
    router = torch.randn(LAYERS, EXPERTS, EMBED, device="cuda")
    at = [
        torch.tensor([data[i].data_ptr() for i in range(LAYERS)], device="cuda").view(-1, 1)
        for data in (*blocks, router)
    ]
    head_at = torch.tensor([head.data_ptr()], device="cuda")
    kv = torch.zeros(LAYERS, 2, context, KV_HEADS, HEAD_DIM, device="cuda", dtype=torch.float16).normal_()
    caches = [KvLayer(layer[0], layer[1], KV_HEADS) for layer in kv]
    norm, half = torch.randn(EMBED, device="cuda"), torch.randn(HEAD_DIM, device="cuda")
    header = torch.zeros(32, dtype=torch.int64, device="cuda")
    header[0] = 1000
    frequencies = 1e6 ** -(torch.arange(64, dtype=torch.float64, device="cuda") / 64)
    new = torch.empty
    hidden, normed = torch.randn(1, EMBED, device="cuda"), new(1, EMBED, device="cuda")
    qkv, angles = new(1, qkv_rows, device="cuda"), new(1, 2, 64, device="cuda")
    q, mixed = new(1, HEADS, HEAD_DIM, device="cuda", dtype=torch.float16), new(1, HEADS * HEAD_DIM, device="cuda")
    size = window_attention_size(
        max_rows=1, num_heads=HEADS, num_kv_heads=KV_HEADS, head_dim=HEAD_DIM, shared_bytes=227 * 1024
    )
    splits = context // size.split_keys
    part_out, part_state = new(splits, HEADS, HEAD_DIM, device="cuda"), new(2, splits, HEADS, device="cuda")
    logits, ids = new(1, EXPERTS, device="cuda"), new(1, USED, dtype=torch.int32, device="cuda")
    weights, rows = new(1, USED, device="cuda"), torch.randn(1, USED, EMBED, device="cuda")
    vocab, mixed_out = new(1, 151_936, device="cuda"), new(1, EMBED, device="cuda")

    def step() -> None:
        launch_attention.angles(header, frequencies, angles)
        for layer in range(LAYERS):
            launch_rows.rms_norm(hidden, norm, normed, epsilon=1e-6)
            launch_dense.linear_window(normed, at[0][layer], grids, Q4_K, qkv)
            launch_attention.heads(
                qkv.view(1, -1, HEAD_DIM),
                angles,
                (half, half),
                header,
                q,
                caches[layer],
                epsilon=1e-6,
                is_neox=True,
            )
            launch_attention.attention_window(
                q,
                caches[layer],
                header,
                part_out,
                part_state,
                mixed.view(1, HEADS, HEAD_DIM),
                scale=HEAD_DIM**-0.5,
                size=size,
            )
            launch_dense.linear_window(mixed, at[1][layer], grids, Q4_K, mixed_out)
            launch_rows.rms_norm(mixed_out, norm, normed, epsilon=1e-6)
            launch_dense.linear_window(normed, at[2][layer], grids, 0, logits)
            launch_rows.route(logits, ids, weights)
            launch_rows.combine(rows, weights, hidden)
        launch_rows.rms_norm(hidden, norm, normed, epsilon=1e-6)
        launch_dense.linear_window(normed, head_at, grids, q6, vocab)

    milliseconds = graph_ms(step)
    size_bytes = sum(data.numel() for data in (*blocks, head)) + router.numel() * 4
    rate = size_bytes / milliseconds / 1e9
    head_ms = graph_ms(lambda: launch_dense.linear_window(normed, head_at, grids, q6, vocab))
    head_rate = head.numel() / head_ms / 1e9
    return [
        Figure("dense part of a step, 48 layers, one graph", rate, "TB/s", milliseconds, "hbm", rate / ceilings["hbm"]),
        Figure("output head alone, Q6_K", head_rate, "TB/s", head_ms, "hbm", head_rate / ceilings["hbm"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    ceilings = measure_ceilings()
    figures = [
        *window_experts(ceilings),
        *prompt_experts(ceilings, 4096),
        *prompt_experts(ceilings, 8192),
        *(figure for kv_format in KV_FORMATS for figure in attention(ceilings, kv_format)),
        *dense_step(ceilings),
        *sampling(),
        *delta_net(),
    ]
    found = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "command": "python -m bench.kernels " + " ".join(sys.argv[1:]),
        "ceilings": ceilings,
        "figures": [asdict(figure) for figure in figures],
    }
    text = json.dumps(found, indent=1)
    if arguments.out:
        with open(arguments.out, "w") as file:
            file.write(text)
    if arguments.json:
        print(text)
        return
    print(", ".join(f"{name} {value:.1f}" for name, value in ceilings.items()))
    for figure in figures:
        share = f"{figure.share:6.1%} of {figure.ceiling:6s}"
        print(f"{figure.value:9.3f} {figure.unit:8s} {figure.milliseconds:9.4f} ms {share} {figure.kernel}")


if __name__ == "__main__":
    main()
