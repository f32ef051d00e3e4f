"""`strata replay`: a trace once more. Decisions go through the core as it is today, on the twin; commands go onto the
twin as they were given then. With --device cuda or both, the commands of either go onto a card (`replay_card.py`).

Decides what is printed and the exit code: 0 when nothing was refused, 1 with the checker's report. A file that is no
trace is refused before anything that computes is loaded.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from strata.commands.replay_card import run_on_card
from strata.commands.replay_options import ReplayOptions
from strata.commands.terminal_text import one_line
from strata.core.errors import ConfigError
from strata.sizes import format_bytes
from strata.trace.chrome import chrome_text
from strata.trace.command_trace import KIND, CommandTrace, read_trace
from strata.trace.digest import mix_digests
from strata.trace.jsonl import TraceError, read_head
from strata.trace.lines import to_line
from strata.trace.replay import Deviation, Replayed, ReplayStalled, RunDigest
from strata.trace.svg import card_picture

MAX_TRACE_BYTES = 1 << 30


def run(options: ReplayOptions) -> int:
    """The exit code. Raises ConfigError for a file that is no trace, and for one that cannot be written."""
    text = _read(options.trace)
    try:
        is_decisions = read_head(text)["kind"] != KIND
        if is_decisions:
            return _replay_decisions(text, options)
        return _replay_commands(read_trace(text), options)
    except TraceError as error:
        raise TraceError(*(f"{options.trace}: {reason}" for reason in error.reasons)) from error


def _read(path: Path) -> str:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise ConfigError(f"{path}: no trace: it is no regular file; give a file that a recorder wrote")
        size_bytes = path.stat().st_size
        if size_bytes > MAX_TRACE_BYTES:
            raise ConfigError(f"{path}: {size_bytes:,} B are no trace; at most {MAX_TRACE_BYTES:,} B are read")
        return path.read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the trace: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: no trace: it is not UTF-8") from error


def _replay_decisions(text: str, options: ReplayOptions) -> int:
    if not options.has_bytes:
        raise ConfigError(
            "--payload=none refused: a trace of decisions runs a model over real bytes; leave --payload out"
        )
    from strata.boot_replay import record_decisions

    recorded = record_decisions(text, name=options.trace.name)
    _export(recorded.commands, options)
    if options.device != "twin":
        return run_on_card(recorded.commands, options, kind="decisions", failure=recorded.failure)
    failure = recorded.failure
    report: dict[str, Any] = {
        "kind": "decisions",
        "decisions": recorded.num_decisions,
        "entries": len(recorded.commands.entries),
        "failure": None if failure is None else {"error": type(failure).__name__, "message": str(failure)},
    }
    if options.is_json:
        print(json.dumps(report, indent=2))
    elif failure is None:
        print(
            f"{options.trace}: {recorded.num_decisions} decisions, {len(recorded.commands.entries):,} entries on the "
            "twin: nothing was refused, every token was the model's, and the card is at rest"
        )
    else:
        print(f"{options.trace}: {type(failure).__name__}: {one_line(str(failure))}", file=sys.stderr)
    return 0 if failure is None else 1


def _replay_commands(trace: CommandTrace, options: ReplayOptions) -> int:
    _export(trace, options)
    if options.device != "twin":
        return run_on_card(trace, options, kind=KIND)
    from strata.boot_replay import replay_commands, replay_requests

    try:
        replayed = replay_commands(trace, has_bytes=options.has_bytes)
    except ReplayStalled as error:
        print(f"{options.trace}: {error}", file=sys.stderr)
        return 1
    served = replay_requests(trace)
    wrong = [describe_deviation(trace, deviation) for deviation in replayed.deviations]
    if served is not None and served.failure is not None:
        wrong.append(f"the core as it is: {type(served.failure).__name__}: {served.failure}")
    if served is not None and served.departure:
        wrong.append(f"the core as it is: {served.departure}")
    if options.is_json:
        requests = None if served is None else {"requests": served.num_requests, "steps": served.num_steps}
        print(json.dumps(_report(trace, replayed) | {"served": requests, "wrong": wrong}, indent=2))
    else:
        print(f"{options.trace}: {replayed.num_entries:,} entries, {replayed.num_commands:,} commands on the twin")
        print("\n".join(digest_lines(replayed.digests)), end="\n" * bool(replayed.digests))
        if served is not None:
            print(f"{served.num_requests:,} requests through the core as it is, {served.num_steps:,} steps")
            print("".join(f"{reason}\n" for reason in served.left_out), end="")
    for reason in wrong:
        print(f"{options.trace}: {one_line(reason)}", file=sys.stderr)
    return 1 if wrong else 0


def _report(trace: CommandTrace, replayed: Replayed) -> dict[str, Any]:
    return {
        "kind": KIND,
        "entries": replayed.num_entries,
        "commands": replayed.num_commands,
        "deviations": [
            {**asdict(deviation), "asked": to_line(deviation.asked, trace.places)} for deviation in replayed.deviations
        ],
        "digests": [
            {"owner": run.owner, **asdict(run.extent), "digest": f"{run.digest:016x}"} for run in replayed.digests
        ],
    }


def describe_deviation(trace: CommandTrace, deviation: Deviation) -> str:
    line = to_line(deviation.asked, trace.places)
    about = " ".join(str(line[key]) for key in ("op", "program", "graph", "event", "tag", "stream") if key in line)
    where = f"line {deviation.line}, {about}"
    if not deviation.found:
        return (
            f"{where}: {deviation.recorded} when it was recorded, and taken now; neither what programs find in bytes "
            "nor a device that breaks is played again"
        )
    then = "as when it was recorded" if deviation.found == deviation.recorded else deviation.recorded or "taken"
    if deviation.found != deviation.recorded:
        then = f"{then} when it was recorded"
    return f"{where}: {deviation.found}, {then}: {deviation.message}"


def digest_lines(digests: tuple[RunDigest, ...]) -> list[str]:
    """One line an owner: how many defined runs it has, their bytes, and one digest over all of theirs."""
    owners = dict.fromkeys(run.owner for run in digests)
    lines = []
    for owner in owners:
        runs = [run for run in digests if run.owner == owner]
        size = format_bytes(sum(run.extent.size_bytes for run in runs))
        mark = mix_digests([value for run in runs for value in (run.extent.offset_bytes, run.digest)])
        lines.append(f"  {one_line(owner):<12} {len(runs):>5} runs {size:>11}  {mark:016x}")
    return lines


def _export(trace: CommandTrace, options: ReplayOptions) -> None:
    for path, make in ((options.chrome, chrome_text), (options.svg, card_picture)):
        if path is not None:
            try:
                path.write_text(make(trace), encoding="utf-8")
            except OSError as error:
                raise ConfigError(f"{path}: cannot be written: {error.strerror}; give another file") from error
