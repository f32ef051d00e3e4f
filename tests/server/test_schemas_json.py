"""Bytes that are or are not a JSON object: always an object or a RequestError 400, never another exception."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.errors import RequestError
from strata.server.schemas_json import MAX_DEPTH, parse_json_object

REFUSED = {
    "empty": (b"", "Expecting value"),
    "cut": (b'{"a": 1', "Expecting"),
    "not utf-8": (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
    "encoded surrogate": (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    "array on top": (b"[1]", "the top is an array"),
    "null": (b"null", "the top is null"),
    "string": (b'"a"', "the top is a string"),
    "number": (b"1", "the top is a number"),
    "boolean": (b"true", "the top is a boolean"),
    "NaN": (b'{"a": NaN}', "NaN is not JSON"),
    "Infinity": (b'{"a": -Infinity}', "-Infinity is not JSON"),
    "lone high surrogate": (b'{"a": ["x", {"b": "\\ud83d"}]}', "surrogate"),
    "lone low surrogate in a key": (b'{"\\uDE00": 1}', "surrogate"),
    "100,000 brackets": (b"[" * 100_000, "nested deeper"),
    "100,000 braces": (b'{"a":' * 100_000, "nested deeper"),
    "an integer of 10,000 digits": (b'{"a": ' + b"9" * 10_000 + b"}", "digits"),
    "too many values": (b'{"a": [' + b"1," * 1_000_001 + b"1]}", "more than 1,000,000 values"),
    "too many containers": (b'{"a": [' + b"[]," * 100_001 + b"1]}", "100,000 objects and arrays"),
    "trailing": (b'{"a": 1} x', "Extra data"),
    "control character": (b'{"a": "\n"}', "control character"),
    "open string of quotes": (b'{"a": "' + b'\\"' * 100_000, "Unterminated string"),
}


SLOW = {"too many values"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in REFUSED])
def test_a_broken_body_is_refused_with_its_reason(name):
    body, reason = REFUSED[name]
    with pytest.raises(RequestError, match=reason) as refusal:
        parse_json_object(body)
    assert (refusal.value.status, refusal.value.code) == (400, "invalid_json")


ACCEPTED = {
    "brackets in a string": (json.dumps({"a": "[" * 1000 + '"]}\\'}).encode(), {"a": "[" * 1000 + '"]}\\'}),
    "a pair of escapes": (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    "an escaped backslash before u": (b'{"a": "\\\\ud83d"}', {"a": "\\ud83d"}),
    "an integer of 400 digits": (b'{"a": ' + b"9" * 400 + b"}", {"a": int("9" * 400)}),
    "the deepest": (b'{"a":' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}", None),
    "commas in a string": (b'{"a": "' + b"," * 1_100_000 + b'"}', {"a": "," * 1_100_000}),
    "duplicate keys, the last wins": (b'{"a": 1, "a": 2}', {"a": 2}),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_unusual_but_legal_body_is_read(name):
    body, value = ACCEPTED[name]
    parsed = parse_json_object(body)
    assert value is None or parsed == value


characters = st.characters(exclude_categories=["Cs"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(characters),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(characters), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(characters), values, max_size=5), st.booleans())
def test_what_json_writes_is_read_back(value, is_ascii):
    assert parse_json_object(json.dumps(value, ensure_ascii=is_ascii).encode()) == value


@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\u0123 d8ae', max_size=60).map(str.encode))
def test_any_bytes_are_an_object_or_a_400(body):
    outcome = outcome_of(body)
    assert isinstance(outcome, dict) or outcome.status == 400


def outcome_of(body):
    try:
        return parse_json_object(body)
    except RequestError as error:
        return error
