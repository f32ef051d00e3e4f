"""A command trace is one text for one sequence of entries, and any other text is refused with its reason."""

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.core.commands import Access, Fill, Stream
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.trace.command_trace import CardSizes, CommandTrace, read_trace, write_trace
from strata.trace.entries import Entry, HostAccess, Refused
from strata.trace.jsonl import TraceError, canonical, read_head
from tests.trace.builders import ENTRIES, PLACES, SIZES, recorded

ROOMY = replace(SIZES, arena_bytes=1 << 14, pack_bytes=1 << 14, staging_bytes=1 << 14, parked_bytes=1 << 14)
"""Whatever `ENTRIES` has lies in these."""


def trace_of(entries: list[Entry], sizes: CardSizes = SIZES) -> CommandTrace:
    return CommandTrace(sizes, PLACES, tuple(entries), {"context_tokens": 9}, {"seed": 7}, "a note", 3)


@pytest.mark.slow
@settings(max_examples=100)
@given(entries=st.lists(ENTRIES, max_size=5))
def test_a_trace_comes_back_as_it_was_written(entries: list[Entry]) -> None:
    text = write_trace(trace_of(entries, ROOMY))
    found = read_trace(text)
    assert found.entries == tuple(entries)
    assert (found.sizes, found.places.rows, found.skipped) == (ROOMY, PLACES.rows, 3)
    assert (found.serving, found.origin, found.note) == ({"context_tokens": 9}, {"seed": 7}, "a note")
    assert write_trace(found) == text


def test_bytes_go_by_the_name_of_their_place() -> None:
    fill = Fill(Stream.PROMPT, Access(Extent(710, 20), "kv", "kv 0"), 7)
    text = write_trace(trace_of([fill])).splitlines()[1]
    assert text == '{"op":"fill","stream":"prompt","to":["kv",10,20,"kv","kv 0"],"value":7}'
    crossing = Fill(Stream.PROMPT, Access(Extent(690, 20), "kv", None), 7)
    assert '"to":["arena",690,20,"kv",null]' in write_trace(trace_of([crossing]))


def test_a_recorded_world_has_no_address_of_the_twin() -> None:
    text = write_trace(recorded("reader_skips_wait").commands)
    assert str(0x1000_0000_0000)[:6] not in text and str(0x2000_0000_0000)[:6] not in text


TEXT = write_trace(trace_of([Fill(Stream.PROMPT, Access(Extent(710, 20), "kv", None), 7)]))
HEAD, LINE, END = TEXT.splitlines(keepends=True)


def resealed(line: str) -> str:
    """A file whose hash is right, with another line."""
    return sealed(HEAD + line)


def sealed(lines: str) -> str:
    return lines + canonical({"sha256": sha256(lines.encode()).hexdigest()})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1 is no JSON"),
        ("[]\n", "line 1 is no JSON object"),
        ('{"kind":"commands"}\n', "has no 'v'"),
        (TEXT.replace('"v":1', '"v":2'), r"v=2, v=1 is read"),
        (TEXT.replace('"kind":"commands"', '"kind":"decisions"'), "no trace of commands: kind='decisions'"),
        (HEAD + LINE, "cut off"),
        (TEXT[:-1], "cut off"),
        (TEXT[:-20], "is no JSON"),
        (HEAD + END, "a line was changed"),
        (TEXT.replace('"value":7', '"value":8'), "a line was changed"),
        (resealed(LINE.replace('"op":"fill",', '"op": "fill",')), "line 2 is not written as traces are"),
        (resealed(LINE.replace('"op":"fill"', '"op":"flood"')), "line 2: op='flood' is none of"),
        (resealed(LINE.replace('"value":7', '"value":256')), "line 2: 256 is no number from 0 to 255"),
        (resealed(LINE.replace('"value":7', '"value":true')), "line 2: True is no number"),
        (resealed(LINE.replace('"value":7', '"value":7,"zeal":1')), "line 2 has keys or names"),
        (resealed(LINE.replace(',"value":7', "")), "line 2: a key is missing"),
        (resealed(LINE.replace('["kv",10,20', '["kv",-1,20')), "line 2: bytes"),
        (resealed(LINE.replace('["kv",10,20', '["arena",710,20')), "line 2 has keys or names"),
        (resealed(LINE.replace('["kv",10,20', '["attic",10,20')), "line 2: place 'attic' is not in the head"),
        (resealed(LINE.replace('["kv",10,20', '["staging",10,20')), "line 2: 'staging' is host memory"),
        (resealed(LINE.replace('"stream":"prompt"', '"stream":"moat"')), "line 2: 'moat'"),
        (
            resealed(LINE.replace('["kv",10,20', '["kv",3390,20')),
            r"line 2: bytes \[4090, 4110\) of arena, which has 4,096 B",
        ),
        (resealed('{"at":["parked",590,20],"op":"host"}\n'), "line 2: bytes .* of parked, which has 600 B"),
        (resealed('{"facts":{"a":1e400},"op":"note","what":"x"}\n'), "line 2 is no JSON .1e400 is too large"),
        (resealed('{"facts":{"a":' + "[" * 5_000 + "]" * 5_000 + '},"op":"note","what":"x"}\n'), "line 2 is no JSON"),
    ],
)
def test_a_text_that_no_recorder_wrote_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(TraceError, match=reason):
        read_trace(text)


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ('"segment_bytes":512', '"segment_bytes":0'),
        ('"arena_bytes":4096', '"arena_bytes":4097'),
        ('"arena_bytes":4096', f'"arena_bytes":{512 << 21}'),
        ('"staging_bytes":512', f'"staging_bytes":{1 << 40}'),
        ('["kv","arena",700,300]', '["kv","arena",600,300]'),
        ('["kv","arena",700,300]', '["kv","attic",700,300]'),
        ('["kv","arena",700,300]', '["pack","arena",700,300]'),
        ('"skipped":3,', ""),
        ('"skipped":3,', '"skipped":-1,'),
        ('"behind_bytes":0', '"behind_bytes":100'),
        ('"staging_bytes":512', '"staging_bytes":63'),
        ('"pack_bytes":1000', '"pack_bytes":189'),
        ('"serving":{"context_tokens":9}', '"serving":[]'),
        ('"origin":{"seed":7}', '"origin":"7"'),
        ('"note":"a note"', '"note":7'),
    ],
)
def test_a_head_that_describes_no_card_is_refused(found: str, instead: str) -> None:
    assert found in HEAD
    with pytest.raises(TraceError, match="its head is wrong"):
        read_trace(sealed(HEAD.replace(found, instead) + LINE))


def test_the_head_is_read_without_the_rest() -> None:
    assert read_head(HEAD)["kind"] == "commands"


def test_what_the_device_refused_may_lie_beyond_its_bytes() -> None:
    refused = Refused(Fill(Stream.PROMPT, Access(Extent(4090, 20), "kv", None), 7), "OutOfBounds", "too far")
    assert read_trace(write_trace(trace_of([refused]))).entries == (refused,)


def test_the_host_asks_for_no_more_than_a_replay_can_make() -> None:
    trace = replace(
        trace_of([HostAccess(HostExtent(HostSpace.PARKED, 0, 1 << 29))]), sizes=replace(SIZES, parked_bytes=1 << 40)
    )
    with pytest.raises(TraceError, match="the host asks for 536,870,912 B at once"):
        read_trace(write_trace(trace))
