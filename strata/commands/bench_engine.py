"""Requests served one by one without a server, and timed: an engine as `strata serve` starts it, driven by hand."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from strata.boot import keep_for_good, make_runner, open_device
from strata.card_speed import measure_card
from strata.commands.bench_figures import Ceilings, Served
from strata.core.errors import ConfigError
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.engine.runner import HasClosed, HasSampled, Runner, RunnerSnapshot
from strata.planning import PlannedModel

GREEDY = SamplingParams(temperature=0.0)
MATRIX_SIZE = 8192
MATRIX_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Engine:
    """Started and idle. `ready_s`: from nothing to there; `laps`: seconds of its parts."""

    planned: PlannedModel
    runner: Runner
    ready_s: float
    laps: dict[str, float]

    def serve(self, ids: tuple[int, ...], *, generated: int) -> Served:
        """A greedy reply of exactly `generated` tokens: nothing ends it earlier."""
        runner, before, began = self.runner, self.runner.snapshot(), time.perf_counter()
        read_from = runner.begin(GenerationRequest("bench", ids, generated, GREEDY))
        sampled: list[int] = []
        num_windows, first, first_s, second_s = 0, before, began, began
        while not isinstance(outcome := runner.advance(is_cancelled=False), HasClosed):
            if not isinstance(outcome, HasSampled):
                continue
            if not sampled:
                first, first_s = runner.snapshot(), time.perf_counter()
            elif num_windows == 1:
                second_s = time.perf_counter()
            sampled += outcome.token_ids
            num_windows += 1
            if len(sampled) == generated:
                break
            runner.resume(*outcome.token_ids)
        last, last_s = runner.snapshot(), time.perf_counter()
        runner.end()
        facts, drafts = runner.read_facts(), runner.draft_facts()
        return Served(
            prompt_tokens=len(ids),
            fresh_tokens=len(ids) - read_from,
            generated=len(sampled),
            prompt_s=first_s - began,
            decode_s=last_s - first_s,
            copied_bytes=_copied(first) - _copied(before),
            room_bytes=facts.room_bytes,
            chunk_tokens=facts.chunk_tokens,
            ring_slots=facts.ring_slots,
            room_slots=facts.room_slots,
            read_rows=facts.window_rows,
            num_hits=last.counts.expert_reads_hit - first.counts.expert_reads_hit,
            num_misses=last.counts.expert_reads_missed - first.counts.expert_reads_missed,
            num_windows=num_windows - 1,
            num_drafts=drafts.num_drafts,
            num_drafts_accepted=drafts.num_accepted,
            second_s=second_s - first_s,
            moved_segments=facts.moved_segments,
            home_bytes=facts.refilled_bytes + facts.room_bytes + facts.restored_bytes,
            reclaim_s=facts.reclaim_ms / 1e3,
            ids=tuple(sampled),
        )


@contextmanager
def started(planned: PlannedModel) -> Iterator[Engine]:
    """Raises ConfigError and DeviceError."""
    began = time.perf_counter()
    laps: dict[str, float] = {}
    device = open_device(planned, laps)
    try:
        runner = make_runner(planned, device, ())
        laps |= runner.start()
        keep_for_good()
        yield Engine(planned, runner, time.perf_counter() - began, laps)
    finally:
        device.close()


def random_ids(planned: PlannedModel, num_tokens: int, *, seed: int | str) -> tuple[int, ...]:
    """The same for the same seed. Text would do no better: how experts are chosen is the weights' business."""
    draw = random.Random(seed)
    return tuple(draw.randrange(planned.spec.vocab_size) for _ in range(num_tokens))


def measure_ceilings(ordinal: int = 0) -> Ceilings:
    """Of a card that nothing else uses meanwhile. Raises ConfigError where it cannot be measured."""
    speed = measure_card(ordinal)
    if isinstance(speed, str):
        raise ConfigError(f"bench refused: the card's speed cannot be measured: {speed}; see `strata doctor`")
    return Ceilings(speed.link_gb_s * 1e9, speed.hbm_gb_s * 1e9, _matrix_flops_s(torch.device("cuda", ordinal)))


def _matrix_flops_s(device: torch.device) -> float:
    """Of a bf16 product of two random square matrices; the best of MATRIX_ROUNDS."""
    a, b = (torch.randn(MATRIX_SIZE, MATRIX_SIZE, dtype=torch.bfloat16, device=device) for _ in range(2))
    times_s: list[float] = []
    for _ in range(MATRIX_ROUNDS):
        torch.cuda.synchronize(device)
        began = time.perf_counter()
        torch.mm(a, b)
        torch.cuda.synchronize(device)
        times_s.append(time.perf_counter() - began)
    del a, b
    torch.cuda.empty_cache()
    return 2 * MATRIX_SIZE**3 / min(times_s)


def _copied(snapshot: RunnerSnapshot) -> int:
    return snapshot.device.copied_to_device_bytes
