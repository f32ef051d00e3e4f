"""Random quantized bytes whose scales are ordinary numbers: any bit pattern is a valid block, but not a finite one."""

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

# Where a block keeps half-precision numbers: a random pattern there may be infinite or NaN.
_HALF_OFFSETS = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ2_XXS": (0,),
    "IQ2_XS": (0,),
    "IQ2_S": (0,),
    "IQ3_XXS": (0,),
    "IQ3_S": (0,),
    "IQ1_S": (0,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
}


def random_blocks(type_name: str, num_blocks: int, seed: int) -> np.ndarray:
    """uint8 [num_blocks, block bytes]."""
    rng = np.random.default_rng(seed)
    elements, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[type_name]]
    if type_name in ("F32", "F16"):
        values = rng.standard_normal(num_blocks * elements).astype(np.float32 if type_name == "F32" else np.float16)
        return values.view(np.uint8).reshape(num_blocks, block_bytes)
    blocks = rng.integers(0, 256, (num_blocks, block_bytes), dtype=np.uint8)
    if type_name == "BF16":
        blocks[:, 1] &= 0xBF  # exponents below the infinite one
    if type_name == "MXFP4":
        blocks[:, 0] %= 200  # 2^(e - 128) times 12 stays finite
    if type_name == "IQ1_M":
        blocks[:, 55] &= 0xBF  # its half's top nibble lies in the last byte of the scales
    for offset in _HALF_OFFSETS.get(type_name, ()):
        halves = (rng.standard_normal(num_blocks) * 0.05).astype(np.float16)
        blocks[:, offset : offset + 2] = halves.view(np.uint8).reshape(num_blocks, 2)
    return blocks
