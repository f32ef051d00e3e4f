"""A model in card form is the packed form of every byte in the file, whatever the pieces and threads; its sizes are
known from the header."""

import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from kernels.triton.packing import pack
from strata.core.errors import ModelError
from strata.model import packed_reader
from strata.model.architecture import spec_of
from strata.model.card_form import card_form, card_inventory
from strata.model.gguf.model_file import open_model
from strata.model.inventory import inventory_of
from strata.model.pack_reader import PackReader
from strata.model.packed_reader import PackedReader
from strata.model.spec import BlobPart, ModelSpec
from tests.fixtures.models import write_random_model
from tests.tidy.tree import ROOT

CPU = torch.device("cpu")
QUANTS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q8_0", "MXFP4")
GROWS = ("Q5_0",)


def model(folder: Path, quant: str, experts: tuple[str, str, str]) -> ModelSpec:
    """With a drafter."""
    path = write_random_model(
        folder / "m.gguf", arch="qwen3moe", quant=quant, expert_quants=experts, experts=4, nextn=1
    )
    return spec_of(open_model(path))


def packed_part(reader: PackReader, part: BlobPart, expert: int) -> bytes:
    data = np.zeros(part.size_bytes, np.uint8)
    path, offset_bytes = part.expert_sources[expert]
    reader.read_bytes(path, offset_bytes, memoryview(data))
    return packed(data, part.type_id, rows=part.rows, columns=part.columns)


def packed(data: NDArray[np.uint8], type_id: int, *, rows: int, columns: int) -> bytes:
    return pack(torch.from_numpy(data), type_id, rows=rows, columns=columns).numpy().tobytes()


@pytest.mark.parametrize("piece_bytes", [1500, 25_000])
@pytest.mark.parametrize("quant", QUANTS)
def test_every_matrix_is_packed_and_every_vector_is_f32(
    quant: str, piece_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces of a few rows, and of some experts."""
    monkeypatch.setattr(packed_reader, "PIECE_BYTES", piece_bytes)
    spec = model(tmp_path, quant, ("Q8_0", quant, "Q5_0"))
    form = card_form(spec)
    dense = {name: bytearray(matrix.size_bytes) for name, matrix in form.dense.items()}
    blobs = [[bytearray(b"\xee" * blob.size_bytes) for _ in range(4)] for blob in form.blobs if blob is not None]
    with PackedReader(spec, form, device=CPU, num_threads=3) as reader:
        for name, target in dense.items():
            reader.read_dense(name, memoryview(target))
        for layer, row in enumerate(blobs):
            reader.read_blobs(layer=layer, targets=[memoryview(target) for target in row])
    drafter = spec.drafter
    assert drafter is not None
    with PackReader(spec) as plain:
        assert form.dense.keys() == spec.dense.keys() | drafter.dense.keys()
        for name in form.dense:
            info = spec.tensor(name)
            data = np.zeros(info.size_bytes, np.uint8)
            plain.read_dense(name, memoryview(data))
            if len(info.shape) == 1:
                expected = gguf.quants.dequantize(data, gguf.GGMLQuantizationType(info.type_id)).tobytes()
            else:
                expected = packed(data, info.type_id, rows=info.shape[1], columns=info.shape[0])
            assert bytes(dense[name]) == expected, name
        assert len(blobs) == spec.num_layers + 1
        for layer, row in enumerate(blobs):
            blob, on_card = spec.blob_of(layer), form.blobs[layer]
            assert blob is not None and on_card is not None
            for expert, target in enumerate(row):
                for part, matrix in ((blob.gate, on_card.gate), (blob.up, on_card.up), (blob.down, on_card.down)):
                    assert matrix.offset_bytes % 16 == 0
                    assert bytes(target[matrix.offset_bytes : matrix.end_bytes]) == packed_part(plain, part, expert)


@pytest.mark.parametrize("quant", QUANTS)
def test_the_planner_is_told_the_sizes_after_packing(quant: str, tmp_path: Path) -> None:
    spec = model(tmp_path, quant, (quant, quant, quant))
    in_file, on_card = inventory_of(spec), card_inventory(spec, card_form(spec), context_tokens=512)
    assert (on_card.dense_bytes > in_file.dense_bytes) == (quant in GROWS)
    assert (on_card.max_blob_bytes > in_file.max_blob_bytes) == (quant in GROWS)
    assert [item.name for item in on_card.weights] == [item.name for item in in_file.weights]
    packed, filed = on_card.drafter, in_file.drafter
    assert packed is not None and filed is not None
    assert (packed.block_bytes > filed.block_bytes) == (quant in GROWS)
    assert [item.name for item in packed.weights] == [item.name for item in filed.weights]
    assert sum(item.size_bytes for item in packed.weights) == sum(
        card_form(spec).dense[item.name].size_bytes for item in filed.weights
    )


def test_a_weight_that_the_card_form_cannot_hold_names_file_and_matrix(tmp_path: Path) -> None:
    spec = model(tmp_path, "Q8_0", ("Q5_0", "Q8_0", "Q8_0"))
    blob = spec.blobs[0]
    assert blob is not None
    path, offset_bytes = blob.gate.expert_sources[2]
    with path.open("r+b") as file:
        file.seek(offset_bytes)
        file.write(np.array([65504], np.float16).tobytes() + b"\xff" * 20)
    spec = spec_of(open_model(path))
    form = card_form(spec)
    assert form.blobs[0] is not None
    targets = [memoryview(bytearray(form.blobs[0].size_bytes)) for _ in range(4)]
    with (
        pytest.raises(ModelError, match=r"m\.gguf: 'gate of expert 2 of layer 0' cannot be packed.*Q5_0.*65,504"),
        PackedReader(spec, form, device=CPU) as reader,
    ):
        reader.read_blobs(layer=0, targets=targets)


@pytest.mark.slow
def test_sizes_need_nothing_that_computes() -> None:
    code = "import sys, strata.model.card_form; print([m for m in ('torch', 'triton', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
