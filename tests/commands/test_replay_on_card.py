"""`strata replay --device cuda|both` as people call it, on the driver without a card."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from strata.cli import main
from strata.core.commands import Wait
from strata.trace.command_trace import CommandTrace, write_trace
from strata.trace.entries import Refused
from tests.cuda.builders import fake_driver
from tests.fixtures.interpreter import HAS_TRITON, settle
from tests.trace.builders import REGRESS, recorded

settle()

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not HAS_TRITON, reason="needs triton")]

LENDS = "back_recorded_too_early"


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from strata.replay_card import ReplayCard
    from tests.cuda.host_fingerprint import host_fingerprint
    from tests.cuda.host_views import HostViews

    with fake_driver(total_bytes=1 << 33) as fake:
        opened = partial(ReplayCard, api=fake, make_views=HostViews, launch=host_fingerprint)
        monkeypatch.setattr("strata.replay_card.ReplayCard", opened)
        monkeypatch.setattr("strata.commands.replay_card.refuse_without_card", lambda: None)
        yield
        assert fake.leftovers() == {}


def write(folder: Path, trace: CommandTrace) -> Path:
    path = folder / "commands.jsonl"
    path.write_text(write_trace(trace), encoding="utf-8")
    return path


def replay(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["replay", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def without_its_wait(trace: CommandTrace) -> CommandTrace:
    index = max(i for i, e in enumerate(trace.entries) if isinstance(e, Wait) and e.event == "back")
    return replace(trace, entries=(*trace.entries[:index], *trace.entries[index + 1 :]))


def test_commands_are_held_against_the_twin_in_every_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = replay(capsys, write(tmp_path, recorded(LENDS).commands), "--device", "both")
    assert (code, err) == (0, "")
    head, *orders, verdict = out.splitlines()
    assert "every step as on the twin" in head and verdict == "hash-equal"
    assert [line.split("  ")[1] for line in orders] == [
        "given",
        "all late",
        "prompt late",
        "copy late",
        "verifier late",
    ]
    assert all(line.endswith("hash-equal") for line in orders)


def test_decisions_give_their_commands_and_json_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = replay(capsys, REGRESS / f"{LENDS}.jsonl", "--device", "both", "--json")
    report = json.loads(out)
    assert code == 0 and report["hash_equal"] and report["wrong"] == []
    assert (report["kind"], report["device"]) == ("decisions", "both")
    assert report["twin"]["steps"] == report["orders"][0]["steps"] > 50
    assert {order["first_difference"] for order in report["orders"]} == {None} and len(report["digests"]) > 5


def test_the_first_step_that_differs_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the twin the orders are held against the first of them."""
    path = write(tmp_path, without_its_wait(recorded(LENDS).commands))
    code, out, err = replay(capsys, path, "--device", "cuda")
    assert code == 1 and out.splitlines()[-1] == "not hash-equal" and "every step as in the first order" in out
    assert "copy late: line " in err and "in lane verifier found mark=" in err


def test_what_the_twin_says_and_what_differs_is_in_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, without_its_wait(recorded(LENDS).commands))
    code, out, _ = replay(capsys, path, "--device", "both", "--json")
    report = json.loads(out)
    assert code == 1 and not report["hash_equal"]
    assert report["twin"]["deviations"][0]["found"] == "OrderError"
    late = next(order for order in report["orders"] if order["order"] == "copy late")
    assert late["first_difference"]["lane"] == "verifier"


def test_what_the_twin_refused_a_card_takes_and_that_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = recorded(LENDS).commands
    wait = next(e for e in trace.entries if isinstance(e, Wait))
    index = trace.entries.index(wait)
    refused = Refused(wait, "OrderError", "of its time")
    path = write(tmp_path, replace(trace, entries=(*trace.entries[:index], refused)))
    code, _, err = replay(capsys, path, "--device", "cuda")
    assert code == 1 and f"line {index + 2}, wait" in err and "OrderError when it was recorded; a card takes it" in err
