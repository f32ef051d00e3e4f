"""How many planted bugs the worlds find, each in a process of its own, within a budget for all of them together.

Short turns first: what dies at once costs little, and what is left shares the rest of the time. A bug counts as found
only if its line ran. One that was not found is *triggered* when some world did something else than it does without it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from fuzz.planted import ROOT, Mutant

TURN_SECONDS = (4.0, 10.0, 30.0, 90.0)
NUM_DIGESTS = 20
START_SECONDS = 120.0
"""What a process may take beside its turn before it is given up."""


@dataclass(slots=True)
class Verdict:
    """`runs` and `seconds` until the bug was found, or in all."""

    name: str
    source: str
    reached: bool = False
    triggered: bool = False
    detected: bool = False
    runs: int = 0
    seconds: float = 0.0
    kind: str = ""
    message: str = ""
    equivalent: str = ""
    report: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        names = ("name", "reached", "triggered", "detected", "runs", "seconds", "kind", "source")
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        values["seconds"] = round(self.seconds, 2)
        return values | ({"equivalent": self.equivalent} if self.equivalent else {})


def measure(
    mutants: Sequence[Mutant],
    *,
    seconds: float,
    seed: int = 0,
    num_workers: int | None = None,
    note: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """A verdict for each, in the order given. `note` is called whenever one is found or given up."""
    deadline = time.monotonic() + seconds
    verdicts = [Verdict(mutant.name, mutant.source, equivalent=mutant.equivalent) for mutant in mutants]
    workers = num_workers or os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        for turn, turn_seconds in enumerate(TURN_SECONDS):
            is_last = turn == len(TURN_SECONDS) - 1
            left = [
                (mutant, verdict)
                for mutant, verdict in zip(mutants, verdicts, strict=True)
                if not verdict.detected and (turn == 0 or not mutant.equivalent)
            ]
            if not left or time.monotonic() >= deadline:
                break
            if is_last:
                turn_seconds = max(turn_seconds, (deadline - time.monotonic()) * workers / len(left))
            for verdict in pool.map(partial(_turn, turn_seconds, deadline, seed), left):
                if verdict.detected or is_last:
                    note(verdict)
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        if verdict.reached and not verdict.detected:
            clean = clean_digests(seed)
            verdict.triggered = run_child([mutant.path], seed=seed, max_runs=0, digests=NUM_DIGESTS)["digests"] != clean
    return verdicts


def _turn(seconds: float, deadline: float, seed: int, pair: tuple[Mutant, Verdict]) -> Verdict:
    mutant, verdict = pair
    began = time.monotonic()
    seconds = min(seconds, deadline - began)
    if seconds <= 0.0:
        return verdict
    try:
        mutant.changed(mutant.module_path.read_text(encoding="utf-8"))
        report = run_child([mutant.path], seed=seed + verdict.runs, seconds=seconds)
    except (ValueError, OSError, RuntimeError) as error:  # a bug that cannot be planted is not one that was found
        verdict.kind, verdict.message = "NotPlanted", str(error)
        return verdict
    verdict.runs += report["runs"]
    verdict.seconds += time.monotonic() - began
    verdict.reached = verdict.reached or report["reached"]
    verdict.detected = report["detected"] and verdict.reached
    verdict.triggered = verdict.detected
    verdict.kind, verdict.message = report.get("kind", ""), report.get("message", "")
    verdict.report = report
    return verdict


def run_child(
    mutants: Sequence[Path],
    *,
    seed: int = 0,
    seconds: float = 60.0,
    max_runs: int = 1_000_000,
    digests: int = 0,
    traces: Sequence[Path] = (),
    is_minimizing: bool = False,
    is_at_once: bool = False,
    record: Path | None = None,
    is_slots_only: bool = False,
) -> dict[str, Any]:
    """The report of one process with these bugs. `is_at_once`: bytes change as commands are submitted, so that nothing
    but the twin's checks can find what is out of order; `is_slots_only`: no world lends more than cache slots. Raises
    RuntimeError when it does not give one."""
    command = [sys.executable, "-m", "fuzz.child", "--seed", str(seed), "--seconds", str(seconds)]
    command += ["--max-runs", str(max_runs), "--digests", str(digests)]
    command += ["--minimize"] * is_minimizing + ["--at-once"] * is_at_once
    command += [] if record is None else ["--record", str(record)]
    command += ["--slots-only"] * is_slots_only
    command += [part for trace in traces for part in ("--trace", str(trace))] + [str(path) for path in mutants]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds + START_SECONDS, check=False
    )
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{process.stderr}")
    report: dict[str, Any] = json.loads(process.stdout)
    return report


@cache
def clean_digests(seed: int) -> list[str]:
    digests: list[str] = run_child([], seed=seed, max_runs=0, digests=NUM_DIGESTS)["digests"]
    return digests
