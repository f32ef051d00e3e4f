"""The event parser: the same events for every cut of the bytes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.commands.sse import MAX_EVENT_BYTES, EventParser, EventTooLong, ServerSentEvent

LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=12)
LINE_ENDS = st.sampled_from(["\n", "\r", "\r\n"])


def parse(*pieces: bytes) -> list[ServerSentEvent]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.binary(max_size=200), st.lists(st.integers(min_value=0), max_size=8))
def test_any_bytes_cut_anywhere_give_the_same_events(data: bytes, places: list[int]) -> None:
    assert parse(*cut(data, places)) == parse(data)


@given(st.binary(max_size=60).map(lambda data: data.replace(b"x", b"\n\ndata:")))
def test_byte_by_byte_equals_at_once(data: bytes) -> None:
    assert parse(*(bytes([byte]) for byte in data)) == parse(data)


@given(st.lists(st.lists(LINES, min_size=1, max_size=3), max_size=4), LINE_ENDS, st.lists(st.integers(0), max_size=6))
def test_written_events_are_read_back(events: list[list[str]], end: str, places: list[int]) -> None:
    text = "".join("".join(f"data: {line}{end}" for line in lines) + end for lines in events)
    assert parse(*cut(text.encode(), places)) == [ServerSentEvent("\n".join(lines)) for lines in events]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: one\n\n", [ServerSentEvent("one")]),
        (b"data:one\n\n", [ServerSentEvent("one")]),
        (b"data:  one\n\n", [ServerSentEvent(" one")]),
        (b"data\n\n", [ServerSentEvent("")]),
        (b"data: a\ndata: b\n\n", [ServerSentEvent("a\nb")]),
        (b"event: error\ndata: a\n\ndata: b\n\n", [ServerSentEvent("a", "error"), ServerSentEvent("b")]),
        (b": keep-alive\n\ndata: a\n: between\ndata: b\n\n", [ServerSentEvent("a\nb")]),
        (b"id: 7\nretry: 10\nother: x\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerSentEvent("a")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [ServerSentEvent("a"), ServerSentEvent("b"), ServerSentEvent("c")]),
        (b"data: \xe2\x82\xac\xff\n\n", [ServerSentEvent("\u20ac\ufffd")]),
        (b"data: unfinished\n", []),
        (b"data: unfinished", []),
        (b"event: alone\n\n", []),
    ],
)
def test_fields_and_line_ends(data: bytes, expected: list[ServerSentEvent]) -> None:
    assert parse(data) == expected


def test_an_endless_event_is_refused() -> None:
    endless = [b"data: " + b"x" * 65536 + b"\n"] * (MAX_EVENT_BYTES // 65536 + 1)
    with pytest.raises(EventTooLong, match="4,194,304 B"):
        parse(*endless)


def test_comments_without_end_are_not() -> None:
    parser = EventParser()
    comment = b":" + b"-" * 65536 + b"\n"
    for _ in range(MAX_EVENT_BYTES // 65536 + 8):
        assert parser.feed(comment) == []
    assert parser.feed(b"data: a\n\n") == [ServerSentEvent("a")]
