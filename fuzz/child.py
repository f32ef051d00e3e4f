"""What a process does that has planted bugs: worlds from seeds until one of them fails or time is up, or kept traces.

It is forked from one that has imported everything (`strength.run_child`), and imports what it judges only after the
bugs are planted.
"""

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz.plant import plant
from fuzz.planted import load_mutant
from fuzz.reach import Reach

RUN_CPU_SECONDS = 5.0
"""A run takes hundredths of a second; one that takes this long does not end."""
WHOLE_RUNS, WHOLE_EVERY = 3, 4
"""Of the worlds that do not reach the bug's line, the first few and one in so many more come to their end, which is
three fifths of the work."""


class Hung(AssertionError):
    """A run that does not end."""


@dataclass(frozen=True, slots=True)
class Task:
    """`seconds` of processor time, `wall_seconds` whoever else computes. `digests`: of so many worlds, where no bug was
    found. `is_at_once`: no world whose order of completion is drawn; `is_slots_only`: none that lends more than cache
    slots; `record`: file for the commands that the one trace gives."""

    mutants: Sequence[Path]
    seed: int = 0
    seconds: float = 60.0
    wall_seconds: float = 600.0
    max_runs: int = 1_000_000
    digests: int = 0
    traces: Sequence[Path] = ()
    is_minimizing: bool = False
    is_at_once: bool = False
    is_slots_only: bool = False
    record: Path | None = None


def work(task: Task) -> dict[str, Any]:
    """The report of `task`; nothing else may be done in the process behind it."""
    deadline = time.monotonic() + task.wall_seconds
    reach = Reach()
    plant([load_mutant(path) for path in task.mutants])
    signal.signal(signal.SIGVTALRM, _hang)
    if task.record is not None:
        report = _record(task.traces[0], task.record, task.mutants)
    else:
        report = _replay(task.traces) if task.traces else _search(task, deadline, reach)
    report["reached"] = reach.is_reached
    if task.digests and not report["detected"]:
        report["digests"] = _digests(task.seed, task.digests)
    report["cpu_seconds"] = time.process_time()
    return report


def _hang(signum: int, frame: FrameType | None) -> None:
    raise Hung(f"a run took {RUN_CPU_SECONDS} s of processor time")


def _search(task: Task, deadline: float, reach: Reach) -> dict[str, Any]:
    from fuzz.campaign import Tally, run_seed
    from fuzz.garbage import swept_between_worlds

    tally, runs = Tally(), 0
    with swept_between_worlds() as sweep:
        while time.process_time() < task.seconds and time.monotonic() < deadline and runs < task.max_runs:
            signal.setitimer(signal.ITIMER_VIRTUAL, RUN_CPU_SECONDS)
            is_whole = not task.mutants or runs < WHOLE_RUNS or (task.seed + runs) % WHOLE_EVERY == 0
            reach.forget()
            failure = run_seed(
                task.seed + runs,
                tally,
                with_drawn_order=not task.is_at_once,
                with_all_loans=not task.is_slots_only,
                is_worth_an_end=lambda: is_whole or reach.in_world,  # noqa: B023  asked within this run
            )
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            runs += 1
            sweep()
            if failure is not None:
                report: dict[str, Any] = {"detected": True, "runs": runs, "steps": tally.steps, "seed": failure.seed}
                report |= {"kind": failure.kind, "message": failure.message}
                return report | ({"trace": _minimized(failure, task.mutants)} if task.is_minimizing else {})
    return {"detected": False, "runs": runs, "steps": tally.steps}


def _minimized(failure: Any, mutants: Sequence[Path]) -> str:
    """The trace of a failure; its note names the bug that it was found with."""
    from fuzz.minimize import minimize_failure
    from sim.world.trace import Trace, write_trace

    small = minimize_failure(failure)
    note = f"finds {' and '.join(path.stem for path in mutants)} ({small.kind})"
    return write_trace(Trace(small.geometry, small.decisions, note))


def _replay(paths: Sequence[Path]) -> dict[str, Any]:
    from sim.world.trace import read_trace, replay

    for runs, path in enumerate(paths, 1):
        signal.setitimer(signal.ITIMER_VIRTUAL, RUN_CPU_SECONDS)
        try:
            replay(read_trace(path.read_text(encoding="utf-8")))
        except Exception as error:
            return {"detected": True, "runs": runs, "kind": type(error).__name__, "message": str(error)}
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return {"detected": False, "runs": len(paths)}


def _record(path: Path, target: Path, mutants: Sequence[Path]) -> dict[str, Any]:
    """What the core asks of the card in this trace, wrong as it may be, up to where the world finds it out."""
    from sim.world.recording import record_commands
    from sim.world.trace import read_trace
    from strata.trace.command_trace import write_trace

    origin = {"decisions": path.name, "mutants": [mutant.stem for mutant in mutants]}
    trace = read_trace(path.read_text(encoding="utf-8"))
    signal.setitimer(signal.ITIMER_VIRTUAL, RUN_CPU_SECONDS)
    try:
        recorded = record_commands(trace, origin)
    except Exception as error:  # there is not even a plan, so there are no commands
        return {"detected": True, "runs": 1, "kind": type(error).__name__, "message": str(error)}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    target.write_text(write_trace(recorded.commands), encoding="utf-8")
    if recorded.failure is None:
        return {"detected": False, "runs": 1}
    kind, message = type(recorded.failure).__name__, str(recorded.failure)
    return {"detected": True, "runs": 1, "kind": kind, "message": message}


def _digests(seed: int, number: int) -> list[str]:
    """Of a world that fails, which is something else than it does without the bug, the class of what it raised."""
    from fuzz.campaign import digest_of_seed

    digests: list[str] = []
    for index in range(number):
        try:
            digests.append(digest_of_seed(seed + index))
        except Exception as error:
            digests.append(type(error).__name__)
    return digests
