"""Figures of the gated delta net, one layer of qwen3next, by the row and in blocks of rows: part of `bench.kernels`."""

import torch

from bench.figure import Figure
from bench.timing import median_ms
from kernels.triton import launch_delta
from kernels.triton.launch_delta import DeltaShape
from kernels.triton.sizes import DELTA_BLOCK_ROWS

SHAPE = DeltaShape(key_heads=16, heads=32, width=128, taps=4, is_tiled=False)
EPSILON = 1e-6


def delta_net(num_rows: int = 1024) -> list[Figure]:
    """A prompt chunk behind its convolution. Blocks work in their inputs, so those are filled anew each time."""
    card = {"device": "cuda"}
    inputs, mixed = (torch.randn(num_rows, SHAPE.channels, **card) for _ in range(2))
    gates = (torch.randn(num_rows, SHAPE.heads, **card), torch.randn(num_rows, SHAPE.heads, **card))
    constants = (-torch.rand(SHAPE.heads, **card), torch.randn(SHAPE.heads, **card))
    state = torch.zeros(SHAPE.matrix_floats + (SHAPE.taps - 1) * SHAPE.channels, **card)
    out = torch.empty(num_rows, SHAPE.heads, SHAPE.width, **card)
    blocks = torch.empty(num_rows, SHAPE.heads, SHAPE.width + DELTA_BLOCK_ROWS, **card)
    given = (mixed, gates, constants, state, out)

    def refill() -> None:
        mixed.copy_(inputs)
        gates[1].zero_()

    def by_row() -> None:
        refill()
        launch_delta.delta_rows(*given, SHAPE, epsilon=EPSILON)

    def in_blocks() -> None:
        refill()
        launch_delta.delta_chunk(*given, blocks, SHAPE, epsilon=EPSILON)

    refill_ms = median_ms(refill)
    found = []
    for name, run in (("by the row", by_row), (f"in blocks of {DELTA_BLOCK_ROWS}", in_blocks)):
        milliseconds = median_ms(run) - refill_ms
        rate = num_rows / milliseconds
        found.append(Figure(f"delta net, {num_rows} tokens, {name}", rate, "token/ms", milliseconds, "-", 0.0))
    return found
