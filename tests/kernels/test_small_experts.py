"""Small experts taken together have the bits of experts taken one by one."""

import gguf
import numpy as np
import pytest
import torch

from kernels.reference.expert_weights import ExpertWeights
from kernels.reference.experts import experts
from kernels.reference.scratch import Scratch
from kernels.reference.small_experts import most_together

Q8_0 = 8
HIDDEN, FFN, USED, NUM_EXPERTS = 64, 32, 3, 40


def matrix(rows: int, columns: int, seed: int) -> torch.Tensor:
    values = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)
    return torch.from_numpy(gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0).reshape(-1).copy())


def weights_of(expert: int, *, is_joined: bool) -> ExpertWeights:
    both, down = matrix(2 * FFN, HIDDEN, expert), matrix(HIDDEN, FFN, 1000 + expert)
    half = both.numel() // 2
    joined = both if is_joined else None
    return ExpertWeights(both[:half], Q8_0, both[half:], Q8_0, down, Q8_0, FFN, joined)


def rows_of(ids: torch.Tensor, normed: torch.Tensor, *, is_joined: bool, repeats: int = 1) -> torch.Tensor:
    ids, normed = ids.repeat(repeats, 1), normed.repeat(repeats, 1)
    out = torch.full((ids.shape[0], USED, HIDDEN), float("nan"))
    chosen = ((expert, weights_of(expert, is_joined=is_joined)) for expert in torch.unique(ids).tolist())
    experts(normed, ids, chosen, out, Scratch())
    return out


@pytest.mark.parametrize("rows", [1, 2, 7, 16])
def test_whoever_is_taken_together_has_the_bits_of_a_longer_read(rows: int) -> None:
    """Of 48 rows and more each expert is one for itself."""
    torch.manual_seed(rows)
    ids = torch.stack([torch.randperm(NUM_EXPERTS)[:USED] for _ in range(rows)]).int()
    normed = torch.randn(rows, HIDDEN)
    together = rows_of(ids, normed, is_joined=True)
    assert torch.isfinite(together).all()
    assert torch.equal(together, rows_of(ids, normed, is_joined=True, repeats=48)[:rows])
    assert (together - rows_of(ids, normed, is_joined=False)).abs().max() < 1e-4


def test_large_experts_are_taken_one_by_one() -> None:
    assert most_together(32, 256) == 32
    assert most_together(768, 2048) < 2 and most_together(2048, 64) < 2
