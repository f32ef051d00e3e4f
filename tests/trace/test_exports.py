"""What is exported is well formed, complete and the same every time."""

import json
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.core.commands import Transfer
from strata.trace.activity import copied_cells, lanes_of
from strata.trace.card_state import CardState
from strata.trace.chrome import LANES, chrome_text
from strata.trace.command_trace import CommandTrace
from strata.trace.entries import Faulted, Noted
from strata.trace.history import Box, follow
from strata.trace.svg import card_picture
from tests.trace.builders import recorded

LENDS, FAILS = "refill_cannot_be_repeated", "session_survives_failure"
SVG = "{http://www.w3.org/2000/svg}"
PHASES = {
    "M": {"args"},
    "X": {"dur", "args", "cat"},
    "i": {"s"},
    "s": {"id", "cat"},
    "f": {"id", "bp", "cat"},
    "C": {"args"},
}


@pytest.mark.parametrize("name", [LENDS, FAILS])
def test_the_chrome_trace_has_the_form_that_viewers_read(name: str) -> None:
    trace = recorded(name).commands
    whole = json.loads(chrome_text(trace))
    assert whole.keys() == {"traceEvents", "displayTimeUnit", "otherData"} and whole["displayTimeUnit"] == "ms"
    rows = whole["traceEvents"]
    for row in rows:
        assert {"ph", "name", "pid", "tid"} | PHASES[row["ph"]] <= row.keys(), row
        assert 0 <= row["tid"] < len(LANES) and (row["ph"] == "M" or type(row["ts"]) is int)
    assert {row["args"]["name"] for row in rows if row["name"] == "thread_name"} == set(LANES)
    done = [row for row in rows if row["ph"] == "X"]
    assert [row["ts"] for row in done] == list(range(2, 2 + len(trace.entries)))
    assert all(row["dur"] == 1 for row in done)


def test_an_arrow_goes_from_each_record_to_the_waits_for_it() -> None:
    rows = json.loads(chrome_text(recorded(LENDS).commands))["traceEvents"]
    starts = {row["id"]: row for row in rows if row["ph"] == "s"}
    ends = {row["id"]: row for row in rows if row["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(ends) == sum(row["name"].startswith("wait") for row in rows)
    assert all(starts[id]["ts"] < ends[id]["ts"] and starts[id]["name"] == ends[id]["name"] for id in ends)
    back = next(row for row in ends.values() if row["name"] == "back")
    assert (LANES[starts[back["id"]]["tid"]], LANES[back["tid"]]) == ("copy", "verifier")


def test_the_counter_adds_up_to_what_is_owned() -> None:
    trace = recorded(LENDS).commands
    counters = [row["args"] for row in json.loads(chrome_text(trace))["traceEvents"] if row["ph"] == "C"]
    assert any("prompt" in counter for counter in counters)
    state = CardState(trace.sizes)
    for entry in trace.entries:
        state.apply(entry)
    assert sum(counters[-1].values()) == sum(end - start for start, end, owner in state.owners if owner)


def area(boxes: tuple[Box[str], ...], value: str, at: int) -> int:
    return sum(box.extent.size_bytes for box in boxes if box.value == value and box.first <= at < box.end)


def test_the_history_gives_every_byte_to_its_owner_at_every_entry() -> None:
    trace = recorded(LENDS).commands
    history, state = follow(trace), CardState(trace.sizes)
    for at, entry in enumerate(trace.entries):
        state.apply(entry)
        if at % 13 == 0 or isinstance(entry, Transfer):
            now: dict[str, int] = {}
            undefined = 0
            for start, end, owner in state.owners:
                now[owner] = now.get(owner, 0) + end - start
                if owner:
                    undefined += sum(b - a for a, b, content in state.contents.over(start, end) if content is None)
            for owner in ("cache", "prompt", "kv"):
                assert area(history.owners, owner, at) == now.get(owner, 0), (at, owner)
            hatched = [box for box in history.undefined if box.first <= at < box.end]
            assert sum(box.extent.size_bytes for box in hatched) == undefined, at


def test_the_picture_is_well_formed_and_shows_loans_failures_and_requests() -> None:
    text = card_picture(recorded(FAILS).commands)
    root = ElementTree.fromstring(text.encode())
    words = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert root.tag == f"{SVG}svg" and root.get("width") == "1080"
    assert sum(word.startswith("lent ") for word in words) >= 2
    assert "planted: refused" in words and any(word.startswith("request 1: ") for word in words)
    assert {"weights", "kv", "cache", "prompt"} <= set(words)
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("width", "0")) >= 0 and float(rect.get("height", "0")) >= 0
        assert 0 <= float(rect.get("x", "0")) <= 1080


def test_the_same_trace_is_the_same_picture_and_another_is_not() -> None:
    trace = recorded(LENDS).commands
    assert card_picture(trace) == card_picture(replace(trace, serving={}))
    index = max(i for i, entry in enumerate(trace.entries) if isinstance(entry, Transfer))
    assert card_picture(trace) != card_picture(replace(trace, entries=trace.entries[:index]))


def test_words_of_a_trace_cannot_end_an_element() -> None:
    trace = replace(recorded(FAILS).commands, note='</text><script>"&')
    root = ElementTree.fromstring(card_picture(trace).encode())
    assert not list(root.iter(f"{SVG}script"))
    assert any('</text><script>"&' in (element.text or "") for element in root.iter(f"{SVG}text"))


def test_an_empty_trace_has_a_picture_too() -> None:
    empty = replace(recorded(FAILS).commands, entries=())
    assert ElementTree.fromstring(card_picture(empty).encode()).tag == f"{SVG}svg"
    assert json.loads(chrome_text(empty))["traceEvents"]


def many_times(trace: CommandTrace, times: int) -> CommandTrace:
    body = tuple(entry for entry in trace.entries if not isinstance(entry, Noted | Faulted))
    return replace(trace, entries=body * times)


@pytest.mark.slow
def test_a_picture_of_thousands_of_entries_stays_small() -> None:
    trace = recorded(LENDS).commands
    long = many_times(trace, 40)
    assert len(long.entries) > 15_000
    assert len(card_picture(long)) < 12 * len(card_picture(trace))
    assert all(end <= 100 for _, runs in lanes_of(long, columns=100) for _, end, _ in runs)


@settings(max_examples=20)
@given(columns=st.integers(1, 60), rows=st.integers(1, 60))
def test_runs_of_a_lane_are_in_order_and_cells_lie_on_the_grid(columns: int, rows: int) -> None:
    trace = recorded(LENDS).commands
    for _, runs in lanes_of(trace, columns=columns):
        assert all(first < end <= columns for first, end, _ in runs)
        assert all(left[1] < right[0] or left[2] != right[2] for left, right in pairwise(runs))
    seen: set[tuple[int, int]] = set()
    for first, number, low, high in copied_cells(trace, columns=columns, rows=rows):
        cells = {(column, row) for column in range(first, first + number) for row in range(low, high)}
        assert cells and not cells & seen and first + number <= columns and high <= rows
        seen |= cells
