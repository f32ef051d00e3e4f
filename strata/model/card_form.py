"""The form in which a card holds a model: type, place and size of every matrix after packing. Pure arithmetic.

    vector    F32, whatever the file has, as the taps of a convolution
    matrix    packed, or F16: `kernels.triton.formats`
    blob      | gate | pad | up | pad | down |              as in the file, each part packed, on 16 bytes

Most types keep their size; those that no kernel reads become F16 and grow, so a plan for a card is made from this and
not from the file. Knows nothing of how bytes are packed (`packed_reader.py`); needs neither torch nor numpy.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kernels.triton.formats import F32, card_type, packed_bytes
from kernels.triton.sizes import HEAD_DIMS, MAX_EXPERTS, MAX_VOCAB, MAX_WINDOW_PAIRS
from strata.core.errors import Refusal
from strata.core.inventory import ModelInventory, WeightItem
from strata.core.kv import KvFormat
from strata.core.units import align_up
from strata.model.blobs import PART_ALIGNMENT_BYTES
from strata.model.card_work import card_work
from strata.model.inventory import inventory_of
from strata.model.spec import BlobLayout, BlobPart, ModelSpec, TensorInfo

_TWIN = "give --device twin"
CONV_TAPS = ".ssm_conv1d.weight"


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
    """`dense`: of trunk and drafter, by GGUF name. `blobs`: one a layer, None for a dense one; the drafter, where there
    is one, is the layer behind the trunk's."""

    dense: Mapping[str, CardMatrix]
    blobs: tuple[CardBlob | None, ...]


def card_form(spec: ModelSpec) -> CardForm:
    drafter = spec.drafter
    tensors = spec.dense if drafter is None else spec.dense | drafter.dense
    blobs = spec.blobs if drafter is None else (*spec.blobs, drafter.blob)
    dense = {name: _dense_matrix(info) for name, info in tensors.items()}
    return CardForm(dense, tuple(None if blob is None else _card_blob(blob) for blob in blobs))


def check_card_form(spec: ModelSpec, *, kv_format: KvFormat, window_rows: int = 1) -> Iterator[Refusal]:
    """What the kernels do not compute, though the reference does."""
    if spec.head_dim not in HEAD_DIMS:
        dims = ", ".join(map(str, HEAD_DIMS))
        yield Refusal(f"device=cuda refused: head_dim={spec.head_dim}, the kernels attend in heads of {dims}; {_TWIN}")
    num_experts = max(spec.num_experts, spec.drafter.num_experts if spec.drafter else 0)
    if num_experts > MAX_EXPERTS:
        yield Refusal(
            f"device=cuda refused: num_experts={num_experts} a layer, the kernels know {MAX_EXPERTS}; {_TWIN}"
        )
    if window_rows * spec.num_experts_used > MAX_WINDOW_PAIRS:
        yield Refusal(
            f"device=cuda refused: spec={window_rows} rows of {spec.num_experts_used} experts each, the kernels "
            f"compute {MAX_WINDOW_PAIRS} pairs of both in a window; lower --spec to "
            f"{MAX_WINDOW_PAIRS // spec.num_experts_used}"
        )
    if spec.vocab_size > MAX_VOCAB:
        yield Refusal(f"device=cuda refused: vocab_size={spec.vocab_size:,}, the sampler knows {MAX_VOCAB:,}; {_TWIN}")
    if kv_format is KvFormat.F32:
        yield Refusal("device=cuda refused: kv=f32, programs on a card keep K/V as f16 or in blocks; give --kv f16")


def card_inventory(spec: ModelSpec, form: CardForm, *, context_tokens: int) -> ModelInventory:
    """What the planner is told of a model that a card holds, for a context of `context_tokens`."""
    work, inventory = card_work(spec, context_tokens=context_tokens), inventory_of(spec)
    blob_bytes = tuple(0 if blob is None else blob.size_bytes for blob in form.blobs)
    drafter = inventory.drafter
    if drafter is not None:
        weights, heads = _packed(drafter.weights, form), _packed(drafter.heads, form)
        drafter = replace(drafter, blob_bytes=blob_bytes[-1], weights=weights, heads=heads)
    return replace(
        inventory,
        weights=_packed(inventory.weights, form),
        blob_bytes=blob_bytes[: spec.num_layers],
        drafter=drafter,
        prompt_work=work.of_chunks,
        window_work=tuple(work.window.values()),
        draft_work=tuple(work.draft.values()),
    )


def _packed(items: tuple[WeightItem, ...], form: CardForm) -> tuple[WeightItem, ...]:
    return tuple(WeightItem(item.name, form.dense[item.name].size_bytes) for item in items)


def _dense_matrix(info: TensorInfo) -> CardMatrix:
    columns, rows = info.shape if len(info.shape) > 1 else (info.shape[0], 1)
    if len(info.shape) == 1 or info.name.endswith(CONV_TAPS):
        return CardMatrix(F32, rows, columns, packed_bytes(F32, rows=rows, columns=columns))
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
