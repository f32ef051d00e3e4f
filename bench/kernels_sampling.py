"""Figures of sampling: part of `bench.kernels`."""

import torch

from bench.figure import Figure
from bench.timing import graph_ms
from kernels.reference.sample import TokenTables
from kernels.triton import launch_sampling
from kernels.triton.sizes import SAMPLE_BLOCK


def sampling(vocab: int = 151_936) -> list[Figure]:
    """A token from a row of logits, filters off and on. params: 3 top_k, f64 5 temperature, 6 top_p, 8 repetition."""
    blocks, card = -(-vocab // SAMPLE_BLOCK), {"device": "cuda"}
    kinds = (torch.float32, torch.int32, torch.uint8, torch.uint8)
    tables = TokenTables(*(torch.zeros(vocab, dtype=kind, **card) for kind in kinds))
    scratch = launch_sampling.SampleScratch(
        torch.empty(1, vocab, **card),
        torch.empty(1, blocks, **card),
        torch.empty(1, blocks, dtype=torch.float64, **card),
        torch.empty(1, blocks, dtype=torch.int32, **card),
        torch.empty(1, 2, blocks, 16, dtype=torch.int64, **card),
        torch.empty(1, launch_sampling.FOUND, dtype=torch.int64, **card),
        torch.empty(1, dtype=torch.int64, **card),
    )
    logits, header = torch.randn(1, vocab, **card) * 3, torch.zeros(32, dtype=torch.int64, **card)
    tokens = torch.zeros(1, dtype=torch.int32, **card)
    result, found = torch.empty(1, dtype=torch.int64, **card), []
    for name, top_k, top_p in (("at a temperature", 0, 1.0), ("top_k 40", 40, 1.0), ("top_k 40, top_p 0.95", 40, 0.95)):
        params = torch.zeros(32, dtype=torch.int64, **card)
        reals = params.view(torch.float64)
        params[3], reals[5], reals[6], reals[8] = top_k, 0.7, top_p, 1.0
        milliseconds = graph_ms(
            lambda params=params: launch_sampling.sample(logits, params, tables, tokens, header, scratch, result)
        )
        found.append(Figure(f"sampling of {vocab}, {name}", 1 / milliseconds, "row/ms", milliseconds, "-", 0.0))
    return found
