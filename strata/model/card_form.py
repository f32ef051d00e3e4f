"""The form in which a card holds a model: type, place and size of every matrix after packing. Pure arithmetic.

    vector    F32, whatever the file has                    matrix    `kernels.triton.formats`: packed, or F16
    blob      | gate | pad | up | pad | down |              as in the file, each part packed, on 16 bytes

Most types keep their size; those that no kernel reads become F16 and grow, so a plan for a card is made from this and
not from the file. Knows nothing of how bytes are packed (`packed_reader.py`); needs neither torch nor numpy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kernels.triton.formats import F32, card_type, packed_bytes
from strata.core.inventory import ModelInventory, WeightItem
from strata.core.units import align_up
from strata.model.blobs import PART_ALIGNMENT_BYTES
from strata.model.inventory import inventory_of
from strata.model.spec import BlobLayout, BlobPart, ModelSpec, TensorInfo


@dataclass(frozen=True, slots=True)
class CardMatrix:
    """W [rows, columns] as a kernel reads it, `offset_bytes` into its blob; a vector has one row."""

    type_id: int
    rows: int
    columns: int
    size_bytes: int
    offset_bytes: int = 0

    @property
    def end_bytes(self) -> int:
        return self.offset_bytes + self.size_bytes


@dataclass(frozen=True, slots=True)
class CardBlob:
    gate: CardMatrix
    up: CardMatrix
    down: CardMatrix

    @property
    def size_bytes(self) -> int:
        return self.down.end_bytes


@dataclass(frozen=True, slots=True)
class CardForm:
    """Keys of `dense` and length of `blobs` are those of the ModelSpec."""

    dense: Mapping[str, CardMatrix]
    blobs: tuple[CardBlob | None, ...]


def card_form(spec: ModelSpec) -> CardForm:
    dense = {name: _dense_matrix(info) for name, info in spec.dense.items()}
    return CardForm(dense, tuple(None if blob is None else _card_blob(blob) for blob in spec.blobs))


def card_inventory(spec: ModelSpec, form: CardForm) -> ModelInventory:
    """What the planner is told of a model that a card holds."""
    return replace(
        inventory_of(spec),
        weights=tuple(WeightItem(name, matrix.size_bytes) for name, matrix in form.dense.items()),
        blob_bytes=tuple(0 if blob is None else blob.size_bytes for blob in form.blobs),
    )


def _dense_matrix(info: TensorInfo) -> CardMatrix:
    if len(info.shape) == 1:
        return CardMatrix(F32, 1, info.shape[0], packed_bytes(F32, rows=1, columns=info.shape[0]))
    columns, rows = info.shape
    return _matrix(info.type_id, rows, columns, offset_bytes=0)


def _card_blob(blob: BlobLayout) -> CardBlob:
    gate = _part(blob.gate, 0)
    up = _part(blob.up, gate.end_bytes)
    return CardBlob(gate, up, _part(blob.down, up.end_bytes))


def _part(part: BlobPart, after_bytes: int) -> CardMatrix:
    return _matrix(part.type_id, part.rows, part.columns, offset_bytes=align_up(after_bytes, PART_ALIGNMENT_BYTES))


def _matrix(file_type: int, rows: int, columns: int, *, offset_bytes: int) -> CardMatrix:
    kind = card_type(file_type)
    return CardMatrix(kind, rows, columns, packed_bytes(kind, rows=rows, columns=columns), offset_bytes)
