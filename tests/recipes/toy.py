"""A toy strata-tiny: the recipe's own code at sizes that a CPU trains in seconds."""

from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from recipes.strata_tiny.export import write_gguf
from recipes.strata_tiny.model import init_weights
from recipes.strata_tiny.network import DEPTHS, Network
from recipes.strata_tiny.shape import TinyShape
from recipes.strata_tiny.vocabulary import learn, vocabulary_of

SHAPE = TinyShape(
    vocab=320,
    hidden=64,
    layers=4,
    interval=2,
    heads=4,
    kv_heads=2,
    head_dim=32,
    rope_dims=8,
    rope_base=1e4,
    key_heads=2,
    value_heads=4,
    head_width=32,
    experts=8,
    used=2,
    ffn=32,
    shared_ffn=32,
    context=256,
)
TEXT = (
    "The boat lay on the cold lake, and the boy who had carried the blue tent up the hill sat down beside it. "
    "Why does the bread taste so good? Because it is warm, the farmer said; the oven was hot all night long.\n"
)


def toy_tokenizer() -> Tokenizer:
    return learn([TEXT], size=SHAPE.vocab)


def spread_weights(*, seed: int) -> dict[str, Tensor]:
    """Wider than a fresh model's, so that attention looks and routers choose."""
    draw = torch.Generator().manual_seed(seed)
    weights = init_weights(SHAPE, seed=seed)
    for name, value in weights.items():
        if value.ndim > 1 and not name.endswith("ssm_conv1d.weight"):
            scale = 1.0 if name.startswith("token_embd") else 1.5 / value.shape[-1] ** 0.5
            value.normal_(generator=draw).mul_(scale)
        elif "norm" in name:
            value.add_(torch.randn(value.shape, generator=draw) * 0.1)
    return weights


def toy_network(weights: dict[str, Tensor], tokens: int) -> Network:
    return Network(SHAPE, weights, dtype=torch.float32, compiles=False, tokens=tokens)


def write_toy(path: Path, weights: dict[str, Tensor], *, is_q8: bool = False) -> Path:
    arrays = {name: value.detach().numpy() for name, value in weights.items()}
    write_gguf(path, SHAPE, arrays, vocabulary_of(toy_tokenizer()), is_q8=is_q8)
    return path


@torch.no_grad()
def logits_and_drafts(network: Network, ids: list[int]) -> tuple[Tensor, list[Tensor]]:
    """Logits [T, V] of the trunk, and of every depth [T - DEPTHS, V]."""
    row = torch.tensor([ids])
    hidden = network.read(row).hidden
    rows, _ = network.drafts(row, hidden[:, : len(ids) - DEPTHS], DEPTHS)
    return network.logits(hidden)[0], [network.logits(each)[0] for each in rows]
