"""A tiny real model on the twin with bytes, without a server: what the engine computes, logits included."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from sim.bytes import BytesPayload
from sim.device import Faults, SimDevice, describe_twin
from strata.boot import digest_of, fill_pack
from strata.config.values import Mtp, ServeConfig
from strata.core.errors import Refusal
from strata.core.memory.planner import plan_card
from strata.core.memory.shapes import PlanOptions
from strata.core.programs import SAMPLE, SAMPLED_WORD, SampleArgs
from strata.core.serving.checkpoints import parked_space_bytes
from strata.core.serving.launches import Recipe
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.device import Memory, Program
from strata.engine.runner import HasClosed, HasSampled, Runner
from strata.manifest import pack_manifest
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.inventory import inventory_of
from strata.model.program_reads import dense_reads
from strata.model.programs.build import build_programs
from strata.planning import PlannedModel, choose_drafter

SEGMENT_BYTES = 1024 * 1024
GREEDY = SamplingParams(temperature=0.0)
ChangePrograms = Callable[[dict[str, Program]], dict[str, Program]]


@dataclass
class RealCard:
    """`logits`: bytes of every window's rows that stood, in order, since the last `serve` began. `terminators` end a
    reply, and are its last token then."""

    planned: PlannedModel
    device: SimDevice
    runner: Runner
    logits: list[bytes] = field(default_factory=list)
    terminators: tuple[int, ...] = ()
    cached_tokens: int = 0  # of the last request

    def serve(
        self,
        ids: tuple[int, ...],
        *,
        max_tokens: int = 3,
        cancel_after_steps: int | None = None,
        sampling: SamplingParams = GREEDY,
    ) -> list[int]:
        """Sampled ids; the logits they came from are in `logits`."""
        self.logits.clear()
        self.cached_tokens = self.runner.begin(GenerationRequest("r", ids, max_tokens, sampling))
        sampled: list[int] = []
        num_steps = 0
        while True:
            num_steps += 1
            is_cancelled = cancel_after_steps is not None and num_steps > cancel_after_steps
            outcome = self.runner.advance(is_cancelled=is_cancelled)
            if isinstance(outcome, HasClosed):
                return sampled
            if isinstance(outcome, HasSampled):
                sampled += outcome.token_ids
                if len(sampled) == max_tokens or sampled[-1] in self.terminators:
                    self.runner.end()
                    return sampled
                self.runner.resume(*outcome.token_ids)


@contextmanager
def real_card(
    path: Path,
    options: PlanOptions,
    *,
    arena_bytes: int = 16 * SEGMENT_BYTES,
    faults: Faults | None = None,
    mtp: Mtp | None = None,
    terminators: tuple[int, ...] = (),
    change: ChangePrograms = dict,
    heat: tuple[int, ...] = (),
) -> Iterator[RealCard]:
    """Started and idle, with the programs that `change` makes of the model's. One thread: bits must not depend on how
    many there are, and tests run beside others."""
    torch.set_num_threads(1)
    config = ServeConfig(str(path), mtp=mtp)
    file = open_model(path)
    spec = choose_drafter(config, file, spec_of(file))
    plan = plan_card(inventory_of(spec), arena_bytes, options)
    assert not isinstance(plan, Refusal), plan
    planned = PlannedModel(config, file, spec, plan)
    description = describe_twin(
        arena_bytes=arena_bytes,
        segment_bytes=options.segment_bytes or SEGMENT_BYTES,
        pack_bytes=plan.pack.size_bytes,
        pageable_pack_bytes=plan.pack.pageable_bytes,
        staging_bytes=plan.staging.size_bytes,
        behind_bytes=plan.behind_bytes,
        parked_bytes=parked_space_bytes(plan),
    )
    programs = build_programs(
        spec,
        plan.weights,
        kv_format=options.kv_format,
        context_tokens=options.context_tokens,
        arena_address=description.arena_address,
        arena_bytes=description.range_bytes,
    )
    logits: list[bytes] = []
    device = SimDevice(
        description,
        with_recorder(change(dict(programs)), logits),
        BytesPayload(description),
        manifest=pack_manifest(plan),
        faults=faults,
    )
    fill_pack(device, planned)
    device.seal()
    runner = Runner(
        device,
        Recipe(plan, dense_reads(spec)),
        terminators=terminators,
        pause=lambda: None,
        digest=digest_of,
        heat=heat,
    )
    try:
        runner.start()
        yield RealCard(planned, device, runner, logits, terminators)
    finally:
        device.close()


def with_recorder(programs: Mapping[str, Program], logits: list[bytes]) -> dict[str, Program]:
    """The same programs; `sample` notes the logits of the rows that stand, as it was given them."""

    def sample(memory: Memory, args: SampleArgs) -> None:
        row_bytes = args.window.logits.size_bytes // args.buffers.max_rows
        given = args.window.logits.part(offset_bytes=0, size_bytes=args.rows * row_bytes)
        data = bytes(memory.read(given).numpy())
        programs[SAMPLE](memory, args)
        words = memory.write(args.window.result).view(torch.int64)
        logits.extend(data[at * row_bytes : (at + 1) * row_bytes] for at in range(int(words[SAMPLED_WORD])))

    return {**programs, SAMPLE: sample}
