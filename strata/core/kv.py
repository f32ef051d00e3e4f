"""How K and V lie in memory. One extent a layer: K of every position, then V of every position.

    K [context, num_kv_heads, head_dim] | V [context, num_kv_heads, head_dim]

K holds roped, normed keys, V raw values.
"""

from enum import StrEnum


class KvFormat(StrEnum):
    F16 = "f16"
    F32 = "f32"

    @property
    def element_bytes(self) -> int:
        return 2 if self is KvFormat.F16 else 4


def kv_layer_bytes(*, kv_format: KvFormat, context_tokens: int, num_kv_heads: int, head_dim: int) -> int:
    """Bytes of one layer's K and V together."""
    return 2 * context_tokens * num_kv_heads * head_dim * kv_format.element_bytes
