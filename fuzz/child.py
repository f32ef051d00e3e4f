"""What a process does that has planted bugs: worlds from seeds until one of them fails or time is up, or kept traces.

It is forked from one that has imported everything (`strength.run_child`), and imports what it judges only after the
bugs are planted.
"""

import importlib
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz.plant import JUDGES, plant
from fuzz.planted import load_mutant
from fuzz.reach import Reach

RUN_CPU_SECONDS, RUN_WALL_SECONDS = 5.0, 60.0
"""A run takes hundredths of a second; one that computes or waits this long does not end."""


class Hung(AssertionError):
    """A run that does not end."""


@dataclass(frozen=True, slots=True)
class Task:
    """`seconds` of processor time, `wall_seconds` whoever else computes, `max_runs` worlds that are played.
    `is_guided`: worlds like those that reach the bug's line, not all from `seed` on. `digests`: of so many worlds,
    where no bug was found. `is_at_once`: no world whose order of completion is drawn; `is_slots_only`: none that lends
    more than cache slots; `record`: file for the commands that the one trace gives."""

    mutants: Sequence[Path]
    seed: int = 0
    seconds: float = 60.0
    wall_seconds: float = 600.0
    max_runs: int = 1_000_000
    is_guided: bool = False
    digests: int = 0
    traces: Sequence[Path] = ()
    is_minimizing: bool = False
    is_at_once: bool = False
    is_slots_only: bool = False
    record: Path | None = None


def work(task: Task) -> dict[str, Any]:
    """The report of `task`; nothing else may be done in the process behind it."""
    deadline = time.monotonic() + task.wall_seconds
    for number in (signal.SIGVTALRM, signal.SIGALRM):
        signal.signal(number, _hang)
    reach = Reach()
    with _bounded():
        plant([load_mutant(path) for path in task.mutants])
        for module in JUDGES:  # once more, where all must be imported anew
            importlib.import_module(module)
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
    raise Hung(f"a run took {RUN_CPU_SECONDS:.0f} s of processor time, or {RUN_WALL_SECONDS:.0f} s of anything")


@contextmanager
def _bounded() -> Iterator[None]:
    """Raises Hung in what does not end."""
    signal.setitimer(signal.ITIMER_VIRTUAL, RUN_CPU_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, RUN_WALL_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _search(task: Task, deadline: float, reach: Reach) -> dict[str, Any]:
    from fuzz.campaign import EVERYTHING, Failure, Tally, run_seed
    from fuzz.draw import geometry_that_lends
    from fuzz.garbage import swept_between_worlds
    from fuzz.guide import Guide

    tally, seed, chooser = Tally(), task.seed, Guide(reach) if task.is_guided else EVERYTHING
    with swept_between_worlds() as sweep:
        while time.process_time() < task.seconds and time.monotonic() < deadline and tally.runs < task.max_runs:
            try:
                with _bounded():
                    failure = run_seed(
                        seed,
                        tally,
                        with_drawn_order=not task.is_at_once,
                        with_all_loans=not task.is_slots_only,
                        chooser=chooser,
                    )
            except (SystemExit, KeyboardInterrupt) as error:  # the bug's own: signals of the keyboard are ignored here
                failure = Failure(seed, type(error).__name__, str(error), geometry_that_lends(), ())
            seed += 1
            sweep()
            if failure is not None:
                report: dict[str, Any] = {"detected": True, "runs": tally.runs + 1, "steps": tally.steps}
                report |= {"next_seed": seed, "seed": failure.seed, "kind": failure.kind, "message": failure.message}
                return report | ({"trace": _minimized(failure, task.mutants)} if task.is_minimizing else {})
    return {"detected": False, "runs": tally.runs, "steps": tally.steps, "next_seed": seed}


def _minimized(failure: Any, mutants: Sequence[Path]) -> str:
    """The trace of a failure; its note names the bug that it was found with. What hangs is not made small."""
    from fuzz.minimize import minimize_failure
    from sim.world.trace import Trace, write_trace

    small = failure if failure.kind == Hung.__name__ else minimize_failure(failure)
    note = f"finds {' and '.join(path.stem for path in mutants)} ({small.kind})"
    return write_trace(Trace(small.geometry, small.decisions, note))


def _replay(paths: Sequence[Path]) -> dict[str, Any]:
    from sim.world.trace import read_trace, replay

    for runs, path in enumerate(paths, 1):
        try:
            with _bounded():
                replay(read_trace(path.read_text(encoding="utf-8")))
        except Exception as error:
            return {"detected": True, "runs": runs, "kind": type(error).__name__, "message": str(error)}
    return {"detected": False, "runs": len(paths)}


def _record(path: Path, target: Path, mutants: Sequence[Path]) -> dict[str, Any]:
    """What the core asks of the card in this trace, wrong as it may be, up to where the world finds it out."""
    from sim.world.recording import record_commands
    from sim.world.trace import read_trace
    from strata.trace.command_trace import write_trace

    origin = {"decisions": path.name, "mutants": [mutant.stem for mutant in mutants]}
    trace = read_trace(path.read_text(encoding="utf-8"))
    try:
        with _bounded():
            recorded = record_commands(trace, origin)
    except Exception as error:  # there is not even a plan, so there are no commands
        return {"detected": True, "runs": 1, "kind": type(error).__name__, "message": str(error)}
    target.write_text(write_trace(recorded.commands), encoding="utf-8")
    if recorded.failure is None:
        return {"detected": False, "runs": 1}
    kind, message = type(recorded.failure).__name__, str(recorded.failure)
    return {"detected": True, "runs": 1, "kind": kind, "message": message, "is_of_world": recorded.is_of_world}


def _digests(seed: int, number: int) -> list[str]:
    """Of a world that fails, which is something else than it does without the bug, the class of what it raised."""
    from fuzz.campaign import digest_of_seed

    digests: list[str] = []
    for index in range(number):
        try:
            with _bounded():
                digests.append(digest_of_seed(seed + index))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            digests.append(type(error).__name__)
    return digests
