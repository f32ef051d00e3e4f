"""How many planted bugs the worlds find, each in a process of its own, within a budget for all of them together.

Short turns first: what dies at once costs little, and what is left shares the rest of the time. Turns are processor
time, so that they hold as many worlds beside other work as on a quiet machine. A bug counts as found only if its line
ran. One that was not found is *triggered* when some world did something else than it does without it.
"""

import ctypes
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fuzz.child import Task, work
from fuzz.planted import ROOT, Mutant

TURN_SECONDS = (0.7, 1.5, 3.0, 6.0, 12.0, 30.0, 90.0)
NUM_DIGESTS = 20
FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["fuzz.ahead"])
PR_SET_PDEATHSIG = 1
START_SECONDS = 120.0
"""What a process may take beside its turn before it is given up."""
MINUTES = (1, 2, 5, 10)
NOT_JUDGED = "NotJudged"
"""The kind of a bug that does not fit its module, or whose process ended without a report."""


@dataclass(slots=True)
class Verdict:
    """`runs` and `seconds` of processor time until the bug was found, or in all. `found_after`: seconds since the
    measurement began that it would have taken with nobody else on the cores: processor time of all bugs so far, a core.
    """

    name: str
    source: str
    reached: bool = False
    triggered: bool = False
    detected: bool = False
    runs: int = 0
    seconds: float = 0.0
    found_after: float | None = None
    kind: str = ""
    message: str = ""
    equivalent: str = ""
    report: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        names = ("name", "reached", "triggered", "detected", "runs", "seconds", "kind", "source")
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        values["seconds"] = round(self.seconds, 2)
        values["found_after"] = None if self.found_after is None else round(self.found_after, 1)
        values |= {"message": self.message} if self.kind == NOT_JUDGED else {}
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
    budget = Budget(time.monotonic() + seconds, num_workers or os.cpu_count() or 1)
    verdicts = [Verdict(mutant.name, mutant.source, equivalent=mutant.equivalent) for mutant in mutants]
    with ThreadPoolExecutor(budget.num_workers) as pool:
        for turn, turn_seconds in enumerate(TURN_SECONDS):
            is_last = turn == len(TURN_SECONDS) - 1
            left = [
                (mutant, verdict)
                for mutant, verdict in zip(mutants, verdicts, strict=True)
                if not verdict.detected and (turn == 0 or not mutant.equivalent)
            ]
            if not left or budget.left_seconds <= 0.0:
                break
            if is_last:
                turn_seconds = max(turn_seconds, budget.left_seconds * budget.num_workers / len(left))
            for verdict in pool.map(partial(_turn, turn_seconds, budget, seed), left):
                if verdict.detected:
                    note(verdict)
        lives = [pair for pair in zip(mutants, verdicts, strict=True) if not pair[1].detected]
        for verdict in pool.map(partial(_look_again, seed), lives):
            note(verdict)
    return verdicts


def _look_again(seed: int, pair: tuple[Mutant, Verdict]) -> Verdict:
    """Of a bug that lives: whether it shows at all."""
    mutant, verdict = pair
    if verdict.reached:
        try:
            report = run_child([mutant.path], seed=seed, max_runs=0, digests=NUM_DIGESTS)
            verdict.triggered = report["digests"] != clean_digests(seed)
        except RuntimeError as error:
            verdict.kind, verdict.message = NOT_JUDGED, str(error)
    return verdict


@dataclass(slots=True)
class Budget:
    """Of all bugs together: when it is over, and the processor time that was used so far."""

    deadline: float
    num_workers: int
    used_seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def left_seconds(self) -> float:
        return self.deadline - time.monotonic()

    def use(self, cpu_seconds: float) -> float:
        """Gives how long a quiet machine would have taken until now."""
        with self._lock:
            self.used_seconds += cpu_seconds
            return self.used_seconds / self.num_workers


def shares_within(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Of the bugs that can show: the share found in so many minutes, by `found_after`."""
    can_show = [verdict for verdict in verdicts if not verdict.equivalent]
    times = [verdict.found_after for verdict in can_show if verdict.found_after is not None]
    return {f"{m} min": round(sum(at <= 60 * m for at in times) / max(1, len(can_show)), 4) for m in MINUTES}


def _turn(seconds: float, budget: Budget, seed: int, pair: tuple[Mutant, Verdict]) -> Verdict:
    mutant, verdict = pair
    left_seconds = budget.left_seconds
    if left_seconds <= 0.0:
        return verdict
    try:
        mutant.changed(mutant.module_path.read_text(encoding="utf-8"))
        next_seed = verdict.report.get("next_seed", seed)
        report = run_child([mutant.path], seed=next_seed, seconds=seconds, wall_seconds=left_seconds, is_guided=True)
    except (ValueError, OSError, RuntimeError) as error:  # a bug that cannot be planted is not one that was found
        verdict.kind, verdict.message = NOT_JUDGED, str(error)
        return verdict
    verdict.runs += report["runs"]
    verdict.seconds += report["cpu_seconds"]
    after = budget.use(report["cpu_seconds"])
    verdict.reached = verdict.reached or report["reached"]
    verdict.detected = report["detected"] and verdict.reached
    verdict.triggered = verdict.detected
    verdict.found_after = after if verdict.detected else None
    verdict.kind, verdict.message = report.get("kind", ""), report.get("message", "")
    verdict.report = report
    return verdict


def run_child(mutants: Sequence[Path], **options: Any) -> dict[str, Any]:
    """The report of a process of its own on a `Task` with these bugs. Raises RuntimeError when it does not give one."""
    task = Task(mutants, **options)
    _start_server()
    reader, writer = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_report, args=(task, writer), daemon=True)
    process.start()
    writer.close()
    report: dict[str, Any] | str = f"no report within {task.wall_seconds + START_SECONDS:.0f} s"
    try:
        if reader.poll(task.wall_seconds + START_SECONDS):
            report = reader.recv()
    except (EOFError, OSError):
        report = "its process ended without a report"
    finally:
        reader.close()
        if isinstance(report, str):  # there is nothing more to wait for, and ctrl-C ends it too
            process.kill()
        process.join()
    if isinstance(report, str):
        raise RuntimeError(f"{' and '.join(path.stem for path in mutants) or 'no bug'}: {report}")
    return report


@cache
def _start_server() -> None:
    """What processes are forked from; Python 3.11 tells it of no path but this, and it must find our modules."""
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])):
        ensure_running()


def _report(task: Task, writer: Connection) -> None:
    """In the process itself: it ends with the one that it was forked from, and so with whoever asked."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked ends it
    try:
        with open(os.devnull, "w") as quiet, redirect_stdout(quiet):
            report: dict[str, Any] | str = work(task)
    except BaseException:
        report = traceback.format_exc()
    with suppress(BrokenPipeError):  # whoever asked is gone
        writer.send(report)


@cache
def clean_digests(seed: int) -> list[str]:
    digests: list[str] = run_child([], seed=seed, max_runs=0, digests=NUM_DIGESTS)["digests"]
    return digests
