"""Speed of the reference ops, and of a whole model over a flat memory: no twin, no copies, no server.

    python -m bench.reference_ops [--threads N] [--model MODEL.gguf] [--repeats N]

Prints min, median and max over the repeats. `cpu` is the time of the calling thread: on a busy machine, with one
thread, it is the figure to compare; `wall` needs a quiet machine.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from gguf import GGMLQuantizationType

from kernels.reference.attention import attention
from kernels.reference.dequantize import dequantize, row_bytes
from kernels.reference.digest import digest
from kernels.reference.linear import linear, tile_rows
from kernels.reference.scratch import Scratch
from strata.core.kv import KvFormat
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from tests.kernels.quant_blocks import random_blocks
from tests.kernels.tiny_engine import TinyEngine

HIDDEN, FFN, VOCAB, HEADS, KV_HEADS, HEAD_DIM = 576, 1536, 49152, 9, 3, 64  # SmolLM2-135M
TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "Q5_1")
PROMPT_TOKENS = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--model")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} threads, {options.repeats} repeats")
    bench_dequantize(options.repeats)
    bench_linear(options.repeats)
    bench_attention(options.repeats)
    data = torch.zeros(32 << 20, dtype=torch.uint8)
    report("digest 32 MiB", lambda: digest(data), options.repeats, data.numel(), "GB/s")
    if options.model:
        bench_model(options.model, options.repeats)


def bench_dequantize(repeats: int) -> None:
    """One tile of SmolLM2's width at a time, as `linear` does it."""
    scratch = Scratch()
    for name in TYPES:
        columns = 768 if name.endswith("_K") else HIDDEN
        type_id = int(GGMLQuantizationType[name])
        size, out = tile_rows(columns) * columns, torch.empty(tile_rows(columns) * columns)
        data = weights(name, tile_rows(columns), columns)
        report(
            f"dequantize {name}", lambda d=data, t=type_id, o=out: dequantize(d, t, o, scratch), repeats, size, "Gw/s"
        )


def bench_linear(repeats: int) -> None:
    scratch = Scratch()
    shapes = (("gate", "Q4_1", HIDDEN, FFN), ("down", "Q4_1", FFN, HIDDEN), ("head", "Q8_0", HIDDEN, VOCAB))
    for what, name, columns, num_outputs in shapes:
        data, type_id = weights(name, num_outputs, columns), int(GGMLQuantizationType[name])
        for rows in (1, 16, 256) if what != "head" else (1, 8):
            x, out = torch.randn(rows, columns), torch.empty(rows, num_outputs)
            run = lambda x=x, d=data, t=type_id, o=out: linear(x, d, t, o, scratch)  # noqa: E731
            report(f"linear {what} {name} rows={rows}", run, repeats, num_outputs * columns, "Gw/s")


def bench_attention(repeats: int) -> None:
    scratch = Scratch()
    for rows, position in ((1, 255), (1, 2047), (256, 0)):
        context = position + rows
        keys, values = (torch.randn(context, KV_HEADS, HEAD_DIM).half() for _ in range(2))
        query = torch.randn(rows, HEADS, HEAD_DIM)
        out = torch.empty_like(query)
        run = lambda q=query, k=keys, v=values, o=out, p=position: attention(  # noqa: E731
            q, k, v, o, scratch, position=p, scale=0.125
        )
        report(f"attention rows={rows} position={position}", run, repeats, rows * 1e9, "rows/s")


def bench_model(path: str, repeats: int) -> None:
    """Prompt and decode through the model's programs."""
    spec = spec_of(open_model(path))
    engine = TinyEngine(
        spec, context_tokens=512, kv_format=KvFormat.F16, group_experts=max(spec.num_experts, 1), compares_bytes=False
    )
    ids = [index * 7919 % spec.vocab_size for index in range(PROMPT_TOKENS)]
    report("prompt", lambda: engine.read_prompt(ids, [PROMPT_TOKENS]), min(repeats, 3), PROMPT_TOKENS * 1e9, "tok/s")
    report("decode", lambda: engine.read_window(ids[:1], position=PROMPT_TOKENS), repeats, 1e9, "tok/s")


def weights(name: str, rows: int, columns: int) -> torch.Tensor:
    """uint8 bytes of a random [rows, columns] matrix."""
    type_id = int(GGMLQuantizationType[name])
    block_bytes = random_blocks(name, 1, 0).shape[1]
    return torch.from_numpy(random_blocks(name, rows * row_bytes(type_id, columns) // block_bytes, 0)).view(-1)


def report(what: str, run: Callable[[], object], repeats: int, amount: float, unit: str) -> None:
    """One line: milliseconds and, from the median, `amount` / 1e9 a second."""
    run()
    wall, cpu = [], []
    for _ in range(repeats):
        started, started_cpu = time.perf_counter(), time.thread_time()
        run()
        wall.append(time.perf_counter() - started)
        cpu.append(time.thread_time() - started_cpu)
    for clock, times in (("wall", wall), ("cpu", cpu)):
        middle = statistics.median(times)
        spread = " / ".join(f"{1e3 * value:.3f}" for value in (min(times), middle, max(times)))
        print(f"{what:34s} {clock:4s} {spread:>30s} ms   {amount / middle / 1e9:10.3f} {unit}")


if __name__ == "__main__":
    main()
