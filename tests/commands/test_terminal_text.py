"""Nothing a model writes may act on the terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.commands.terminal_text import MAX_STRING_CHARS, Sanitizer, one_line

NASTY = st.text(
    st.one_of(
        st.sampled_from("\x1b\x9b\x9c\x9d\x90\x07\x18\n\t\r[]P\\;0m?A"),
        st.characters(max_codepoint=0xA0),
        st.characters(min_codepoint=0x2000, max_codepoint=0x2070),
        st.characters(),
    ),
    max_size=60,
)
TAGS = "".join(map(chr, range(0xE0000, 0xE0080)))
JOINERS = "\u200c\u200d"
KEPT = f"\n\t{JOINERS}"
STEERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "B", "BN"}
HIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")


def sanitize(*pieces: str) -> str:
    sanitizer = Sanitizer()
    return "".join(map(sanitizer.feed, pieces))


def acts_on_the_terminal(char: str) -> bool:
    return (unicodedata.category(char) in HIDDEN and char not in KEPT) or char in TAGS


@pytest.mark.slow
def test_of_all_characters_exactly_those_that_act_are_dropped() -> None:
    """Each on a line of its own, where it is no part of a sequence that another one began. What is left is also held
    against Unicode's bidirectional class, which is another word than the category that decides."""
    chars = [chr(code) for code in range(0x110000) if chr(code) != "\n"]
    shown = dict(zip(chars, sanitize("\n".join(chars)).split("\n"), strict=True))
    for char, text in shown.items():
        allowed = ("", "\ufffd") if acts_on_the_terminal(char) else (char,)
        assert text in allowed, f"U+{ord(char):04X} became {text!a}"
    left = {char for char, text in shown.items() if text == char}
    assert {char for char in left if unicodedata.bidirectional(char) in STEERING} == set(JOINERS)
    assert not {*"\u200e\u200f\u061c\ufeff\xad\u2028\u2029", *TAGS} & left


@given(NASTY)
def test_nothing_that_acts_on_the_terminal_is_left(text: str) -> None:
    assert not [char for char in sanitize(text) if acts_on_the_terminal(char)]


@given(NASTY, st.integers(min_value=0, max_value=60))
def test_a_cut_changes_nothing(text: str, place: int) -> None:
    assert sanitize(text[:place], text[place:]) == sanitize(text)


@given(st.text(st.characters(exclude_categories=HIDDEN, exclude_characters=TAGS, include_characters=JOINERS)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert sanitize(text) == text


@given(NASTY)
def test_a_second_pass_changes_nothing(text: str) -> None:
    assert sanitize(sanitize(text)) == sanitize(text)


@given(NASTY)
def test_every_line_end_is_kept(text: str) -> None:
    assert sanitize(text).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hup", "up"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\.", "link."),
        ("\x9d0;title\x9ctext", "text"),
        ("\x1bPq#0;2\x1b\\picture", "picture"),
        ("\x1b(Bcharset", "charset"),
        ("\x1bcreset", "reset"),
        ("\x1b]never ended\nnext line", "\nnext line"),
        ("\x1b[never\nnext", "ever\nnext"),
        ("over\rwrite", "overwrite"),
        ("b\x08ell\x07", "bell"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("\u2066isolated\u2069", "isolated"),
        (
            "family \U0001f468\u200d\U0001f469 \u0645\u06cc\u200c\u062e",
            "family \U0001f468\u200d\U0001f469 \u0645\u06cc\u200c\u062e",
        ),
        ("\u200euser\u200f\u061cgnp.exe", "usergnp.exe"),
        ("\ufeffsoft\xadhyphen\u2060", "softhyphen"),
        ("one\u2028two\u2029", "onetwo"),
        ("\U000e0041\U000e007fhid\U000e0001den", "hidden"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e007f flag", "\U0001f3f4 flag"),
        ("\U0010eeee\ue000private", "private"),
        ("heart \u2764\ufe0f \u0e01\u0e33", "heart \u2764\ufe0f \u0e01\u0e33"),
        ("\x1b[3\u200e1mred", "1mred"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_known_sequences(text: str, expected: str) -> None:
    assert sanitize(text) == expected


def test_a_string_without_end_swallows_a_bounded_part() -> None:
    assert sanitize("\x1b]" + "x" * (MAX_STRING_CHARS + 5)) == "x" * 5


def test_one_line_is_one_safe_line() -> None:
    assert one_line(" a\nb\r\n\tc\x1b[31m d ") == "a b c d"
