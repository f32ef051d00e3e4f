"""A tiny real model on the CUDA body: what the engine computes, logits included. `model_on_fake` runs the kernels in
triton's interpreter over the driver without a card, `started` whatever body it is given."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from strata.boot_card import open_card
from strata.config.values import DeviceChoice, ServeConfig
from strata.core.errors import Refusal
from strata.core.memory.planner import plan_card
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.launches import Recipe
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.cuda.device import CudaDevice
from strata.engine.runner import HasClosed, HasSampled, Runner
from strata.model.architecture import spec_of
from strata.model.card_form import card_form, card_inventory
from strata.model.gguf.model_file import open_model
from strata.model.program_reads import dense_reads
from strata.planning import PlannedModel
from tests.cuda.builders import SEGMENT_BYTES
from tests.cuda.fake_driver import FakeDriver
from tests.cuda.host_views import HostViews

GREEDY = SamplingParams(temperature=0.0)


@dataclass
class ModelOnCard:
    """`logits`: f32 [vocabulary] of every window since the last `serve` began, in order."""

    planned: PlannedModel
    device: CudaDevice
    runner: Runner
    logits: list[torch.Tensor] = field(default_factory=list)

    def serve(self, ids: tuple[int, ...], *, max_tokens: int = 3, sampling: SamplingParams = GREEDY) -> list[int]:
        """Sampled ids."""
        self.logits.clear()
        self.runner.begin(GenerationRequest("r", ids, max_tokens, sampling))
        sampled: list[int] = []
        while not isinstance(outcome := self.runner.advance(is_cancelled=False), HasClosed):
            if not isinstance(outcome, HasSampled):
                continue
            sampled.append(outcome.token_id)
            self.logits.append(self._last_logits())
            if len(sampled) == max_tokens:
                self.runner.end()
            else:
                self.runner.resume(outcome.token_id)
        return sampled

    def _last_logits(self) -> torch.Tensor:
        logits = self.device._views.arena(self.planned.plan.verifier.window.logits)
        return logits.view(torch.float32)[: self.planned.spec.vocab_size].cpu().clone()


def plan_on_card(
    path: Path, options: PlanOptions, *, arena_bytes: int, segment_bytes: int = SEGMENT_BYTES
) -> PlannedModel:
    file = open_model(path)
    spec = spec_of(file)
    inventory = card_inventory(spec, card_form(spec), context_tokens=options.context_tokens)
    plan = plan_card(inventory, arena_bytes, options)
    assert not isinstance(plan, Refusal), plan
    config = ServeConfig(str(path), DeviceChoice.CUDA, vram_bytes=arena_bytes, vram_segment_bytes=segment_bytes)
    return PlannedModel(config, file, spec, plan)


@contextmanager
def model_on_fake(
    path: Path,
    options: PlanOptions,
    *,
    arena_bytes: int = 128 * SEGMENT_BYTES,
    is_touched: bool = True,
    **facts: Any,
) -> Iterator[ModelOnCard]:
    """Started and idle; afterwards nothing of the card is kept. `facts` of the fake driver."""
    torch.set_num_threads(1)
    planned = plan_on_card(path, options, arena_bytes=arena_bytes)
    fake = FakeDriver(**facts)
    try:
        device = open_card(planned, api=fake, make_views=HostViews, torch_device="cpu", lock_folder=path.parent)
        with started(planned, device, is_touched=is_touched) as model:
            yield model
        assert fake.leftovers() == {}
    finally:
        fake.close()


@contextmanager
def started(planned: PlannedModel, device: CudaDevice, *, is_touched: bool) -> Iterator[ModelOnCard]:
    """A runner over `device`, which is closed in the end."""
    try:
        recipe = Recipe(planned.plan, dense_reads(planned.spec))
        runner = Runner(device, recipe, terminators=(), pause=lambda: None, is_touched=is_touched)
        runner.start()
        yield ModelOnCard(planned, device, runner)
    finally:
        device.close()
