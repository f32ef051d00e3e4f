"""SmolLM2-135M-Instruct in plain torch, out of its GGUF file: the writer of the corpus, and the judge of samples.

Architecture llama: grouped queries, rotation of neighbouring dims (x[2i], x[2i+1]), tied head. `step` reads one token
a row at a position that all rows share, so a row's prompt is read token by token like everything else and no row is
ever padded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

DecodeAttention = Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]
"""(query [R, group, D], keys [R, T, D], values, position int64 [1], tokens) -> [R, group, D]. R counts rows times KV
heads; position + 1 = tokens <= T cells are filled. Which of the two it reads is its own affair."""


@dataclass(frozen=True, slots=True)
class Sizes:
    layers: int
    heads: int
    kv_heads: int
    epsilon: float
    rope_base: float

    @property
    def group(self) -> int:
        return self.heads // self.kv_heads


@dataclass(frozen=True, slots=True)
class _Layer:
    attn_norm: Tensor
    qkv: Tensor
    out: Tensor
    ffn_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class Cells:
    """K and V of each layer: [rows * kv_heads, tokens, D]."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


class SmolLM2:
    """Weights in `dtype` on `device`."""

    def __init__(self, path: Path, *, device: str, dtype: torch.dtype) -> None:
        reader = gguf.GGUFReader(path)
        found = {tensor.name: tensor for tensor in reader.tensors}

        def number(name: str) -> float:
            field = reader.get_field(f"llama.{name}")
            assert field is not None, f"{path} has no llama.{name}"
            return float(field.contents())

        def load(name: str) -> Tensor:
            tensor = found[f"{name}.weight"]
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            return torch.from_numpy(np.array(values, np.float32)).to(device=device, dtype=dtype)

        self.sizes = Sizes(
            layers=int(number("block_count")),
            heads=int(number("attention.head_count")),
            kv_heads=int(number("attention.head_count_kv")),
            epsilon=number("attention.layer_norm_rms_epsilon"),
            rope_base=number("rope.freq_base"),
        )
        self.embedding = load("token_embd")
        self.output_norm = load("output_norm")
        self.layers = [
            _Layer(
                load(f"{block}.attn_norm"),
                torch.cat([load(f"{block}.attn_{role}") for role in "qkv"]),
                load(f"{block}.attn_output"),
                load(f"{block}.ffn_norm"),
                torch.cat([load(f"{block}.ffn_{role}") for role in ("gate", "up")]),
                load(f"{block}.ffn_down"),
            )
            for block in (f"blk.{index}" for index in range(self.sizes.layers))
        ]
        self.width = self.embedding.shape[1]
        self.head_dim = self.width // self.sizes.heads
        self.device, self.dtype = device, dtype

    def rotary(self, num_positions: int) -> tuple[Tensor, Tensor]:
        """cos and sin [num_positions, D / 2], in the weights' type."""
        exponents = torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim
        angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * self.sizes.rope_base**-exponents
        return angles.cos().to(self.device, self.dtype), angles.sin().to(self.device, self.dtype)

    def new_cells(self, rows: int, tokens: int) -> Cells:
        size = (rows * self.sizes.kv_heads, tokens, self.head_dim)

        def make() -> tuple[Tensor, ...]:
            return tuple(torch.zeros(size, device=self.device, dtype=self.dtype) for _ in self.layers)

        return Cells(make(), make())

    def step(
        self,
        ids: Tensor,
        position: Tensor,
        tokens: int,
        cells: Cells,
        rotary: tuple[Tensor, Tensor],
        attention: DecodeAttention,
    ) -> Tensor:
        """One token a row -> logits [rows, V]. ids: int64 [rows]; position: int64 [1]; tokens: position + 1, or what
        `attention` makes of it."""
        rows, sizes = ids.shape[0], self.sizes
        cosine, sine = (each.index_select(0, position) for each in rotary)
        x = F.embedding(ids, self.embedding)
        for index, layer in enumerate(self.layers):
            h = F.rms_norm(x, (self.width,), layer.attn_norm, sizes.epsilon)
            query, key, value = self._heads(F.linear(h, layer.qkv))
            query, key = rotate_neighbours(query, cosine, sine), rotate_neighbours(key, cosine, sine)
            cells.keys[index].index_copy_(1, position, key.reshape(-1, 1, self.head_dim))
            cells.values[index].index_copy_(1, position, value.reshape(-1, 1, self.head_dim))
            grouped = query.reshape(rows * sizes.kv_heads, sizes.group, self.head_dim)
            mixed = attention(grouped, cells.keys[index], cells.values[index], position, tokens)
            x = x + F.linear(mixed.reshape(rows, -1), layer.out)
            x = x + self._feed_forward(x, layer)
        return F.linear(F.rms_norm(x, (self.width,), self.output_norm, sizes.epsilon), self.embedding)

    @torch.no_grad()
    def losses(self, ids: Tensor) -> Tensor:
        """Nats of every token after the first, f32 [B, T - 1]. ids: int64 [B, T]."""
        cosine, sine = (each.unsqueeze(1) for each in self.rotary(ids.shape[1]))
        sizes, x = self.sizes, F.embedding(ids, self.embedding)
        for layer in self.layers:
            h = F.rms_norm(x, (self.width,), layer.attn_norm, sizes.epsilon)
            query, key, value = self._heads(F.linear(h, layer.qkv))
            query, key = rotate_neighbours(query, cosine, sine), rotate_neighbours(key, cosine, sine)
            key, value = (each.repeat_interleave(sizes.group, -2) for each in (key, value))
            q, k, v = (each.transpose(1, 2) for each in (query, key, value))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + F.linear(mixed.transpose(1, 2).flatten(-2), layer.out)
            x = x + self._feed_forward(x, layer)
        h = F.rms_norm(x, (self.width,), self.output_norm, sizes.epsilon)
        chances = F.linear(h[:, :-1], self.embedding).float().log_softmax(-1)
        return -chances.gather(-1, ids[:, 1:, None]).squeeze(-1)

    def _heads(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[..., heads, D] of each."""
        key_width = self.sizes.kv_heads * self.head_dim
        query, key, value = qkv.split([self.width, key_width, key_width], -1)
        first, second, third = (each.unflatten(-1, (-1, self.head_dim)) for each in (query, key, value))
        return first, second, third

    def _feed_forward(self, x: Tensor, layer: _Layer) -> Tensor:
        gate, up = F.linear(F.rms_norm(x, (self.width,), layer.ffn_norm, self.sizes.epsilon), layer.gate_up).chunk(
            2, -1
        )
        return F.linear(F.silu(gate) * up, layer.down)


def rotate_neighbours(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Pairs (x[2i], x[2i+1]); cosine and sine broadcast against [..., heads, D / 2]."""
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([first * cosine - second * sine, second * cosine + first * sine], -1).flatten(-2)
