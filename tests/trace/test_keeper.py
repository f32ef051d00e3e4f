"""A server that keeps a trace writes it when something breaks, and only then; nobody but its owner can read it."""

import stat
from pathlib import Path

import pytest

from sim.errors import OrderError
from strata.core.commands import Command, Copy, Stream
from strata.core.errors import DeviceError
from strata.trace.command_trace import CommandTrace, read_trace
from strata.trace.entries import Noted, Refused
from tests.engine.symbolic_card import prompt
from tests.trace.watched_card import WatchedCard


@pytest.fixture
def site(tmp_path: Path) -> WatchedCard:
    return WatchedCard(tmp_path / "trace.jsonl")


def notes(trace: CommandTrace) -> list[str]:
    return [entry.what for entry in trace.entries if isinstance(entry, Noted)]


def test_nothing_is_written_while_nothing_breaks(site: WatchedCard) -> None:
    site.card.serve(prompt(300))
    site.card.serve(prompt(300, first=3), cancel_after_steps=2)
    assert not site.path.exists() and site.said == []


def test_what_led_to_a_failure_is_written_once_it_is_there(site: WatchedCard) -> None:
    site.card.serve(prompt(300))
    site.fails_at = site.num_commands + 30
    with pytest.raises(DeviceError, match="fell off"):
        site.card.serve(prompt(400, first=3))
    (line,) = site.said
    assert str(site.path) in line and "token ids" in line and f"strata replay {site.path}" in line
    assert stat.S_IMODE(site.path.stat().st_mode) == 0o600
    assert list(site.path.parent.iterdir()) == [site.path]
    trace = site.trace()
    assert trace.origin == {"server": {"error": "DeviceError", "message": "the card fell off the bus"}}
    assert isinstance(trace.entries[-2], Refused) and trace.entries[-2].error == "DeviceError"
    assert trace.entries[-1] == Noted("failure", {"error": "DeviceError", "message": "the card fell off the bus"})
    first, second = (e for e in trace.entries if isinstance(e, Noted) and e.what == "begin")
    assert first.facts["prompt_ids"] == list(prompt(300).prompt_ids)
    assert second.facts["prompt_ids"] == list(prompt(400, first=3).prompt_ids)
    assert {"reuses", "read", "routed", "sampled", "goes on", "ended"} <= set(notes(trace))
    (deviation,) = site.replay().deviations
    assert (deviation.recorded, deviation.found) == ("DeviceError", "")


def test_a_request_goes_on_after_a_failure_and_the_next_one_is_written_over_it(site: WatchedCard) -> None:
    site.fails_at = site.num_commands + 20
    with pytest.raises(DeviceError):
        site.card.serve(prompt(300))
    site.card.runner.recover()
    assert site.card.serve(prompt(300)) == 2
    assert len(site.said) == 1 and notes(site.trace())[-1] == "failure"
    site.fails_at = site.num_commands + 20
    with pytest.raises(DeviceError):
        site.card.serve(prompt(300, first=5))
    assert notes(site.trace()).count("failure") == 2 and "recovered" in notes(site.trace())


def test_an_assertion_of_ours_is_written_like_an_error_of_the_device(site: WatchedCard) -> None:
    site.error = AssertionError
    site.fails_at = site.num_commands + 25
    with pytest.raises(AssertionError):
        site.card.serve(prompt(300))
    refused = next(entry for entry in site.trace().entries if isinstance(entry, Refused))
    assert refused.error == "AssertionError" and len(site.said) == 1


def test_a_fault_that_did_not_come_from_the_runner_is_written_when_it_recovers(site: WatchedCard) -> None:
    site.card.runner.begin(prompt(300))
    site.card.runner.recover()
    assert len(site.said) == 1
    assert site.trace().origin["server"] == {"error": "", "message": "a fault outside the runner"}
    assert notes(site.trace())[-1] == "failure" and site.replay().deviations == ()


@pytest.mark.slow
def test_what_the_checker_refused_in_a_server_it_refuses_again_from_the_tail(tmp_path: Path) -> None:
    """A copy stream that does not wait for the ring slot to be free: an order that a real card would get wrong."""
    site = WatchedCard(tmp_path / "trace.jsonl", max_entries=120)
    inner = site.card.runner._device
    submit = inner.submit

    def without_waits(commands: list[Command]) -> None:
        submit([c for c in commands if not (type(c).__name__ == "Wait" and getattr(c, "stream", "") is Stream.COPY)])

    site.card.serve(prompt(560))
    inner.submit = without_waits  # type: ignore[method-assign, assignment]
    with pytest.raises(OrderError):
        site.card.serve(prompt(560, first=3))
    trace = site.trace()
    assert trace.skipped > 0
    assert isinstance(trace.entries[-2], Refused) and isinstance(trace.entries[-2].asked, Copy)
    (deviation,) = site.replay().deviations
    assert (deviation.recorded, deviation.found) == ("OrderError", "OrderError")
    assert deviation.line == len(trace.entries)


def test_a_file_that_others_could_read_is_replaced_by_one_that_they_cannot(site: WatchedCard) -> None:
    site.path.write_text("old", encoding="utf-8")
    site.path.chmod(0o644)
    site.fails_at = site.num_commands + 20
    with pytest.raises(DeviceError):
        site.card.serve(prompt(300))
    assert stat.S_IMODE(site.path.stat().st_mode) == 0o600
    assert list(site.path.parent.iterdir()) == [site.path] and len(site.trace().entries) > 20


def test_a_disk_that_is_full_changes_nothing_for_the_server(tmp_path: Path) -> None:
    site = WatchedCard(tmp_path / "gone" / "trace.jsonl")
    site.fails_at = site.num_commands + 20
    with pytest.raises(DeviceError, match="fell off"):
        site.card.serve(prompt(300))
    (line,) = site.said
    assert line == f"the trace could not be written to {site.path}: No such file or directory"


def test_a_card_that_fails_while_it_is_made_ready_leaves_a_trace_too(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with pytest.raises(DeviceError, match="fell off"):
        WatchedCard(path, fails_at=5)
    trace = read_trace(path.read_text(encoding="utf-8"))
    assert isinstance(trace.entries[-2], Refused) and trace.entries[-2].error == "DeviceError"
    assert trace.origin["server"] == {"error": "DeviceError", "message": "the card fell off the bus"}
