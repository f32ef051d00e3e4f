"""Figures of attention over K/V in every format: part of `bench.kernels`."""

import math

import torch

from bench.figure import Figure
from bench.timing import graph_ms, median_ms
from kernels.triton import launch_attention
from kernels.triton.kv_cells import cell_bytes
from kernels.triton.launch_attention import KvLayer
from kernels.triton.sizes import prompt_attention_size, window_attention_size

HEADS, KV_HEADS, HEAD_DIM = 32, 4, 128
KV_FORMATS = {"f16": (1, 1), "int8": (8, 8), "q4_0": (2, 2), "k8v4": (8, 2)}
WINDOW_SETS = 24


def random_cells(type_id: int, sets: int, length: int) -> torch.Tensor:
    """Cells of `sets` layers on the card; codes at random, scales near 0.01."""
    if type_id == 1:
        return torch.randn(sets, length, KV_HEADS, HEAD_DIM, device="cuda").half()
    size = int(cell_bytes(type_id, KV_HEADS, HEAD_DIM))
    cells = torch.randint(0, 256, (sets, length, size), dtype=torch.uint8, device="cuda")
    scales = KV_HEADS * HEAD_DIM // 32 * 2
    cells[..., size - scales :].view(torch.float16).uniform_(0.005, 0.02)
    return cells


def attention(ceilings: dict[str, float], kv_format: str, length: int = 16_384) -> list[Figure]:
    types = KV_FORMATS[kv_format]
    keys, values = (random_cells(type_id, WINDOW_SETS, length) for type_id in types)
    layers = [KvLayer(keys[index], values[index], KV_HEADS, *types) for index in range(WINDOW_SETS)]
    q = torch.randn(length, HEADS, HEAD_DIM, device="cuda").half()
    out = torch.empty(length, HEADS, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
    header, scale = torch.zeros(32, dtype=torch.int64, device="cuda"), 1 / math.sqrt(HEAD_DIM)
    size = prompt_attention_size(head_dim=HEAD_DIM, shared_bytes=227 * 1024)
    milliseconds = median_ms(
        lambda: launch_attention.attention_prompt(q, layers[0], header, out, scale=scale, size=size)
    )
    rate = 2.0 * HEADS * HEAD_DIM * length * (length + 1) / milliseconds / 1e9
    name = f"prompt attention, {length} tokens, {kv_format}"
    found = [Figure(name, rate, "TFLOP/s", milliseconds, "matrix", rate / ceilings["matrix"])]
    for max_rows, num_rows in ((1, 1), (4, 1), (4, 4)) if kv_format == "f16" else ((1, 1),):
        milliseconds = window_attention_ms(q[:num_rows], layers, header, out[:num_rows], max_rows, length)
        rate = (keys.nbytes + values.nbytes) / milliseconds / 1e9
        name = f"window attention, {length} cells, {kv_format}, {num_rows} rows (made for {max_rows})"
        found.append(Figure(name, rate, "TB/s", milliseconds, "hbm", rate / ceilings["hbm"]))
    return found


def window_attention_ms(
    q: torch.Tensor, layers: list[KvLayer], header: torch.Tensor, out: torch.Tensor, max_rows: int, length: int
) -> float:
    size = window_attention_size(
        max_rows=max_rows, num_heads=HEADS, num_kv_heads=KV_HEADS, head_dim=HEAD_DIM, shared_bytes=227 * 1024
    )
    splits, num_rows = length // size.split_keys, len(q)
    part_out = torch.empty(splits, num_rows * HEADS, HEAD_DIM, device="cuda")
    part_state = torch.empty(2, splits, num_rows * HEADS, device="cuda")
    header[0] = length - num_rows

    def step() -> None:
        for layer in layers:
            launch_attention.attention_window(
                q, layer, header, part_out, part_state, out, scale=HEAD_DIM**-0.5, size=size
            )

    milliseconds = graph_ms(step)
    header[0] = 0
    return milliseconds
