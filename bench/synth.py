"""A model file of a real shape with random weights: for speed and memory, where no weights can be downloaded.

    python -m bench.synth --shape qwen3moe-30b-a3b --quant q4_k [--layers N] [--nextn [--nextn-quant q8_0]] [--own-head]
        OUT.gguf

Tensors are written one after the other, so memory stays small. A quantized tensor is a stretch of a pool of random
blocks (`SynthBlocks`), from a place of its own: no two experts have the same bytes, and writing is as fast as copying.
The text that such a model gives is noise; its vocabulary is that of the test fixtures, filled up to the real size.
"""

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from tests.fixtures.gguf_file import ModelShape, add_header

SHAPES = {
    "qwen3moe-30b-a3b": ModelShape(
        architecture="qwen3moe",
        pre_tokenizer="qwen2",
        layers=48,
        hidden=2048,
        heads=32,
        kv_heads=4,
        head_dim=128,
        ffn=768,
        experts=128,
        used=8,
        vocab=151_936,
        context=40_960,
    ),
    "qwen3moe-tiny": ModelShape("qwen3moe", "qwen2", 2, 256, 4, 2, 64, 256, 4, 2, 320, 512),
}
QUANTS = {
    "q8_0": Type.Q8_0,
    "q4_0": Type.Q4_0,
    "q4_1": Type.Q4_1,
    "q4_k": Type.Q4_K,
    "q5_k": Type.Q5_K,
    "q6_k": Type.Q6_K,
    "iq4_xs": Type.IQ4_XS,
    "iq3_xxs": Type.IQ3_XXS,
    "iq2_xs": Type.IQ2_XS,
}

# Of a block: where its f16 factors are, and how large each must be beside the first for the weights' mean to be zero.
_FACTORS = {
    Type.Q8_0: ((0, 1.0),),
    Type.Q4_0: ((0, 1.0),),
    Type.Q4_1: ((0, 1.0), (2, -7.5)),
    Type.Q4_K: ((0, 1.0), (2, 7.5)),
    Type.Q5_K: ((0, 1.0), (2, 15.5)),
    Type.Q6_K: ((208, 1.0),),
    Type.IQ4_XS: ((0, 1.0),),
    Type.IQ3_XXS: ((0, 1.0),),
    Type.IQ2_XS: ((0, 1.0),),
}
POOL_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Tensor:
    """shape in numpy's order: ne0 is the last axis."""

    name: str
    shape: tuple[int, ...]
    kind: Type

    @property
    def size_bytes(self) -> int:
        elements, block_bytes = gguf.GGML_QUANT_SIZES[self.kind]
        return math.prod(self.shape) // elements * block_bytes


def model_tensors(shape: ModelShape, kind: Type, *, own_head: bool, nextn_kind: Type | None = None) -> Iterator[Tensor]:
    """All tensors: matrices of type `kind`, those of a NextN block of `nextn_kind`, an own output head of Q6_K, routers
    and norms of F32."""
    yield Tensor("token_embd.weight", (shape.vocab, shape.hidden), kind)
    for block in range(shape.layers + shape.nextn):
        is_nextn = block >= shape.layers
        for one in _block(shape, (nextn_kind or kind) if is_nextn else kind, is_nextn=is_nextn):
            yield replace(one, name=f"blk.{block}.{one.name}.weight")
    yield Tensor("output_norm.weight", (shape.hidden,), Type.F32)
    if own_head:
        yield Tensor("output.weight", (shape.vocab, shape.hidden), Type.Q6_K)


def _block(shape: ModelShape, kind: Type, *, is_nextn: bool) -> Iterator[Tensor]:
    hidden, query, key = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for name, size in (("attn_norm", hidden), ("attn_q_norm", shape.head_dim), ("attn_k_norm", shape.head_dim)):
        yield Tensor(name, (size,), Type.F32)
    for name, rows, columns in (
        ("attn_q", query, hidden),
        ("attn_k", key, hidden),
        ("attn_v", key, hidden),
        ("attn_output", hidden, query),
    ):
        yield Tensor(name, (rows, columns), kind)
    yield Tensor("ffn_norm", (hidden,), Type.F32)
    yield Tensor("ffn_gate_inp", (shape.experts, hidden), Type.F32)
    for role in ("gate", "up"):
        yield Tensor(f"ffn_{role}_exps", (shape.experts, shape.ffn, hidden), kind)
    yield Tensor("ffn_down_exps", (shape.experts, hidden, shape.ffn), kind)
    if is_nextn:
        yield Tensor("nextn.eh_proj", (hidden, 2 * hidden), kind)
        for name in ("enorm", "hnorm", "shared_head_norm"):
            yield Tensor(f"nextn.{name}", (hidden,), Type.F32)


class SynthBlocks:
    """Random blocks of every type and row length: weights with a mean near 0 and deviation 1 / sqrt(row length)."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._pools: dict[tuple[Type, int], NDArray[np.uint8]] = {}

    def of(self, tensor: Tensor) -> Iterator[NDArray[np.uint8]]:
        """The tensor's bytes, a piece at a time."""
        if len(tensor.shape) == 1:
            yield (1.0 + 0.1 * self._random.standard_normal(tensor.shape, np.float32)).view(np.uint8)
            return
        if tensor.kind == Type.F32:
            scale = np.float32(1.0 / math.sqrt(tensor.shape[-1]))
            yield (self._random.standard_normal(tensor.shape, np.float32) * scale).reshape(-1).view(np.uint8)
            return
        pool = self._pool(tensor.kind, tensor.shape[-1])
        first, left = int(self._random.integers(len(pool))), tensor.size_bytes
        while left:
            piece = pool[first:].reshape(-1)[:left]
            yield piece
            left -= piece.size
            first = 0

    def _pool(self, kind: Type, columns: int) -> NDArray[np.uint8]:
        """uint8 [blocks, block bytes], an odd number of blocks: experts that go round the pool come by other places."""
        if (kind, columns) not in self._pools:
            block_bytes = gguf.GGML_QUANT_SIZES[kind][1]
            blocks = (POOL_BYTES // block_bytes) | 1
            data = np.frombuffer(self._random.bytes(blocks * block_bytes), np.uint8).reshape(blocks, block_bytes).copy()
            _set_factors(data, kind, 1.0)
            deviation = float(gguf.quants.dequantize(data[:4096].reshape(-1), kind).std())
            _set_factors(data, kind, 1.0 / (deviation * math.sqrt(columns)))
            self._pools[kind, columns] = data
        return self._pools[kind, columns]


def _set_factors(blocks: NDArray[np.uint8], kind: Type, first: float) -> None:
    for offset, ratio in _FACTORS[kind]:
        blocks[:, offset : offset + 2] = np.array([first * ratio], np.float16).view(np.uint8)


def write_model(
    path: Path, shape: ModelShape, kind: Type, *, own_head: bool, nextn_kind: Type | None = None, seed: int = 0
) -> int:
    """Writes the file; returns its bytes of tensors."""
    tensors = list(model_tensors(shape, kind, own_head=own_head, nextn_kind=nextn_kind))
    blocks = SynthBlocks(seed)
    writer = gguf.GGUFWriter(path, shape.architecture)
    add_header(writer, shape)
    for one in tensors:
        byte_shape = gguf.quant_shape_to_byte_shape(one.shape, one.kind) if one.kind in _FACTORS else one.shape
        dtype = np.dtype(np.uint8 if one.kind in _FACTORS else np.float32)
        writer.add_tensor_info(one.name, byte_shape, dtype, one.size_bytes, raw_dtype=one.kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("r+b") as file:
        file.seek(0, 2)
        for one in tensors:
            file.write(b"\0" * (-file.tell() % writer.data_alignment))
            for piece in blocks.of(one):
                file.write(piece)
        file.write(b"\0" * (-file.tell() % writer.data_alignment))
    return sum(one.size_bytes for one in tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--quant", choices=QUANTS, required=True)
    parser.add_argument("--layers", type=int, help="fewer layers than the shape has")
    parser.add_argument("--nextn", action="store_true", help="one NextN block behind the trunk")
    parser.add_argument("--nextn-quant", choices=QUANTS, help="of that block (default: as --quant)")
    parser.add_argument("--own-head", action="store_true", help="an output head that is not the token embedding")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    shape = SHAPES[options.shape]
    shape = replace(shape, layers=options.layers or shape.layers, nextn=int(options.nextn))
    started = time.perf_counter()
    nextn_kind = QUANTS[options.nextn_quant or options.quant]
    size_bytes = write_model(
        options.out, shape, QUANTS[options.quant], own_head=options.own_head, nextn_kind=nextn_kind
    )
    seconds = time.perf_counter() - started
    print(f"{options.out}: {size_bytes:,} B of tensors in {seconds:.1f} s, {size_bytes / seconds / 1e9:.2f} GB/s")


if __name__ == "__main__":
    main()
