"""strata-tiny as differentiable functions of its tensors, which lie under their GGUF names in one dictionary.

The math is that of architecture qwen35moe (the layers of `strata/model/programs`). All 32 experts of a layer are
computed for every token and weighted by a gate that is 0 for all but four: at this width one dense product is cheaper
than sorting tokens by expert. What is trained in place of `ssm_a` is log(-ssm_a), so that the decay stays a decay.

Every function of a block takes the block's tensors without their prefix, so one compiled form serves all blocks of a
kind. `dtype` is that of matrix products: float32, or bfloat16 on a card.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from recipes.strata_tiny.delta_rule import delta_rule
from recipes.strata_tiny.shape import TinyShape, weight_shapes

MIN_WEIGHT_SUM = 6.103515625e-5
"""As llama.cpp's router: the least that the chosen probabilities are taken to sum to."""

SOFTPLUS_LINEAR_FROM = 20.0

Weights = Mapping[str, Tensor]


def init_weights(shape: TinyShape, *, seed: int) -> dict[str, Tensor]:
    """float32 on the CPU. What writes into the residual stream starts small."""
    draw = torch.Generator().manual_seed(seed)
    weights: dict[str, Tensor] = {}
    for name, size in weight_shapes(shape).items():
        kind = name.removesuffix(".weight").rpartition(".")[2]
        if kind.endswith("norm"):
            weights[name] = torch.ones(size)
        elif kind == "ssm_a":
            weights[name] = torch.empty(size).uniform_(1, 16, generator=draw).log()
        elif name.endswith("ssm_dt.bias"):
            step = torch.exp(torch.empty(size).uniform_(math.log(1e-3), math.log(1e-1), generator=draw))
            weights[name] = step + torch.log(-torch.expm1(-step))  # softplus of it is `step`
        elif kind == "ssm_conv1d":
            weights[name] = torch.empty(size).uniform_(-0.5, 0.5, generator=draw)
        else:
            spread = 0.02 if kind in ("token_embd", "output") else 0.5 / math.sqrt(size[-1])
            if kind in ("attn_output", "ssm_out", "ffn_down_exps", "ffn_down_shexp"):
                spread /= math.sqrt(2 * shape.layers)
            weights[name] = torch.randn(size, generator=draw) * spread
    return weights


def block_weights(weights: Weights, block: int) -> dict[str, Tensor]:
    prefix = f"blk.{block}."
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def rms(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """f32, whatever x is."""
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon) * weight


def linear(x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    return F.linear(x.to(dtype), weight.to(dtype))


def rotary(shape: TinyShape, num_positions: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """cos and sin, f32 [num_positions, rope_dims / 2]."""
    exponents = torch.arange(0, shape.rope_dims, 2, dtype=torch.float64) / shape.rope_dims
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * shape.rope_base**-exponents
    return angles.cos().float().to(device), angles.sin().float().to(device)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """NEOX pairs of the first dims. x: [B, T, heads, D]; cosine, sine: [T, rope_dims / 2]."""
    half = cosine.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = cosine[:, None], sine[:, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)


@dataclass(frozen=True, slots=True)
class Projected:
    """Of one attention: normed and rotated, [B, heads, T, D] in the type of matrix products; gate [B, T, H D]."""

    query: Tensor
    key: Tensor
    value: Tensor
    gate: Tensor


def project_attention(
    x: Tensor, w: Weights, cosine: Tensor, sine: Tensor, shape: TinyShape, dtype: torch.dtype
) -> Projected:
    """K and V are repeated for the query heads that share them."""
    h = rms(x, w["attn_norm.weight"], shape.epsilon)
    query, gate = linear(h, w["attn_q.weight"], dtype).unflatten(-1, (shape.heads, 2 * shape.head_dim)).chunk(2, dim=-1)
    key = linear(h, w["attn_k.weight"], dtype).unflatten(-1, (shape.kv_heads, shape.head_dim))
    value = linear(h, w["attn_v.weight"], dtype).unflatten(-1, (shape.kv_heads, shape.head_dim))
    query = rotate(rms(query, w["attn_q_norm.weight"], shape.epsilon), cosine, sine)
    key = rotate(rms(key, w["attn_k_norm.weight"], shape.epsilon), cosine, sine)
    group = shape.heads // shape.kv_heads
    query, key, value = (each.to(dtype).transpose(1, 2) for each in (query, key, value))
    return Projected(
        query, key.repeat_interleave(group, 1), value.repeat_interleave(group, 1), gate.flatten(-2).sigmoid()
    )


def attention(x: Tensor, w: Weights, cosine: Tensor, sine: Tensor, shape: TinyShape, dtype: torch.dtype) -> Tensor:
    p = project_attention(x, w, cosine, sine, shape, dtype)
    out = F.scaled_dot_product_attention(p.query, p.key, p.value, is_causal=True)
    return linear(out.transpose(1, 2).flatten(-2) * p.gate, w["attn_output.weight"], dtype)


def gated_delta_net(x: Tensor, w: Weights, shape: TinyShape, dtype: torch.dtype) -> Tensor:
    h = rms(x, w["attn_norm.weight"], shape.epsilon)
    qkv = linear(h, w["attn_qkv.weight"], dtype).float()
    z = linear(h, w["attn_gate.weight"], dtype).float().unflatten(-1, (shape.value_heads, -1))
    beta = F.linear(h, w["ssm_beta.weight"]).sigmoid()
    rate = -w["ssm_a"].exp()
    log_decay = rate * softplus(F.linear(h, w["ssm_alpha.weight"]) + w["ssm_dt.bias"])
    mixed = F.silu(causal_conv(qkv, w["ssm_conv1d.weight"]))
    query, key, value = mixed.split([shape.key_width, shape.key_width, shape.value_width], -1)
    query, key, value = (each.unflatten(-1, (-1, shape.head_width)) for each in (query, key, value))
    query = _unit(query, shape.epsilon) * shape.head_width**-0.5
    key = _unit(key, shape.epsilon)
    copies = shape.value_heads // shape.key_heads
    query, key = (torch.cat([each] * copies, 2) for each in (query, key))  # tiled: value head j has key head j % Hk
    out = rms(delta_rule(query, key, value, beta, log_decay), w["ssm_norm.weight"], shape.epsilon)
    return linear((out * F.silu(z)).flatten(-2), w["ssm_out.weight"], dtype)


def softplus(x: Tensor) -> Tensor:
    """The library's own gives its gradient another layout than its compiler is told (torch 2.11 to 2.13)."""
    return torch.where(x > SOFTPLUS_LINEAR_FROM, x, x.clamp(max=SOFTPLUS_LINEAR_FROM).exp().log1p())


def _unit(x: Tensor, epsilon: float) -> Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + epsilon)


def causal_conv(x: Tensor, weight: Tensor) -> Tensor:
    """Each channel by itself, the last tap on the row itself. x: [B, T, C]; weight: [C, taps]."""
    taps = weight.shape[1]
    padded = F.pad(x, (0, 0, taps - 1, 0))
    out = padded[:, : x.shape[1]] * weight[:, 0]
    for tap in range(1, taps):
        out = out + padded[:, tap : tap + x.shape[1]] * weight[:, tap]
    return out


def mixture(x: Tensor, w: Weights, shape: TinyShape, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """What the experts add to the stream, and the balance of their shares."""
    h = rms(x, w["post_attention_norm.weight"], shape.epsilon)
    chances = F.linear(h, w["ffn_gate_inp.weight"]).softmax(-1)
    top, ids = chances.topk(shape.used, dim=-1)
    top = top / top.sum(-1, keepdim=True).clamp(min=MIN_WEIGHT_SUM)
    gates = torch.zeros_like(chances).scatter(-1, ids, top)
    wide = F.silu(linear(h, w["ffn_gate_exps.weight"].flatten(0, 1), dtype))
    wide = wide * linear(h, w["ffn_up_exps.weight"].flatten(0, 1), dtype)
    wide = (wide.unflatten(-1, (shape.experts, shape.ffn)) * gates.unsqueeze(-1)).flatten(-2)
    out = linear(wide, w["ffn_down_exps.weight"].transpose(0, 1).flatten(1, 2), dtype)
    common = F.silu(linear(h, w["ffn_gate_shexp.weight"], dtype)) * linear(h, w["ffn_up_shexp.weight"], dtype)
    open_ = (h * w["ffn_gate_inp_shexp.weight"]).sum(-1, keepdim=True).sigmoid()
    out = out + open_ * linear(common, w["ffn_down_shexp.weight"], dtype)
    share = (gates > 0).float().flatten(0, -2).mean(0) / shape.used
    balance = shape.experts * (share * chances.flatten(0, -2).mean(0)).sum()
    return out, balance


def recurrent_block(x: Tensor, w: Weights, shape: TinyShape, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """x: f32 [B, T, E] -> the same, and the balance."""
    x = x + gated_delta_net(x, w, shape, dtype)
    added, balance = mixture(x, w, shape, dtype)
    return x + added, balance


def attention_block(
    x: Tensor, w: Weights, cosine: Tensor, sine: Tensor, shape: TinyShape, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    x = x + attention(x, w, cosine, sine, shape, dtype)
    added, balance = mixture(x, w, shape, dtype)
    return x + added, balance
