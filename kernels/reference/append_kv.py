"""New keys and values into a layer's cache."""

from torch import Tensor


def append_kv(key: Tensor, value: Tensor, keys: Tensor, values: Tensor, *, position: int) -> None:
    """keys[position + r] = key[r], values likewise, rounded to the cache's type.

    key, value: f32 [rows, Hkv, D], may be strided over rows; keys, values: f16 or f32 [context, Hkv, D]."""
    rows = key.shape[0]
    assert position + rows <= keys.shape[0], (position, rows, keys.shape[0])
    keys[position : position + rows].copy_(key)
    values[position : position + rows].copy_(value)
