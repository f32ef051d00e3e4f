"""Where a card's time goes: kernels of a prompt and of decode windows, by their share, as the engine runs them.

    python -m bench.profile_card MODEL.gguf --vram 8GiB --ctx 16512 [--prompt 4096] [--gen 33] [--host]

Times of kernels and copies are the driver's own (CUPTI); `span` is from the first one's start to the last one's end, so
what lies between `busy` and `span` are gaps. Streams overlap: `busy` may be longer. `--host` profiles Python instead:
the functions in which the host spends a prompt; its own cost makes them about twice as long.
"""

import argparse
import cProfile
import io
import pstats
from collections import defaultdict
from dataclasses import dataclass

from torch.profiler import ProfilerActivity, profile

from strata.commands.bench_engine import Engine, random_ids, started
from strata.commands.option_kinds import SIZE
from strata.config.values import DeviceChoice, Mtp, ServeConfig
from strata.planning import plan_model

SHOWN = 40


@dataclass(slots=True)
class Kernel:
    calls: int = 0
    us: float = 0.0


def profiled(engine: Engine, *, prompt: int, generated: int) -> list[str]:
    """Lines about one request."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        served = engine.serve(random_ids(engine.planned, prompt, seed=prompt), generated=generated)
    events = [event for event in seen.events() if event.device_type.name == "CUDA"]
    kernels: dict[str, Kernel] = defaultdict(Kernel)
    for event in events:
        kernels[event.name].calls += 1
        kernels[event.name].us += event.time_range.elapsed_us()
    span_us = max(event.time_range.end for event in events) - min(event.time_range.start for event in events)
    busy_us = sum(kernel.us for kernel in kernels.values())
    lines = [
        f"prompt {prompt:,}, {generated} tokens: span {span_us / 1e3:.2f} ms, busy {busy_us / 1e3:.2f} ms, first token "
        f"{served.prompt_s * 1e3:.1f} ms, {served.decode_tok_s:.1f} tok/s"
    ]
    for name, kernel in sorted(kernels.items(), key=lambda item: -item[1].us)[:SHOWN]:
        lines.append(
            f"  {kernel.us / 1e3:9.2f} ms  {kernel.calls:6d} x {kernel.us / kernel.calls:9.1f} us  {name[:72]}"
        )
    return lines


def host_profiled(engine: Engine, *, prompt: int) -> str:
    """Functions of one request, by the time in themselves and by the time in what they call."""
    profiler = cProfile.Profile()
    profiler.enable()
    served = engine.serve(random_ids(engine.planned, prompt, seed=f"host {prompt}"), generated=2)
    profiler.disable()
    text = io.StringIO()
    for order in ("tottime", "cumtime"):
        pstats.Stats(profiler, stream=text).sort_stats(order).print_stats(SHOWN)
    return (
        f"prompt {prompt:,} under the profiler of Python: first token {served.prompt_s * 1e3:.1f} ms\n{text.getvalue()}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--vram", required=True)
    parser.add_argument("--ctx", type=int, required=True)
    parser.add_argument("--prompt", type=int, default=4096)
    parser.add_argument("--gen", type=int, default=33)
    parser.add_argument("--mtp", action="store_true")
    parser.add_argument("--host", action="store_true")
    options = parser.parse_args()
    vram_bytes = int(str(SIZE.from_text(options.vram)))
    config = ServeConfig(
        options.model,
        DeviceChoice.CUDA,
        vram_bytes=vram_bytes,
        context_tokens=options.ctx,
        mtp=Mtp() if options.mtp else None,
    )
    with started(plan_model(config)) as engine:
        engine.serve(random_ids(engine.planned, 300, seed=1), generated=8)  # warms up
        print(f"ready after {engine.ready_s:.1f} s: {engine.laps}")
        if options.host:
            print(host_profiled(engine, prompt=options.prompt))
            return
        for prompt, generated in ((2, options.gen), (options.prompt, 2)):
            print("\n".join(profiled(engine, prompt=prompt, generated=generated)), flush=True)


if __name__ == "__main__":
    main()
