"""Speed of the twin without a server: one prompt read, one reply decoded, several times over. Prints one JSON object.

    python -m bench.decode_twin MODEL.gguf --threads 1 --prompt 256 --tokens 16 --repeats 5

Decode counts the tokens after the first: the first one's window belongs to the prompt's time. Beside a busy neighbour
the figures mean nothing, which is why the load is printed with them.
"""

import argparse
import json
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import torch

from strata.boot import make_runner, open_twin
from strata.config.values import Mtp, ServeConfig
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.engine.runner import HasClosed, HasSampled, Runner
from strata.planning import plan_model


@dataclass(frozen=True, slots=True)
class Speeds:
    """Tokens a second of one request, and the share of its drafts that was accepted (0 without drafts)."""

    prompt: float
    decode: float
    accepted: float


def main() -> None:
    options = _options()
    trace = str(Path(gettempdir()) / "decode-twin-trace.jsonl") if options.trace else None
    mtp = Mtp() if options.spec > 1 else None
    planned = plan_model(
        ServeConfig(
            str(options.model), context_tokens=options.context, trace_file=trace, mtp=mtp, spec_rows=options.spec
        )
    )
    device = open_twin(planned)
    torch.set_num_threads(options.threads)
    runner = make_runner(planned, device, ())
    runner.start()
    prompts = [prompt_of(options.prompt, seed, planned.spec.vocab_size) for seed in range(1, options.repeats + 1)]
    # The first request fills the expert cache and the working buffers.
    measure(runner, prompt_of(33, seed=0, vocab_size=planned.spec.vocab_size), num_tokens=2)
    rounds = [measure(runner, prompt, options.tokens) for prompt in prompts]
    device.close()
    found = {name: [getattr(each, name) for each in rounds] for name in ("prompt", "decode")}
    summary = {f"{name}_tok_s": _min_median_max(speeds) for name, speeds in found.items()}
    summary["accepted_drafts"] = _min_median_max([each.accepted for each in rounds])
    settings = {name: value for name, value in vars(options).items() if name != "model"}
    print(json.dumps({"model": options.model.name, **settings, "load_1min": os.getloadavg()[0], **summary}))


def prompt_of(num_tokens: int, seed: int, vocab_size: int) -> tuple[int, ...]:
    """Made-up ids. No two seeds share a beginning that a session could have kept."""
    return tuple((seed * 131 + index * 7919) % min(30_000, vocab_size) for index in range(num_tokens))


def measure(runner: Runner, prompt: tuple[int, ...], num_tokens: int) -> Speeds:
    """Reads the prompt and decodes greedily, on a runner that has started and is idle."""
    begun, times, num_sampled = time.perf_counter(), list[float](), 0
    num_cached = runner.begin(GenerationRequest("bench", prompt, num_tokens, SamplingParams(temperature=0.0)))
    assert num_cached == 0, num_cached
    while not isinstance(outcome := runner.advance(is_cancelled=False), HasClosed):
        if isinstance(outcome, HasSampled):
            times.append(time.perf_counter())
            num_sampled += len(outcome.token_ids)
            if num_sampled < num_tokens:
                runner.resume(*outcome.token_ids)
            else:
                runner.end()
    drafts = runner.draft_facts()
    accepted = drafts.num_accepted / drafts.num_drafts if drafts.num_drafts else 0.0
    return Speeds(len(prompt) / (times[0] - begun), (num_tokens - 1) / (times[-1] - times[0]), accepted)


def _min_median_max(values: list[float]) -> list[float]:
    return [round(each, 2) for each in (min(values), statistics.median(values), max(values))]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=16, help="tokens of the reply, 2 or more")
    parser.add_argument("--context", type=int, default=2048, help="tokens that K/V is laid out for")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--spec", type=int, default=1, help="rows of a window; 2 or more: with the model's drafter")
    parser.add_argument("--trace", action="store_true", help="keep the tail of a trace, as serve --trace does")
    return parser.parse_args()


if __name__ == "__main__":
    main()
