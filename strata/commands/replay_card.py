"""What `strata replay --device cuda` and `--device both` print: per order of the streams whether every step found what
it should, and the first one that did not. Decides the words and the exit code, nothing else."""

import json
import sys
from dataclasses import asdict
from typing import Any

from strata.commands.doctor import refuse_without_card
from strata.commands.replay_options import ReplayOptions
from strata.commands.terminal_text import one_line
from strata.core.errors import DeviceError
from strata.trace.command_trace import CommandTrace
from strata.trace.compared import OrderFound, Played
from strata.trace.lines import to_line
from strata.trace.marks import Difference
from strata.trace.replay import FIRST_LINE, Deviation


def run_on_card(trace: CommandTrace, options: ReplayOptions, *, kind: str, failure: Exception | None = None) -> int:
    """The exit code. `failure`: what ended the world of these commands on the twin. Raises ConfigError where there is
    no card, or card or host have too little memory."""
    refuse_without_card()
    from strata.boot_replay import replay_on_card

    try:
        twin, orders = replay_on_card(trace, has_twin=options.device == "both")
    except DeviceError as error:  # a replay that stalls, a card that is lost
        print(f"{options.trace}: {one_line(str(error))}", file=sys.stderr)
        return 1
    wrong = [] if failure is None else [f"the world: {type(failure).__name__}: {failure}"]
    wrong += _wrong(trace, twin, orders)
    is_equal = all(order.is_equal for order in orders)
    if options.is_json:
        print(json.dumps(_report(trace, options.device, kind, twin, orders) | {"wrong": wrong}, indent=2))
    else:
        print(f"{options.trace}: {orders[0].replayed.num_entries:,} entries, {_reference(twin)}")
        for order in orders:
            word = "hash-equal" if order.is_equal else "differs"
            print(f"  {order.order:<14} {order.num_steps:>7,} steps  {word}")
        print("hash-equal" if is_equal else "not hash-equal")
    for reason in wrong:
        print(f"{options.trace}: {one_line(reason)}", file=sys.stderr)
    return 1 if wrong else 0


def _reference(twin: Played | None) -> str:
    if twin is None:
        return "on the card; every step as in the first order"
    return "on the card; every step as on the twin"


def _wrong(trace: CommandTrace, twin: Played | None, orders: tuple[OrderFound, ...]) -> list[str]:
    found = [] if twin is None else [f"twin: {_describe(trace, each)}" for each in twin.replayed.deviations]
    for order in orders:
        found += [f"{order.order}: {_describe(trace, each)}" for each in order.replayed.deviations]
        if order.difference is not None:
            found.append(f"{order.order}: {describe_difference(trace, order.difference)}")
        if order.wrong_run is not None:
            run = order.wrong_run
            found.append(
                f"{order.order}: at the end {run.owner} [{run.extent.offset_bytes}, {run.extent.end_bytes}) has "
                f"digest={run.digest:016x}, which it should not have"
            )
    return found


def describe_difference(trace: CommandTrace, difference: Difference) -> str:
    step = difference.step
    found, expected = (_mark(value) for value in (difference.found, difference.expected))
    return (
        f"line {step.line}, {_about(trace, step.line)}: read {step.index + 1} of it in lane {step.lane} found {found}, "
        f"not {expected}"
    )


def _mark(value: int | None) -> str:
    return "nothing" if value is None else f"mark={value:016x}"


def _describe(trace: CommandTrace, deviation: Deviation) -> str:
    where = f"line {deviation.line}, {_about(trace, deviation.line)}"
    if not deviation.found:
        return f"{where}: {deviation.recorded} when it was recorded; a card takes it"
    then = "as when it was recorded" if deviation.found == deviation.recorded else "not when it was recorded"
    return f"{where}: {deviation.found}, {then}: {deviation.message}"


def _about(trace: CommandTrace, line: int) -> str:
    shown = to_line(trace.entries[line - FIRST_LINE], trace.places)
    return " ".join(str(shown[key]) for key in ("op", "program", "graph", "event", "tag", "stream") if key in shown)


def _report(
    trace: CommandTrace, device: str, kind: str, twin: Played | None, orders: tuple[OrderFound, ...]
) -> dict[str, Any]:
    first = orders[0].replayed
    return {
        "kind": kind,
        "device": device,
        "entries": first.num_entries,
        "commands": first.num_commands,
        "hash_equal": all(order.is_equal for order in orders),
        "twin": None if twin is None else _twin(trace, twin),
        "orders": [
            {
                "order": order.order,
                "steps": order.num_steps,
                "hash_equal": order.is_equal,
                "first_difference": None if order.difference is None else _difference(order.difference),
                "deviations": _deviations(trace, order.replayed.deviations),
            }
            for order in orders
        ],
        "digests": [
            {"owner": run.owner, **asdict(run.extent), "digest": f"{run.digest:016x}"} for run in first.digests
        ],
    }


def _twin(trace: CommandTrace, twin: Played) -> dict[str, Any]:
    return {"steps": len(twin.marks), "deviations": _deviations(trace, twin.replayed.deviations)}


def _difference(difference: Difference) -> dict[str, Any]:
    found, expected = (None if value is None else f"{value:016x}" for value in (difference.found, difference.expected))
    return {**asdict(difference.step), "expected": expected, "found": found}


def _deviations(trace: CommandTrace, deviations: tuple[Deviation, ...]) -> list[dict[str, Any]]:
    return [{**asdict(each), "asked": to_line(each.asked, trace.places)} for each in deviations]
