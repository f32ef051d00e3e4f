"""The operations of a template whose cost or result can be far larger than their text: each is priced before it runs.

Decides what `+ * ** %`, comparisons, slices, literals, string methods and the conversion to text may cost. Prices are
charged to the current budget; what cannot be priced is refused.
"""

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.runtime import Undefined

from strata.model.chat_template.budget import STEPS_PER_CALL, counted, current

MAX_INTEGER_BITS = 1024
_PRINTF = re.compile(r"%[sdr%]|[^%]")  # no width and no precision: `%999999999d` is a short way to a long text
_SEQUENCES = (list, tuple)

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}


def text_of(value: Any) -> str:
    """What `{{ value }}` prints. Containers are priced by all that is in them before they are spelled out."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int | float | Undefined) and value is not None:
        current().scan_deep(value)
    text = str(value)
    current().produce(len(text))
    return text


def output_of(value: Any) -> str:
    """`text_of` for an output statement: each one costs a little, an empty one too."""
    current().step(1)
    return text_of(value)


def concatenate(parts: Iterable[str]) -> str:
    """What a macro or a block assignment has printed."""
    kept = list(parts)
    current().produce(sum(map(len, kept)))
    return "".join(kept)


def join_texts(values: list[Any]) -> str:
    """`a ~ b ~ c`"""
    return concatenate(map(text_of, values))


def calculate(symbol: str, left: Any, right: Any) -> Any:
    """`left symbol right` for + - * / // % **."""
    current().step(STEPS_PER_CALL)
    if isinstance(left, str) or isinstance(right, str):
        return _calculate_text(symbol, left, right)
    if isinstance(left, _SEQUENCES) or isinstance(right, _SEQUENCES):
        _price_sequence(symbol, left, right)
    if isinstance(left, int) and isinstance(right, int):
        _check_integers(symbol, left, right)
    return _ARITHMETIC[symbol](left, right)


def _calculate_text(symbol: str, left: Any, right: Any) -> str:
    if symbol == "%" and isinstance(left, str):
        return print_formatted(left, right)
    if symbol == "+" and isinstance(left, str) and isinstance(right, str):
        current().produce(len(left) + len(right))
        return left + right
    if symbol == "*" and (isinstance(left, int) or isinstance(right, int)):
        text, count = (left, right) if isinstance(left, str) else (right, left)
        current().produce(len(text) * max(count, 0))
        return str(text * count)
    raise TypeError(f"{type(left).__name__} {symbol} {type(right).__name__} is not defined")


def _price_sequence(symbol: str, left: Any, right: Any) -> None:
    if symbol == "+" and isinstance(left, _SEQUENCES) and isinstance(right, _SEQUENCES):
        current().produce_elements(len(left) + len(right))
    elif symbol == "*":
        values, count = (left, right) if isinstance(left, _SEQUENCES) else (right, left)
        current().produce_elements(len(values) * max(count, 0) if isinstance(count, int) else 0)


def _check_integers(symbol: str, left: int, right: int) -> None:
    bits = max(left.bit_length(), right.bit_length())
    if symbol == "**" and right > 0:
        bits = max(bits, left.bit_length() * right)
    elif symbol == "*":
        bits = left.bit_length() + right.bit_length()
    if bits > MAX_INTEGER_BITS:
        raise SecurityError(f"a number of {bits} bits, the limit is {MAX_INTEGER_BITS}")


def check_number(value: Any) -> Any:
    """`value`, unless it is an integer too large to compute with."""
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise SecurityError(f"a number of {value.bit_length()} bits, the limit is {MAX_INTEGER_BITS}")
    return value


def print_formatted(text: str, values: Any) -> str:
    """`text % values` with %s, %r, %d and %% only."""
    current().scan(len(text))
    if _PRINTF.sub("", text):
        raise SecurityError("a % format may hold %s, %r, %d and %%, without width or precision")
    arguments = values if isinstance(values, tuple) else (values,)
    spelled = tuple(value if isinstance(value, int | float) else text_of(value) for value in arguments)
    current().produce(len(text) + sum(len(value) if isinstance(value, str) else 400 for value in spelled))
    return text % spelled


def compare(symbol: str, left: Any, right: Any) -> Any:
    """A comparison, priced by the characters it may have to look at."""
    if isinstance(left, str) and isinstance(right, str):
        if symbol in ("in", "notin"):
            current().scan(len(right))
        elif symbol not in ("eq", "ne") or len(left) == len(right):
            current().scan(min(len(left), len(right)))
    elif not isinstance(left, int | float) or not isinstance(right, int | float):
        current().scan_deep(left, right)
    return _COMPARISONS[symbol](left, counted(right) if hasattr(right, "__next__") else right)


def take_slice(value: Any, start: Any, stop: Any, step: Any) -> Any:
    """`value[start:stop:step]`"""
    at = slice(start, stop, step)
    if isinstance(value, str):
        current().produce(len(range(*at.indices(len(value)))))
    elif isinstance(value, _SEQUENCES):
        current().produce_elements(len(range(*at.indices(len(value)))))
    return value[at]


def keep_literal(value: Any) -> Any:
    """A list, tuple or dict that the template wrote down."""
    current().produce_elements(len(value))
    return value


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    current().scan(len(text))
    found = text.count(old) if count < 0 else min(text.count(old), count)
    current().produce(len(text) + found * max(len(new) - len(old), 0))
    return text.replace(old, new, count)


def join(separator: str, values: Iterable[Any]) -> str:
    """`separator.join(values)`, values made text."""
    texts = [text_of(value) for value in counted(values)]
    current().produce(sum(map(len, texts)) + len(separator) * max(len(texts) - 1, 0))
    return separator.join(texts)


def _split(method: str, text: str, separator: str | None = None, maxsplit: int = -1) -> list[str]:
    """At most as many pieces as the budget has room for; one more piece than that is refused."""
    current().scan(len(text))
    room = max(current().produced_chars // 64, 0)
    limit = room if maxsplit < 0 else min(maxsplit, room)
    pieces: list[str] = getattr(text, method)(separator, limit)
    current().produce(len(text) + 64 * len(pieces))
    return pieces


def _splitlines(text: str, keepends: bool = False) -> list[str]:
    ends = sum(map(text.count, "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))
    current().scan(10 * len(text))
    current().produce(len(text) + 64 * (ends + 1))
    return text.splitlines(keepends)


def _strip(method: str, text: str, characters: str | None = None) -> str:
    current().scan(len(text) * (1 + len(characters or "")))
    stripped: str = getattr(text, method)(characters)
    current().produce(len(stripped))
    return stripped


def _pad(method: str, text: str, width: int, *fill: str) -> str:
    current().produce(max(len(text), width))
    padded: str = getattr(text, method)(width, *fill)
    return padded


_SHORT_RESULT = frozenset(
    {
        *("lower", "upper", "title", "capitalize", "swapcase", "casefold", "removeprefix", "removesuffix"),
        *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "partition", "rpartition"),
        *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric"),
        *("isprintable", "isspace", "istitle", "isupper"),
    }
)
_PRICED: dict[str, Callable[..., Any]] = {
    "replace": replace,
    "join": join,
    "splitlines": _splitlines,
    "split": lambda text, *args, **named: _split("split", text, *args, **named),
    "rsplit": lambda text, *args, **named: _split("rsplit", text, *args, **named),
    "strip": lambda text, *args: _strip("strip", text, *args),
    "lstrip": lambda text, *args: _strip("lstrip", text, *args),
    "rstrip": lambda text, *args: _strip("rstrip", text, *args),
    "center": lambda text, *args: _pad("center", text, *args),
    "ljust": lambda text, *args: _pad("ljust", text, *args),
    "rjust": lambda text, *args: _pad("rjust", text, *args),
    "zfill": lambda text, *args: _pad("zfill", text, *args),
}
STR_METHODS = _SHORT_RESULT | _PRICED.keys()
"""What a template may call on a string; `format`, `encode`, `translate`, `expandtabs` and the rest it may not."""


def call_str_method(name: str, text: str, *args: Any, **named: Any) -> Any:
    priced = _PRICED.get(name)
    if priced is not None:
        return priced(text, *args, **named)
    if name not in _SHORT_RESULT:
        raise SecurityError(f"str.{name} is not available to a chat template")
    current().scan(len(text))
    current().scan_deep(*args)
    current().produce(3 * len(text) if name in ("upper", "title", "capitalize", "casefold", "swapcase") else 0)
    return getattr(text, name)(*args, **named)
