"""`python -m fuzz`: worlds from seeds, planted bugs, and traces, on the command line."""

import argparse
import json
import math
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fuzz.campaign import Failure, Tally, run_campaign
from fuzz.minimize import minimize_failure
from fuzz.pairs import Coverage, cover
from fuzz.planted import MUTANTS, Mutant, load_mutants
from fuzz.sometimes import never_held
from fuzz.strength import NOT_JUDGED, Verdict, measure, run_child, shares_within
from sim.world.pairs import Pair
from sim.world.trace import Trace, read_trace, replay, write_trace
from strata.trace.jsonl import TraceError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="worlds from seeds, until time is up; exit code 1 when one of them fails")
    run.add_argument("--seconds", type=_seconds, default=60.0, help="of the whole campaign (default: %(default)s)")
    run.add_argument("--seed", type=int, default=0, help="of the first world; the next one has the next number")
    run.add_argument("--max-failures", type=_count, default=5, help="stop at so many (default: %(default)s)")
    run.add_argument("--traces", type=Path, help="folder for a minimized trace of each failure")
    run.add_argument("--json", action="store_true", help="one JSON object, with every pair that was seen")
    mutants = commands.add_parser("mutants", help="planted bugs; exit code 1 when one that can show lives")
    mutants.add_argument("--seconds", type=_seconds, default=600.0, help="for all of them together")
    mutants.add_argument("--mutants", type=_folder, default=MUTANTS, help="folder of planted bugs, see fuzz/planted.py")
    mutants.add_argument("--seed", type=int, default=0, help="of each bug's first world")
    mutants.add_argument("--workers", type=_count, help="processes at a time (default: one a core)")
    mutants.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="this bug, a file's name in the folder"
    )
    mutants.add_argument("--traces", type=Path, help="folder for a minimized trace of each bug that is found")
    mutants.add_argument("--json", action="store_true", help="one JSON object")
    rules = commands.add_parser(
        "rules", help="worlds under Hypothesis, one decision a rule; exit code 1 when one fails"
    )
    rules.add_argument("--seconds", type=_seconds, default=60.0, help="of all worlds (default: %(default)s)")
    rules.add_argument("--seed", type=int, default=0, help="of the first turn of worlds")
    rules.add_argument("--rules-a-world", type=_count, default=100, metavar="N", help="at most (default: %(default)s)")
    rules.add_argument("--json", action="store_true", help="one JSON object")
    again = commands.add_parser("replay", help="one trace; exit code 1 when it fails, 2 for a file that is none")
    again.add_argument("trace", type=Path)
    record = commands.add_parser("record", help="the commands that the core gives in one trace of decisions")
    record.add_argument("trace", type=Path)
    record.add_argument("out", type=Path, help="file for them; strata replay plays it")
    record.add_argument("--mutant", type=_file, action="append", default=[], help="with this planted bug")
    options = parser.parse_args(arguments)
    return _COMMANDS[options.command](options)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no time to fuzz; give seconds above 0")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or (count := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of 1 or more")
    return count


def _folder(text: str) -> Path:
    if not (path := Path(text)).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder; give one that is there")
    return path


def _file(text: str) -> Path:
    if not (path := Path(text)).is_file():
        raise argparse.ArgumentTypeError(f"{text} is no file; give one that is there")
    return path


def _run(options: argparse.Namespace) -> int:
    began, cpu = time.monotonic(), time.process_time()
    deadline = began + options.seconds

    def is_over(tally: Tally) -> bool:
        return bool(time.monotonic() >= deadline or len(tally.failures) >= options.max_failures)

    tally = run_campaign(options.seed, is_over)
    used = time.process_time() - cpu
    coverage = cover(tally.pairs)
    report = {
        "seed": options.seed,
        "seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(used, 2),
        "runs": tally.runs + len(tally.failures),
        "steps": tally.steps,
        "steps_per_s": round(tally.steps / used),
        "decisions": tally.decisions,
        "failures": [_describe(failure) for failure in tally.failures],
        "sometimes": dict(sorted(tally.sometimes.items())),
        "never": never_held(tally.sometimes),
        "pairs": _describe_pairs(coverage, tally.pairs, is_whole=options.json),
    }
    _print(report, is_json=options.json)
    if options.traces is not None:
        options.traces.mkdir(parents=True, exist_ok=True)
        for failure in tally.failures:
            small = minimize_failure(failure)
            path = options.traces / f"seed-{failure.seed}.jsonl"
            path.write_text(write_trace(Trace(small.geometry, small.decisions, small.kind)), encoding="utf-8")
    return 1 if tally.failures or coverage.contradicted else 0


def _describe_pairs(coverage: Coverage, counts: Mapping[Pair, int], *, is_whole: bool) -> dict[str, Any]:
    """Ordering pairs: how many there are of each sort, and with `is_whole` which."""
    report: dict[str, Any] = {
        "seen": len(coverage.seen),
        "missing": [str(pair) for pair in coverage.missing],
        "impossible": {reason: len(pairs) for reason, pairs in coverage.impossible.items()},
        "contradicted": [str(pair) for pair in coverage.contradicted],
    }
    if is_whole:
        report["seen"] = {str(pair): counts[pair] for pair in coverage.seen}
        report["impossible"] = {reason: list(map(str, pairs)) for reason, pairs in coverage.impossible.items()}
    return report


def _describe(failure: Failure) -> dict[str, Any]:
    return {"seed": failure.seed, "kind": failure.kind, "message": failure.message}


def _mutants(options: argparse.Namespace) -> int:
    try:
        planted = load_mutants(options.mutants)
    except ValueError as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 2
    unknown = sorted(set(options.only) - {mutant.name for mutant in planted})
    if unknown:
        print(f"fuzz: --only={unknown[0]} is no planted bug of {options.mutants}; name a file there", file=sys.stderr)
        return 2
    chosen = [mutant for mutant in planted if not options.only or mutant.name in options.only]

    def note(verdict: Verdict) -> None:
        if options.json:
            return
        if verdict.kind == NOT_JUDGED:
            print(f"not judged {verdict.name}: {verdict.message}", flush=True)
        else:
            word = f"found ({verdict.kind})" if verdict.detected else "lives"
            shows = "triggered" if verdict.triggered else "reached" if verdict.reached else "never reached"
            print(f"{word} {verdict.name}: {verdict.runs} runs, {verdict.seconds:.1f} s, {shows}", flush=True)

    began = time.monotonic()
    verdicts = measure(chosen, seconds=options.seconds, seed=options.seed, num_workers=options.workers, note=note)
    not_judged = [verdict.name for verdict in verdicts if verdict.kind == NOT_JUDGED]
    alive = [v.name for v in verdicts if not v.detected and not v.equivalent and v.kind != NOT_JUDGED]
    wrong = [verdict.name for verdict in verdicts if verdict.equivalent and verdict.detected]
    report = {
        "mutants": [verdict.to_json() for verdict in verdicts],
        "seconds": round(time.monotonic() - began, 1),
        "detected": sum(verdict.detected for verdict in verdicts),
        "equivalent": sum(bool(verdict.equivalent) for verdict in verdicts),
        "within": shares_within(verdicts),
        "alive": alive,
        "not_judged": not_judged,
        "wrongly_called_equivalent": wrong,
    }
    _print(report, is_json=options.json)
    if options.traces is not None:
        _keep_traces(options.traces, chosen, verdicts)
    return 1 if alive or wrong or not_judged else 0


def _keep_traces(folder: Path, mutants: list[Mutant], verdicts: list[Verdict]) -> None:
    """Minimizing runs where the bug is, so each is found once more from the seed that showed it."""
    folder.mkdir(parents=True, exist_ok=True)
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        if not verdict.detected:
            continue
        try:
            report = run_child([mutant.path], seed=verdict.report["seed"], max_runs=1, is_minimizing=True)
        except RuntimeError as error:
            print(f"fuzz: no trace of {mutant.name}: {error}", file=sys.stderr)
            continue
        if report["detected"]:
            (folder / f"{mutant.name}.jsonl").write_text(report["trace"], encoding="utf-8")


def _rules(options: argparse.Namespace) -> int:
    try:
        from fuzz.rules import run_rules  # Hypothesis belongs to the tests, and no other command needs it
    except ModuleNotFoundError as error:
        print(f"fuzz: rules need {error.name}; pip install -e '.[test]'", file=sys.stderr)
        return 2
    deadline = time.monotonic() + options.seconds
    tally = run_rules(options.seed, lambda tally: time.monotonic() >= deadline, rules_a_world=options.rules_a_world)
    report = {
        "seed": options.seed,
        "cpu_seconds": round(tally.cpu_seconds, 2),
        "worlds": tally.worlds,
        "rules": tally.rules,
        "rules_per_s": round(tally.rules / tally.cpu_seconds) if tally.cpu_seconds else 0,
        "failure": tally.failure,
    }
    _print(report, is_json=options.json)
    return 1 if tally.failure else 0


def _read(path: Path) -> Trace | None:
    """The trace, or None when that was said on stderr."""
    try:
        return read_trace(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, TraceError) as error:
        print(f"fuzz: {path}: {error}; name a trace of decisions, like those of tests/regress", file=sys.stderr)
        return None


def _replay(options: argparse.Namespace) -> int:
    trace = _read(options.trace)
    if trace is None:
        return 2
    try:
        driver = replay(trace, is_recording=True)
    except AssertionError as error:
        print(f"{options.trace}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"{options.trace}: {len(trace.decisions)} decisions, {driver.num_steps} steps, commands {driver.digest()}")
    return 0


def _record(options: argparse.Namespace) -> int:
    """In a process of its own, which alone has the bug."""
    if _read(options.trace) is None:
        return 2
    try:
        report = run_child(options.mutant, traces=[options.trace], record=options.out)
    except RuntimeError as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 2
    ending = f"{report['kind']}: {report['message']}" if report["detected"] else "nothing was found"
    print(f"{options.out}: {ending}")
    return 0


_COMMANDS = {"run": _run, "mutants": _mutants, "rules": _rules, "replay": _replay, "record": _record}


def _print(report: dict[str, Any], *, is_json: bool) -> None:
    if is_json:
        print(json.dumps(report, indent=1))
        return
    for name, value in report.items():
        if name != "mutants":
            print(f"{name}: {value}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    raise SystemExit(main())
