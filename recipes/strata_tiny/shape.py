"""The sizes of strata-tiny: what fits into 15 MB of Q8_0 with most of the bytes in routed experts.

routed experts   9 blocks x 32 x 3 x 256 x 32      7.1 M weights
mixers           6 gated delta nets, 2 attentions, 1 attention of the NextN block
ends             token embedding and an output head of its own, 4,096 x 256 each
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TinyShape:
    """Names as in strata's `ModelSpec`. Value head j of a recurrent layer reads key head j % key_heads, as architecture
    qwen35moe stores it. One NextN block follows the `layers` of the trunk."""

    vocab: int = 4096
    hidden: int = 256
    layers: int = 8
    interval: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    rope_dims: int = 16
    rope_base: float = 1e6
    key_heads: int = 2
    value_heads: int = 4
    head_width: int = 64
    taps: int = 4
    experts: int = 32
    used: int = 4
    ffn: int = 32
    shared_ffn: int = 128
    context: int = 8192
    epsilon: float = 1e-6

    @property
    def key_width(self) -> int:
        return self.key_heads * self.head_width

    @property
    def value_width(self) -> int:
        return self.value_heads * self.head_width

    @property
    def channels(self) -> int:
        return 2 * self.key_width + self.value_width

    def is_recurrent(self, block: int) -> bool:
        return block < self.layers and (block + 1) % self.interval != 0


def weight_shapes(shape: TinyShape) -> dict[str, tuple[int, ...]]:
    """Every tensor under its GGUF name, in numpy's order: matrices are [out, in], experts [experts, out, in]."""
    hidden = shape.hidden
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (shape.vocab, hidden),
        "output_norm.weight": (hidden,),
        "output.weight": (shape.vocab, hidden),
    }
    for block in range(shape.layers + 1):
        parts = _recurrent(shape) if shape.is_recurrent(block) else _attention(shape)
        parts |= _mixture(shape)
        if block == shape.layers:
            parts |= _nextn(shape)
        shapes |= {f"blk.{block}.{name}": size for name, size in parts.items()}
    return shapes


def _attention(shape: TinyShape) -> dict[str, tuple[int, ...]]:
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return {
        "attn_norm.weight": (shape.hidden,),
        "attn_q.weight": (2 * query, shape.hidden),
        "attn_k.weight": (key, shape.hidden),
        "attn_v.weight": (key, shape.hidden),
        "attn_q_norm.weight": (shape.head_dim,),
        "attn_k_norm.weight": (shape.head_dim,),
        "attn_output.weight": (shape.hidden, query),
    }


def _recurrent(shape: TinyShape) -> dict[str, tuple[int, ...]]:
    heads = shape.value_heads
    return {
        "attn_norm.weight": (shape.hidden,),
        "attn_qkv.weight": (shape.channels, shape.hidden),
        "attn_gate.weight": (shape.value_width, shape.hidden),
        "ssm_conv1d.weight": (shape.channels, shape.taps),
        "ssm_beta.weight": (heads, shape.hidden),
        "ssm_alpha.weight": (heads, shape.hidden),
        "ssm_dt.bias": (heads,),
        "ssm_a": (heads,),
        "ssm_norm.weight": (shape.head_width,),
        "ssm_out.weight": (shape.hidden, shape.value_width),
    }


def _mixture(shape: TinyShape) -> dict[str, tuple[int, ...]]:
    hidden = shape.hidden
    return {
        "post_attention_norm.weight": (hidden,),
        "ffn_gate_inp.weight": (shape.experts, hidden),
        "ffn_gate_exps.weight": (shape.experts, shape.ffn, hidden),
        "ffn_up_exps.weight": (shape.experts, shape.ffn, hidden),
        "ffn_down_exps.weight": (shape.experts, hidden, shape.ffn),
        "ffn_gate_inp_shexp.weight": (hidden,),
        "ffn_gate_shexp.weight": (shape.shared_ffn, hidden),
        "ffn_up_shexp.weight": (shape.shared_ffn, hidden),
        "ffn_down_shexp.weight": (hidden, shape.shared_ffn),
    }


def _nextn(shape: TinyShape) -> dict[str, tuple[int, ...]]:
    return {
        "nextn.eh_proj.weight": (shape.hidden, 2 * shape.hidden),
        "nextn.enorm.weight": (shape.hidden,),
        "nextn.hnorm.weight": (shape.hidden,),
        "nextn.shared_head_norm.weight": (shape.hidden,),
    }
