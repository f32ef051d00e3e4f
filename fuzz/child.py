"""One process with planted bugs in it: worlds from seeds until one of them fails or time is up.

Runs as `python -m fuzz.child`, and imports what it judges only after the bugs are planted. Prints one JSON object.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz.planted import load_mutant, plant
from fuzz.reach import Reach

RUN_CPU_SECONDS = 10.0
"""A run takes hundredths of a second; one that takes this long does not end."""


class Hung(AssertionError):
    """A run that does not end."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("mutants", nargs="*", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5.0, help="of processor time, the start included")
    parser.add_argument("--wall-seconds", type=float, default=3600.0, help="at most so long, whoever else computes")
    parser.add_argument("--max-runs", type=int, default=1_000_000)
    parser.add_argument("--trace", type=Path, action="append", default=[])
    parser.add_argument("--record", type=Path, help="file for the commands that the one --trace gives")
    parser.add_argument("--digests", type=int, default=0)
    parser.add_argument("--minimize", action="store_true")
    parser.add_argument("--at-once", action="store_true", help="no world whose order of completion is drawn")
    parser.add_argument("--slots-only", action="store_true", help="no world that lends more than cache slots")
    options = parser.parse_args()
    deadline = time.monotonic() + options.wall_seconds
    mutants = [load_mutant(path) for path in options.mutants]
    reach = Reach(mutants[0]) if mutants else None
    plant(mutants)
    signal.signal(signal.SIGVTALRM, _hang)
    if options.record is not None:
        report = _record(options.trace[0], options.record, options.mutants)
    else:
        report = _replay(options.trace) if options.trace else _search(options, deadline)
    if reach is not None:
        reach.stop()
        report["reached"] = reach.is_reached
    if options.digests and not report["detected"]:
        report["digests"] = _digests(options.seed, options.digests)
    report["cpu_seconds"] = time.process_time()
    json.dump(report, sys.stdout)
    return 0


def _hang(signum: int, frame: FrameType | None) -> None:
    raise Hung(f"a run took {RUN_CPU_SECONDS} s of processor time")


def _search(options: argparse.Namespace, deadline: float) -> dict[str, Any]:
    from fuzz.campaign import Tally, run_seed
    from fuzz.garbage import swept_between_worlds

    tally, runs = Tally(), 0
    with swept_between_worlds() as sweep:
        while time.process_time() < options.seconds and time.monotonic() < deadline and runs < options.max_runs:
            signal.setitimer(signal.ITIMER_VIRTUAL, RUN_CPU_SECONDS)
            failure = run_seed(
                options.seed + runs, tally, with_drawn_order=not options.at_once, with_all_loans=not options.slots_only
            )
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            runs += 1
            sweep()
            if failure is not None:
                report: dict[str, Any] = {"detected": True, "runs": runs, "steps": tally.steps, "seed": failure.seed}
                report |= {"kind": failure.kind, "message": failure.message}
                return report | ({"trace": _minimized(failure, options.mutants)} if options.minimize else {})
    return {"detected": False, "runs": runs, "steps": tally.steps}


def _minimized(failure: Any, mutants: list[Path]) -> str:
    """The trace of a failure; its note names the bug that it was found with."""
    from fuzz.minimize import minimize_failure
    from sim.world.trace import Trace, write_trace

    small = minimize_failure(failure)
    note = f"finds {' and '.join(path.stem for path in mutants)} ({small.kind})"
    return write_trace(Trace(small.geometry, small.decisions, note))


def _replay(paths: list[Path]) -> dict[str, Any]:
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


def _record(path: Path, target: Path, mutants: list[Path]) -> dict[str, Any]:
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


if __name__ == "__main__":
    raise SystemExit(main())
