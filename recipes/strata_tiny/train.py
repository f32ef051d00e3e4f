"""Trains for a span of wall time. One command: it goes on from its last checkpoint, and always ends in time.

The learning rate follows the clock, not the step count, so that a slower card only means fewer steps:

    share of peak   0 -> 1 in the first 2 %, 1 until 45 %, then straight down to 0.02 at the end
"""

import csv
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recipes.strata_tiny.model import init_weights
from recipes.strata_tiny.network import DEPTHS, Losses, Network
from recipes.strata_tiny.optimizer import Optimizer
from recipes.strata_tiny.packing import Packed, epochs
from recipes.strata_tiny.shape import TinyShape

Say = Callable[[str], None]

CHECKPOINT = "checkpoint.pt"
LOSSES = "loss.csv"
COLUMNS = ("step", "tokens", "seconds", "rate", "text", "draft_1", "draft_2", "draft_3", "balance", "grad_norm")
MAX_GRAD_NORM = 1.0
LOG_STEPS = 10


@dataclass(frozen=True, slots=True)
class Settings:
    """`minutes` of wall time, from the start of the first run on; runs that go on count on from what their checkpoint
    says. `max_steps` ends it sooner, and the learning rate follows whichever ends first. `chain_rows` of `rows` also
    train drafts 2 and 3."""

    minutes: float
    rows: int = 64
    row_tokens: int = 2048
    chain_rows: int = 8
    seed: int = 1
    compiles: bool = True
    uses_muon: bool = True
    checkpoint_seconds: float = 60.0
    max_steps: int | None = None


def rate_at(share: float) -> float:
    """The schedule. share: of the time, 0 .. 1."""
    if share < 0.02:
        return max(share / 0.02, 0.01)
    return 1.0 if share < 0.45 else max(0.02, 1.0 - 0.98 * (share - 0.45) / 0.55)


class Run:
    """Weights, optimizer and counts of a training that may go on."""

    def __init__(self, shape: TinyShape, settings: Settings, device: str) -> None:
        self.shape, self.settings, self.device = shape, settings, device
        self.dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
        fresh = init_weights(shape, seed=settings.seed)
        self.weights = {name: value.to(device).requires_grad_() for name, value in fresh.items()}
        self.optimizer = Optimizer(self.weights, uses_muon=settings.uses_muon)
        self.step, self.seconds, self.rate_scale = 0, 0.0, 1.0

    def network(self, *, compiles: bool) -> Network:
        return Network(self.shape, self.weights, dtype=self.dtype, compiles=compiles, tokens=self.settings.row_tokens)

    def save(self, folder: Path) -> None:
        part = folder / "checkpoint.part"
        state = {
            "shape": asdict(self.shape),
            "weights": {name: value.detach() for name, value in self.weights.items()},
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "rate_scale": self.rate_scale,
        }
        torch.save(state, part)
        part.replace(folder / CHECKPOINT)

    def load(self, folder: Path) -> None:
        state = torch.load(folder / CHECKPOINT, map_location=self.device, weights_only=True)
        assert state["shape"] == asdict(self.shape), f"{folder / CHECKPOINT} is of another shape"
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds, self.rate_scale = state["step"], state["seconds"], state["rate_scale"]


def load_weights(folder: Path, device: str) -> tuple[TinyShape, dict[str, Tensor]]:
    """What a training left, float32."""
    state = torch.load(folder / CHECKPOINT, map_location=device, weights_only=True)
    return TinyShape(**state["shape"]), state["weights"]


def train(folder: Path, packed: Packed, shape: TinyShape, settings: Settings, device: str, say: Say) -> None:
    """Until the time is over. Leaves checkpoint.pt and loss.csv in `folder`."""
    began_s = time.monotonic()
    torch.set_float32_matmul_precision("high")
    run = Run(shape, settings, device)
    if (folder / CHECKPOINT).exists():
        run.load(folder)
        _forget_rows_behind(folder, run.step)
        say(f"goes on from step {run.step}, {run.seconds:.0f} s")
    else:
        _write_rows(folder, [COLUMNS], "w")
        run.save(folder)
    batches = Batches(packed, settings, device)
    network = _warmed_up(run, batches, say)
    Clocked(folder, run, network, batches, settings, say, began_s).until_the_end()


class Batches:
    """Rows of ids on the device."""

    def __init__(self, packed: Packed, settings: Settings, device: str) -> None:
        self.width = settings.row_tokens + DEPTHS + 1
        usable = packed.starts[packed.starts + self.width <= len(packed.ids)]
        self.ids = torch.from_numpy(packed.ids.astype("int32")).to(device)
        self.starts = torch.from_numpy(usable).to(device)
        self.offsets = torch.arange(self.width, device=device)
        self.settings, self.device = settings, device

    def from_step(self, step: int) -> Any:
        """An iterator over int64 [rows, row_tokens + DEPTHS + 1]."""
        for chosen in epochs(len(self.starts), self.settings.rows, self.settings.seed, step):
            first = self.starts[torch.from_numpy(chosen).to(self.device)]
            yield self.ids[first[:, None] + self.offsets].long()


def _warmed_up(run: Run, batches: Batches, say: Say) -> Network:
    """A network whose step has run once, compiled where that works; weights are as before."""
    ids = next(batches.from_step(0))
    for compiles in (True, False) if run.settings.compiles else (False,):
        network, began_s = run.network(compiles=compiles), time.monotonic()
        try:
            for _ in range(2):
                _losses(run, network, ids).total().backward()
                for value in run.weights.values():
                    value.grad = None
            _synchronize(run.device)
        except Exception as failure:
            if not compiles:
                raise
            say(f"does not compile here, goes on uncompiled: {type(failure).__name__}: {str(failure)[:2000]}")
            continue
        say(f"{'compiled' if compiles else 'uncompiled'} and warm after {time.monotonic() - began_s:.1f} s")
        return network
    raise AssertionError("one of the two is returned or raises")


def _losses(run: Run, network: Network, ids: Tensor) -> Losses:
    return network.losses(ids, run.settings.row_tokens, chain_rows=run.settings.chain_rows)


@dataclass
class Clocked:
    """The loop. What is measured is kept on the device and read every few steps, so that the host never waits long."""

    folder: Path
    run: Run
    network: Network
    batches: Batches
    settings: Settings
    say: Say
    began_s: float

    def until_the_end(self) -> None:
        run, settings = self.run, self.settings
        carried_s, budget_s = run.seconds, 60 * settings.minutes
        warm_s = self._elapsed(carried_s) if not run.step else 0.0
        saved_s, pending = time.monotonic(), deque[tuple[tuple[float, ...], Tensor]]()
        source = self.batches.from_step(run.step)
        while True:
            run.seconds = self._elapsed(carried_s)
            share = (run.seconds - warm_s) / max(1e-9, budget_s - warm_s)
            if settings.max_steps is not None:
                share = max(share, run.step / settings.max_steps)
            is_last = share >= 1
            if (is_last or len(pending) == LOG_STEPS) and not self._write(pending):
                source = self.batches.from_step(run.step)
            if is_last:
                break
            if not pending and time.monotonic() - saved_s > settings.checkpoint_seconds:  # what was looked at alone
                run.save(self.folder)
                saved_s = time.monotonic()
            pending.append(self._step(next(source), run.rate_scale * rate_at(share)))
        run.save(self.folder)
        self.say(f"trained {run.step} steps in {run.seconds:.0f} s")

    def _elapsed(self, carried_s: float) -> float:
        return carried_s + time.monotonic() - self.began_s

    def _step(self, ids: Tensor, rate: float) -> tuple[tuple[float, ...], Tensor]:
        run = self.run
        losses = _losses(run, self.network, ids)
        losses.total().backward()
        norm = torch.nn.utils.clip_grad_norm_(run.weights.values(), MAX_GRAD_NORM)
        run.optimizer.step(rate)
        run.step += 1
        tokens = run.step * self.settings.rows * self.settings.row_tokens
        drafts = [each.detach() for each in losses.drafts] + [losses.text.detach() * math.nan] * DEPTHS
        measured = torch.stack([losses.text.detach(), *drafts[:DEPTHS], losses.balance.detach(), norm.detach()])
        return (run.step, tokens, run.seconds, rate), measured

    def _write(self, pending: deque[tuple[tuple[float, ...], Tensor]]) -> bool:
        """Where a loss is no number the run goes back to its last checkpoint, with half the rate from there on, and the
        answer is False."""
        lines = [(*known, *measured.tolist()) for known, measured in pending]
        pending.clear()
        if any(not math.isfinite(line[4]) or not math.isfinite(line[-1]) for line in lines):
            self.say(f"the loss is no number at step {self.run.step}: back to the checkpoint, at half the rate")
            seconds, scale = self.run.seconds, self.run.rate_scale
            self.run.load(self.folder)
            _forget_rows_behind(self.folder, self.run.step)
            self.run.seconds, self.run.rate_scale = seconds, 0.5 * scale
            return False
        _write_rows(self.folder, [_spelled(line) for line in lines], "a")
        if lines and (self.run.step // LOG_STEPS) % 5 == 0:
            first, last = lines[0], lines[-1]
            speed = (last[1] - first[1]) / max(1e-9, last[2] - first[2])
            self.say(
                f"step {last[0]:.0f}  {last[2]:.0f} s  {speed / 1e6:.2f} M tok/s  rate {last[3]:.3f}  "
                f"text {last[4]:.3f}  drafts {last[5]:.3f} {last[6]:.3f} {last[7]:.3f}  balance {last[8]:.3f}"
            )
        return True


def _spelled(line: tuple[float, ...]) -> tuple[str, ...]:
    """Step and tokens are whole numbers."""
    return (*(f"{value:.0f}" for value in line[:2]), *(f"{value:.6g}" for value in line[2:]))


def _forget_rows_behind(folder: Path, step: int) -> None:
    """What a run wrote that then died before its next checkpoint."""
    with (folder / LOSSES).open(newline="") as file:
        header, *rows = list(csv.reader(file))
    _write_rows(folder, [tuple(header), *(tuple(row) for row in rows if int(row[0]) <= step)], "w")


def _write_rows(folder: Path, rows: list[tuple[Any, ...]], mode: str) -> None:
    with (folder / LOSSES).open(mode, newline="") as file:
        csv.writer(file).writerows(rows)


def _synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
