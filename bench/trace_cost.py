"""What keeping a trace costs: the same requests on a twin without bytes, with --trace and without, as one JSON object.

    python -m bench.trace_cost MODEL.gguf --prompt 1024 --tokens 200 --repeats 7

Only the file's header is read. Times are of the processor, not of the clock, and the arms alternate, so a busy
neighbour does little harm. What is left is the core, the twin's checks and the recorder, whose part is the same on a
card.
"""

import argparse
import json
import struct
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import gettempdir

from sim.device import SimDevice, describe_twin
from sim.symbolic import SymbolicPayload
from strata.boot import make_runner
from strata.config.values import ServeConfig
from strata.core import programs
from strata.core.serving.checkpoints import parked_space_bytes
from strata.core.serving.request import GenerationRequest
from strata.engine.runner import HasClosed, HasSampled, Runner
from strata.manifest import pack_manifest
from strata.planning import PlannedModel, plan_model

PROGRAMS = tuple(value for name, value in vars(programs).items() if name.isupper() and isinstance(value, str))


class Arm:
    """One server's engine. `play` puts into staging what programs would have left: two experts a layer, any token."""

    def __init__(self, planned: PlannedModel) -> None:
        plan = self._plan = planned.plan
        description = describe_twin(
            arena_bytes=plan.arena_bytes,
            segment_bytes=planned.config.segment_bytes,
            pack_bytes=plan.pack.size_bytes,
            staging_bytes=plan.staging.size_bytes,
            behind_bytes=plan.behind_bytes,
            parked_bytes=parked_space_bytes(plan),
        )
        self._payload = SymbolicPayload(description)
        bodies = dict.fromkeys(PROGRAMS, lambda memory, args: None)
        self._device = SimDevice(description, bodies, self._payload, manifest=pack_manifest(plan))
        self._device.seal()
        self._runner: Runner = make_runner(planned, self._device, ())
        self._runner.start()

    def serve(self, prompt: tuple[int, ...], num_tokens: int) -> tuple[float, float, int]:
        """Processor seconds of the read, of the reply, and the commands of both."""
        num_before, begun = self._device.statistics().num_commands, time.process_time()
        first: float | None = None
        self._runner.begin(GenerationRequest("bench", prompt, num_tokens))
        num_sampled = 0
        while True:
            self._play()
            outcome = self._runner.advance(is_cancelled=False)
            if isinstance(outcome, HasSampled):
                first = time.process_time() if first is None else first
                num_sampled += 1
                if num_sampled == num_tokens:
                    self._runner.end()
                    break
                self._runner.resume(outcome.token_id)
            assert not isinstance(outcome, HasClosed)
        assert first is not None
        num_commands = self._device.statistics().num_commands - num_before
        return first - begun, time.process_time() - first, num_commands

    def _play(self) -> None:
        num_experts = self._plan.inventory.num_experts
        counts = self._payload.host(self._plan.staging.router_counts)
        counts[:] = struct.pack(f"<{num_experts}i", *(int(expert < 2) for expert in range(num_experts)))
        self._payload.host(self._plan.staging.result)[:8] = struct.pack("<q", 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--prompt", type=int, default=1024, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=200, help="tokens of the reply, 2 or more")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--trace-commands", type=int, help="entries that are kept; few, so that the oldest ones leave")
    options = parser.parse_args()
    config = ServeConfig(str(options.model), context_tokens=options.prompt + options.tokens)
    planned = plan_model(config)
    trace = str(Path(gettempdir()) / "trace-cost.jsonl")
    traced = replace(config, trace_file=trace, trace_commands=options.trace_commands)
    arms = {"off": Arm(planned), "on": Arm(replace(planned, config=traced))}
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in arms}
    for repeat in range(options.repeats + 1):
        for name, arm in arms.items():
            prompt = tuple((repeat * 131 + index * 7) % 1000 for index in range(options.prompt))
            figures = arm.serve(prompt, options.tokens)
            if repeat:  # the first one fills caches
                found[name].append(figures)
    report = {name: summary(rows, options.tokens) for name, rows in found.items()}
    print(json.dumps({"model": options.model.name, "prompt": options.prompt, "tokens": options.tokens, **report}))


def summary(rows: list[tuple[float, float, int]], num_tokens: int) -> dict[str, object]:
    reads = [1e3 * read for read, _, _ in rows]
    windows = [1e3 * reply / (num_tokens - 1) for _, reply, _ in rows]
    return {
        "commands": rows[0][2],
        "read_ms": [round(value, 2) for value in (min(reads), median(reads), max(reads))],
        "window_ms": [round(value, 3) for value in (min(windows), median(windows), max(windows))],
    }


if __name__ == "__main__":
    main()
