"""Token embeddings: rows of a table in file form."""

from torch import Tensor

from kernels.reference.dequantize import dequantize, row_bytes
from kernels.reference.scratch import Scratch


def embed(tokens: Tensor, table: Tensor, type_id: int, out: Tensor, scratch: Scratch) -> None:
    """out[i] = row tokens[i] of the table.

    tokens: int32 [rows], each below vocab; table: uint8, the file's bytes of [vocab, E]; out: f32 [rows, E]."""
    rows, columns = out.shape
    stride = row_bytes(type_id, columns)
    table_rows = table.view(-1, stride)
    for row in range(rows):
        token = int(tokens[row])
        assert 0 <= token < table_rows.shape[0], (row, token, table_rows.shape[0])
        dequantize(table_rows[token], type_id, out[row], scratch)
