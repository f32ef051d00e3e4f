"""The table of types agrees with gguf-py, which does the decoding."""

import gguf
import numpy as np

from strata.model.quant_types import QUANT_TYPES, supported_names

NOT_IN_GGUF_PY = {42}  # Q2_0: ggml has it, gguf-py 0.19 does not


def test_geometry_is_ggufs() -> None:
    theirs = {int(kind): (kind.name, *gguf.GGML_QUANT_SIZES[kind]) for kind in gguf.GGMLQuantizationType}
    ours = {
        type_id: (quant.name, quant.block_elements, quant.block_bytes)
        for type_id, quant in QUANT_TYPES.items()
        if type_id not in NOT_IN_GGUF_PY
    }
    assert ours == theirs


def test_supported_is_what_gguf_py_dequantizes() -> None:
    for type_id, quant in QUANT_TYPES.items():
        if type_id in NOT_IN_GGUF_PY:
            assert not quant.is_supported
            continue
        raw = np.zeros((2, quant.row_bytes(quant.block_elements)), dtype=np.uint8)
        raw = raw.view({0: np.float32, 1: np.float16}.get(type_id, np.uint8))
        try:
            values = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(type_id))
        except NotImplementedError:
            assert not quant.is_supported, quant.name
        else:
            assert quant.is_supported, quant.name
            assert values.shape == (2, quant.block_elements)


def test_the_message_lists_every_supported_type_once() -> None:
    names = supported_names().split(", ")
    assert len(names) == len(set(names)) == sum(quant.is_supported for quant in QUANT_TYPES.values()) == 26
