"""How fast each pair of rotated dims turns, as one list of numbers: scale * base^(-2i/dims) / factors[i].

A card is given the list at start, so the factors of a model that has some are read from its file here."""

import gguf
import numpy as np

from strata.model.pack_reader import PackReader
from strata.model.program_reads import ROPE_FACTORS
from strata.model.spec import ModelSpec


def rope_frequencies(spec: ModelSpec) -> tuple[float, ...]:
    """One a pair. Raises ModelError as PackReader does."""
    rope = spec.rope
    exponents = np.arange(0, rope.num_dims, 2, dtype=np.float64) / rope.num_dims
    frequencies = rope.scale * rope.base**-exponents
    if ROPE_FACTORS in spec.dense:
        info = spec.dense[ROPE_FACTORS]
        data = np.empty(info.size_bytes, np.uint8)
        with PackReader(spec) as reader:
            reader.read_dense(ROPE_FACTORS, data.data)
        frequencies = frequencies / gguf.quants.dequantize(data, gguf.GGMLQuantizationType(info.type_id))
    return tuple(frequencies.tolist())
