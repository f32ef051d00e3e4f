"""What the twin says that a card should take, beside what it took: the real core over the virtual card in virtual time.

    python -m bench.predict MODEL bench.json [--pace PACE.json] [--json OUT]

bench.json is what `strata bench MODEL --json` printed: arena, context and prompts are its own. Needs the file's header
alone, no card and no torch. PACE.json is what `read_pace` reads, by default `bench/results/pace-h200.json`: figures of
a card, from `python -m bench.profile_card` and `strata doctor`. It says how long programs, copies and launches take on
the card in question; how they overlap, what waits for what and which bytes cross the link is the core's business, and
what is predicted. A token's experts are drawn evenly, as weights of no meaning choose them.
"""

import argparse
import json
import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sim.clock import Pace, ProgramPace, VirtualClock
from sim.device import SimDevice, describe_twin
from sim.scope import LaunchScope
from sim.symbolic import SymbolicPayload
from strata.config.values import DeviceChoice, ServeConfig
from strata.core import programs
from strata.core.programs import ExpertsArgs
from strata.core.serving.checkpoints import parked_space_bytes
from strata.core.serving.launches import Recipe
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.core.serving.table import resident_blobs
from strata.device import Program
from strata.engine.runner import HasClosed, HasRead, HasSampled, Runner
from strata.manifest import pack_manifest
from strata.model.program_reads import dense_reads
from strata.planning import PlannedModel, plan_model

NAMES = (
    programs.EMBED,
    programs.ATTENTION,
    programs.RECURRENT,
    programs.ROUTER,
    programs.SHARED,
    programs.EXPERTS,
    programs.COMBINE,
    programs.FFN,
    programs.HEAD,
    programs.SAMPLE,
)
PACE = Path(__file__).parent / "results" / "pace-h200.json"
TOLERANCE = 0.15
"""How far prediction and measurement may lie apart, as a share of the measurement."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Milliseconds of virtual time. `home_ms`: of `prompt_ms`, from the last chunk's end to the first token;
    `reclaim_ms`: from the order to bring home what was lent until the host knew that it was."""

    prompt_ms: float
    home_ms: float
    token_ms: float
    reclaim_ms: float = 0.0


def read_pace(path: Path) -> Pace:
    """{"programs": {name: [fixed_ns, row_ns, host_ns, context_ns]}, the last ones left out where they are none, and any
    other number of `sim.clock.Pace`}."""
    given = json.loads(path.read_text())
    paces = {name: ProgramPace(*pair) for name, pair in given.pop("programs").items()}
    given.pop("about", None)
    return Pace({name: paces.get(name, ProgramPace(0)) for name in NAMES}, **given)


class PackReads(SymbolicPayload):
    """Programs run, for what they read in the pack alone."""

    def run(self, program: Program, args: Any, scope: LaunchScope) -> None:
        view: Any = scope
        program(view, args)


class Twin:
    """An engine over the virtual card, started and idle."""

    def __init__(self, planned: PlannedModel, pace: Pace) -> None:
        plan, self.clock = planned.plan, VirtualClock(pace)
        description = describe_twin(
            arena_bytes=plan.arena_bytes,
            segment_bytes=planned.config.segment_bytes,
            pack_bytes=plan.pack.size_bytes,
            staging_bytes=plan.staging.size_bytes,
            behind_bytes=plan.behind_bytes,
            parked_bytes=parked_space_bytes(plan),
        )
        self._plan, self._payload = plan, PackReads(description)
        resident = resident_blobs(plan, plan.slots)
        arena, pack = description.arena_address, description.pack_address
        addresses = {
            (layer, expert): arena + resident[layer, expert].extent.offset_bytes
            if (layer, expert) in resident
            else pack + home.offset_bytes
            for layer, row in enumerate(plan.pack.blobs)
            for expert, home in enumerate(row)
        }
        draw, inventory = random.Random(0), plan.inventory

        def read_some_experts(scope: LaunchScope, args: ExpertsArgs) -> None:
            if args.experts is None:
                for expert in draw.sample(range(inventory.num_experts), inventory.num_experts_used):
                    scope.resolve(addresses[args.layer, expert], inventory.blob_bytes[args.layer])

        bodies: dict[str, Any] = dict.fromkeys(NAMES, lambda scope, args: None)
        bodies[programs.EXPERTS] = read_some_experts
        self._device = SimDevice(description, bodies, self._payload, manifest=pack_manifest(plan), clock=self.clock)
        self._device.seal()
        recipe = Recipe(plan, dense_reads(planned.spec))
        self._runner = Runner(self._device, recipe, (), _no_pause, clock=lambda: self.clock.times().now_ns / 1e9)
        self._runner.start()

    def predict(self, num_tokens: int, *, generated: int, first_id: int) -> Prediction:
        runner, began_ns = self._runner, self.clock.times().now_ns
        self.clock.context_tokens = 0
        ids = tuple((first_id + i) % 1000 for i in range(num_tokens))
        runner.begin(GenerationRequest("predict", ids, generated, SamplingParams(temperature=0.0)))
        read_ns = began_ns
        sampled_ns: list[int] = []
        while len(sampled_ns) < generated:
            self._play()
            outcome = runner.advance(is_cancelled=False)
            assert not isinstance(outcome, HasClosed)
            if isinstance(outcome, HasRead):
                self.clock.context_tokens = outcome.read_tokens
            if not isinstance(outcome, HasSampled):
                read_ns = self.clock.times().now_ns
                continue
            sampled_ns.append(self.clock.times().now_ns)
            runner.resume(*outcome.token_ids) if len(sampled_ns) < generated else runner.end()
        first_ns, last_ns = sampled_ns[0], sampled_ns[-1]
        token_ms = (last_ns - first_ns) / (generated - 1) / 1e6
        reclaim_ms = runner.read_facts().reclaim_ms
        return Prediction((first_ns - began_ns) / 1e6, (first_ns - read_ns) / 1e6, token_ms, reclaim_ms)

    def _play(self) -> None:
        """What the programs would have left in staging: all experts have rows, one token was sampled."""
        plan = self._plan
        counts = struct.pack(f"<{plan.inventory.num_experts}i", *(1 for _ in range(plan.inventory.num_experts)))
        self._payload.host(plan.staging.router_counts)[:] = counts
        self._payload.host(plan.staging.result)[:8] = struct.pack("<q", 7)


def _no_pause() -> None:
    """The twin has always done what was submitted."""


def compare(predicted: Prediction, measured: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """(what, predicted ms, measured ms): of the medians of one prompt of `strata bench --json`."""
    token_ms = 1e3 / measured["decode_tok_s"]["median"]
    rows = [("prompt", predicted.prompt_ms, measured["ttft_ms"]["median"]), ("token", predicted.token_ms, token_ms)]
    if "reclaim_ms" in measured:
        rows.append(("reclaim", predicted.reclaim_ms, measured["reclaim_ms"]["median"]))
    return rows


def predict_measured(model: str, pace: Pace, measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each figure of each prompt without drafts, with the link of the same run. Raises ConfigError."""
    start = measured["loans on, start"]
    config = ServeConfig(
        model, DeviceChoice.CUDA, vram_bytes=start["arena_bytes"], context_tokens=start["context_tokens"]
    )
    link = round(measured["ceilings"]["link_bytes_s"] / 1e6)
    twin = Twin(plan_model(config), replace(pace, link_bytes_per_us=link))
    rows = []
    for name, row in measured.items():
        if name.startswith("loans on, prompt "):
            tokens = row["prompt_tokens"]
            predicted = twin.predict(tokens, generated=row["generated"], first_id=1 + len(rows))
            rows += [
                {"prompt": tokens, "what": what, "twin_ms": twin_ms, "card_ms": card_ms, "off": twin_ms / card_ms - 1}
                for what, twin_ms, card_ms in compare(predicted, row)
            ]
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, a line a row; those beyond TOLERANCE stand out."""
    lines = ["| prompt | | twin | card | |", "|---|---|---|---|---|"]
    for row in rows:
        off = f"{row['off']:+.0%}"
        off = off if abs(row["off"]) <= TOLERANCE else f"**{off}**"
        lines.append(
            f"| {row['prompt']:,} | {row['what']} | {row['twin_ms']:.2f} ms | {row['card_ms']:.2f} ms | {off} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("measured", type=Path)
    parser.add_argument("--pace", type=Path, default=PACE)
    parser.add_argument("--json", type=Path, metavar="OUT", help="the rows as JSON too")
    options = parser.parse_args()
    rows = predict_measured(options.model, read_pace(options.pace), json.loads(options.measured.read_text()))
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
