"""The delta rule in chunks is the recurrence of the kernels, token by token."""

import pytest
import torch
from torch import Tensor

from kernels.reference.delta_net import delta_net
from kernels.reference.scratch import Scratch
from recipes.strata_tiny.delta_rule import delta_rule, unit_lower_inverse

HEADS, WIDTH = 2, 16


def inputs(num_tokens: int, *, are_keys_alike: bool = False) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(num_tokens)
    query, key, value = (torch.randn(1, num_tokens, HEADS, WIDTH, generator=draw) for _ in range(3))
    if are_keys_alike:
        key = key[:, :1] + 0.01 * key
    beta = torch.rand(1, num_tokens, HEADS, generator=draw)
    log_decay = -torch.rand(1, num_tokens, HEADS, generator=draw) * (0.01 if are_keys_alike else 1.0)
    return (
        torch.nn.functional.normalize(query, dim=-1),
        torch.nn.functional.normalize(key, dim=-1),
        value,
        beta,
        log_decay,
    )


@pytest.mark.parametrize("num_tokens", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("are_keys_alike", [False, True])
def test_chunks_give_what_the_recurrence_gives(num_tokens: int, are_keys_alike: bool) -> None:
    query, key, value, beta, log_decay = inputs(num_tokens, are_keys_alike=are_keys_alike)
    expected = torch.empty(num_tokens, HEADS, WIDTH)
    state = torch.zeros(HEADS, WIDTH, WIDTH)
    delta_net(query[0], key[0], value[0], beta[0], log_decay[0].exp(), state, expected, Scratch(), is_tiled=True)
    assert torch.allclose(delta_rule(query, key, value, beta, log_decay)[0], expected, atol=2e-5)


def test_the_inverse_has_the_gradient_of_a_solve() -> None:
    strict = (0.3 * torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).tril(-1)
    wanted = torch.linalg.inv(torch.eye(64, dtype=torch.float64) + strict)
    assert torch.allclose(unit_lower_inverse(strict), wanted, atol=1e-8)
    few = tuple(each[:, :5, :1, :4].double().requires_grad_() for each in inputs(64)[:3])
    gates = tuple(each[:, :5, :1].double().requires_grad_() for each in inputs(64)[3:])
    assert torch.autograd.gradcheck(delta_rule, (*few, *gates))
