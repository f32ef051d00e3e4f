"""A tiny real model on the CUDA body: what the engine computes, logits included. `model_on_fake` runs the kernels in
triton's interpreter over the driver without a card, `started` whatever body it is given."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from strata.boot import digest_of
from strata.boot_card import open_card
from strata.config.values import DeviceChoice, Mtp, ServeConfig
from strata.core.errors import Refusal
from strata.core.extent import Extent
from strata.core.memory.planner import plan_card
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.launches import Recipe
from strata.core.serving.masters import block_blobs
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.cuda.device import CudaDevice
from strata.engine.runner import HasClosed, HasSampled, Runner
from strata.model.architecture import spec_of
from strata.model.card_form import card_form, card_inventory
from strata.model.gguf.model_file import open_model
from strata.model.program_reads import dense_reads
from strata.planning import PlannedModel, choose_drafter
from tests.cuda.builders import SEGMENT_BYTES
from tests.cuda.fake_driver import FakeDriver
from tests.cuda.host_views import HostViews

GREEDY = SamplingParams(temperature=0.0)


@dataclass
class ModelOnCard:
    """Since the last `serve` began, in order: `logits`, f32 [vocabulary], of every row that stood, and `drafted`, of
    the last draft before each window that had some."""

    planned: PlannedModel
    device: CudaDevice
    runner: Runner
    logits: list[torch.Tensor] = field(default_factory=list)
    drafted: list[torch.Tensor] = field(default_factory=list)

    def serve(self, ids: tuple[int, ...], *, max_tokens: int = 3, sampling: SamplingParams = GREEDY) -> list[int]:
        """Sampled ids."""
        self.logits.clear()
        self.drafted.clear()
        self.runner.begin(GenerationRequest("r", ids, max_tokens, sampling))
        sampled: list[int] = []
        seen_drafts = 0
        while not isinstance(outcome := self.runner.advance(is_cancelled=False), HasClosed):
            if not isinstance(outcome, HasSampled):
                continue
            plan, num_drafts = self.planned.plan, self.runner.draft_facts().num_drafts
            sampled += outcome.token_ids
            self.logits += self._floats(plan.verifier.window.logits, len(outcome.token_ids))
            if plan.draft is not None and num_drafts > seen_drafts:
                self.drafted += self._floats(plan.draft.draft.logits, 1)
            if len(sampled) == max_tokens:
                self.runner.end()
            else:
                seen_drafts = num_drafts
                self.runner.resume(*outcome.token_ids)
        return sampled

    def bytes_at(self, extent: Extent) -> bytes:
        return bytes(self.device._views.arena(extent).cpu().numpy())

    def _floats(self, extent: Extent, rows: int) -> list[torch.Tensor]:
        """The first rows there, f32 [vocabulary] each."""
        vocab_size = self.planned.spec.vocab_size
        data = self.device._views.arena(extent).view(torch.float32)[: rows * vocab_size]
        return list(data.view(rows, vocab_size).cpu().clone())


def plan_on_card(
    path: Path, options: PlanOptions, *, arena_bytes: int, segment_bytes: int = SEGMENT_BYTES, mtp: Mtp | None = None
) -> PlannedModel:
    config = ServeConfig(
        str(path), DeviceChoice.CUDA, vram_bytes=arena_bytes, vram_segment_bytes=segment_bytes, mtp=mtp
    )
    file = open_model(path)
    spec = choose_drafter(config, file, spec_of(file))
    inventory = card_inventory(spec, card_form(spec), context_tokens=options.context_tokens)
    plan = plan_card(inventory, arena_bytes, options)
    assert not isinstance(plan, Refusal), plan
    return PlannedModel(config, file, spec, plan)


def block_is_home(model: ModelOnCard) -> bool:
    """Whether every byte of the drafter's experts on the card is the pack's. There must be some."""
    plan, device = model.planned.plan, model.device
    assert plan.pack.block
    return all(
        model.bytes_at(extent) == bytes(device.host(home))
        for extent, home in zip(block_blobs(plan), plan.pack.block, strict=True)
    )


@contextmanager
def model_on_fake(
    path: Path,
    options: PlanOptions,
    *,
    arena_bytes: int = 128 * SEGMENT_BYTES,
    is_touched: bool = True,
    mtp: Mtp | None = None,
    terminators: tuple[int, ...] = (),
    **facts: Any,
) -> Iterator[ModelOnCard]:
    """Started and idle; afterwards nothing of the card is kept. `facts` of the fake driver; reads are cut behind
    `terminators`, and replies go on."""
    torch.set_num_threads(1)
    planned = plan_on_card(path, options, arena_bytes=arena_bytes, mtp=mtp)
    fake = FakeDriver(**facts)
    try:
        device = open_card(planned, api=fake, make_views=HostViews, torch_device="cpu", lock_folder=path.parent)
        with started(planned, device, is_touched=is_touched, terminators=terminators) as model:
            yield model
        assert fake.leftovers() == {}
    finally:
        fake.close()


@contextmanager
def started(
    planned: PlannedModel, device: CudaDevice, *, is_touched: bool, terminators: tuple[int, ...] = ()
) -> Iterator[ModelOnCard]:
    """A runner over `device`, which is closed in the end."""
    try:
        recipe = Recipe(planned.plan, dense_reads(planned.spec))
        runner = Runner(device, recipe, terminators, pause=lambda: None, is_touched=is_touched, digest=digest_of)
        runner.start()
        yield ModelOnCard(planned, device, runner)
    finally:
        device.close()
