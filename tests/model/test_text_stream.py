"""Streaming text: whole characters, stop strings held back exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.model.text_stream import TextStream
from strata.terminator import Emission, Terminator

TEXTS = st.text(st.sampled_from("abé日👍\n"), max_size=24)
BROKEN = st.binary(max_size=12)
PIECES = st.lists(st.one_of(TEXTS.map(str.encode), BROKEN, st.sampled_from([b"\xf0\x9f", b"\x91\x8d", b"\xe6", b""])))
STOPS = st.lists(st.text(st.sampled_from("abé日\ufffd"), min_size=1, max_size=4), max_size=4)


def naive_reply(text: str, stops: list[str]) -> str:
    """Cut where the stop string that is complete first begins; of several complete there, the longest."""
    for end in range(1, len(text) + 1):
        ended = [stop for stop in stops if text[:end].endswith(stop)]
        if ended:
            return text[: end - max(map(len, ended))]
    return text


def stream_over(pieces: list[bytes], stops: list[str]) -> TextStream:
    return TextStream(pieces.__getitem__, stops)


def run(pieces: list[bytes], stops: list[str]) -> list[str]:
    """What each push gave, and flush if no stop came."""
    stream: Terminator = stream_over(pieces, stops)
    sent = []
    for index in range(len(pieces)):
        emission = stream.push(index)
        sent.append(emission.text)
        if emission.is_stopped:
            assert stream.flush() == ""
            return sent
    sent.append(stream.flush())
    assert stream.flush() == ""
    return sent


@pytest.mark.slow
@given(pieces=PIECES, stops=STOPS)
def test_any_split_gives_the_whole_text_cut_at_the_first_completed_stop(pieces: list[bytes], stops: list[str]) -> None:
    assert "".join(run(pieces, stops)) == naive_reply(b"".join(pieces).decode(errors="replace"), stops)


@pytest.mark.slow
@given(pieces=PIECES, stops=STOPS, tail=TEXTS)
def test_what_was_sent_is_never_taken_back(pieces: list[bytes], stops: list[str], tail: str) -> None:
    """Whatever comes next, the final text begins with all that went out."""
    stream, sent = stream_over(pieces, stops), ""
    for index in range(len(pieces)):
        emission = stream.push(index)
        sent += emission.text
        if emission.is_stopped:
            break
        for coming in (tail, *stops, *(stop[1:] for stop in stops)):
            whole = b"".join([*pieces[: index + 1], coming.encode()]).decode(errors="replace")
            assert naive_reply(whole, stops).startswith(sent)


@pytest.mark.slow
@given(texts=st.lists(TEXTS), stops=STOPS)
def test_what_is_held_back_is_the_longest_end_that_a_stop_begins_with(texts: list[str], stops: list[str]) -> None:
    stream, sent, seen = stream_over([text.encode() for text in texts], stops), "", ""
    for index, text in enumerate(texts):
        emission = stream.push(index)
        sent, seen = sent + emission.text, seen + text
        if emission.is_stopped:
            break
        begun = [length for stop in stops for length in range(1, len(stop)) if seen.endswith(stop[:length])]
        assert len(seen) - len(sent) == max(begun, default=0)


def test_a_character_split_over_tokens_comes_whole() -> None:
    pieces = [b"a\xf0\x9f", b"\x91", b"\x8db"]
    assert run(pieces, []) == ["a", "", "👍b", ""]


def test_a_stop_over_token_borders_ends_the_reply_before_it() -> None:
    stream = stream_over([b"hello </", b"st", b"op> more"], ["</stop>"])
    assert [stream.push(0), stream.push(1), stream.push(2)] == [
        Emission("hello ", False),
        Emission("", False),
        Emission("", True),
    ]


def test_a_held_tail_goes_out_when_it_becomes_something_else() -> None:
    assert run([b"a</", b"sto", b"ry>"], ["</stop>"]) == ["a", "", "</story>", ""]


def test_flush_gives_the_held_tail_and_replaces_unfinished_bytes() -> None:
    assert run([b"a</s", b"\xe6\x97"], ["</stop>"]) == ["a", "", "</s\ufffd"]


def test_a_stop_that_the_replacement_character_completes_still_stops() -> None:
    assert "".join(run([b"ab", b"\xe6"], ["b\ufffd"])) == "a"


def test_the_first_completed_stop_wins_and_the_longest_of_those() -> None:
    assert run([b"xabcd"], ["abcd", "bc"]) == ["xa"]
    assert run([b"xabc"], ["c", "abc", "bc"]) == ["x"]


def test_self_overlapping_stops_are_found() -> None:
    assert run([b"aa", b"ab", b"aabaab"], ["aabaab"]) == ["", "a", ""]
