"""Attention of one token a row over a static K/V cache: three ways, of which the writer takes the fastest on its card.

Decides by measuring on the card, and takes only a way that agrees there with plain products. What is tried and why a
way is left out is printed.
"""

import time
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from recipes.strata_tiny.smollm2 import DecodeAttention

AGREES_WITHIN = 2e-2
"""Of bfloat16 outputs of unit spread."""


def by_products(query: Tensor, keys: Tensor, values: Tensor, position: Tensor, tokens: int) -> Tensor:
    scores = query @ keys[:, :tokens].mT * query.shape[-1] ** -0.5
    return scores.float().softmax(-1).to(query.dtype) @ values[:, :tokens]


def by_library(query: Tensor, keys: Tensor, values: Tensor, position: Tensor, tokens: int) -> Tensor:
    one = (query.unsqueeze(1), keys[:, None, :tokens], values[:, None, :tokens])
    return F.scaled_dot_product_attention(*one).squeeze(1)


def by_kernel(query: Tensor, keys: Tensor, values: Tensor, position: Tensor, tokens: int) -> Tensor:
    """Reads `position` on the card: the same launch serves every step of a captured graph."""
    from recipes.strata_tiny.decode_kernel import decode

    return decode(query, keys, values, position)


WAYS: Mapping[str, DecodeAttention] = {"products": by_products, "library": by_library, "kernel": by_kernel}


def fastest(cells: int, tokens: int, group: int, width: int, device: str, say: Callable[[str], None]) -> str:
    """The name of the way to take for `cells` rows times KV heads and up to `tokens` tokens."""
    draw = torch.Generator(device=device).manual_seed(1)
    made = {"device": device, "dtype": torch.bfloat16, "generator": draw}
    query = torch.randn(cells, group, width, **made)  # type: ignore[call-overload]
    keys, values = (torch.randn(cells, tokens, width, **made) for _ in "kv")  # type: ignore[call-overload]
    half = tokens // 2 + 7
    position = torch.tensor([half - 1], device=device)
    wanted = by_products(query, keys, values, position, half)
    seconds: dict[str, float] = {}
    for name, way in WAYS.items():
        try:
            error = float((way(query, keys, values, position, half) - wanted).abs().max())
            torch.cuda.synchronize()
            began = time.monotonic()
            for _ in range(5):
                way(query, keys, values, position, half)
            torch.cuda.synchronize()
        except Exception as failure:  # whatever a compiler or driver may say: two other ways are left
            say(f"attention by {name}: left out, {type(failure).__name__}: {failure}")
            continue
        if error > AGREES_WITHIN:
            say(f"attention by {name}: left out, it is off by {error:.3g}")
            continue
        seconds[name] = (time.monotonic() - began) / 5
        say(f"attention by {name}: {1e3 * seconds[name]:.2f} ms a layer at {half} tokens")
    return min(seconds, key=seconds.__getitem__)
