"""New keys and values into a layer's cache."""

from torch import Tensor

from kernels.reference.kv_cells import BlockCells, Cells


def append_kv(key: Tensor, value: Tensor, keys: Cells, values: Cells, *, position: int) -> None:
    """keys[position + r] = key[r], values likewise, in the cache's form. A position's bytes depend on its row alone.

    key, value: f32 [rows, Hkv, D], may be strided over rows; keys, values: [context, Hkv, D]."""
    rows = key.shape[0]
    for cells, fresh in ((keys, key), (values, value)):
        assert position + rows <= cells.shape[0], (position, rows, cells.shape[0])
        if isinstance(cells, BlockCells):
            cells.write(fresh, position=position)
        else:
            cells[position : position + rows].copy_(fresh)
