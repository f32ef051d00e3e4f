"""The operations of a template whose cost or result can be far larger than their text: each is priced before it runs.

Decides what `+ * ** %`, comparisons, slices, literals, keys and the conversion to text may cost. Prices are charged to
the current budget; what cannot be priced is refused.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.runtime import Undefined

from strata.model.chat_template.budget import STEPS_PER_CALL, counted, current

MAX_INTEGER_BITS = 1024
_PRINTF = re.compile(r"%[sdr%]|[^%]")  # no width and no precision: `%999999999d` is a short way to a long text
_SEQUENCES = (list, tuple)
_OPERANDS = (int, float, complex, Undefined)
_MAX_REPR_CHARS = 10  # `\\U0010ffff`

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
        return _calculate_sequence(symbol, left, right)
    if isinstance(left, int) and isinstance(right, int):
        _check_integers(symbol, left, right)
    if isinstance(left, _OPERANDS) and isinstance(right, _OPERANDS):
        return _ARITHMETIC[symbol](left, right)
    raise _undefined(symbol, left, right)  # `-` of dict views would hash all that is in them


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
    raise _undefined(symbol, left, right)


def _undefined(symbol: str, left: Any, right: Any) -> TypeError:
    return TypeError(f"{type(left).__name__} {symbol} {type(right).__name__} is not defined")


def _calculate_sequence(symbol: str, left: Any, right: Any) -> Any:
    if symbol == "+" and isinstance(left, _SEQUENCES) and isinstance(right, _SEQUENCES):
        current().produce_elements(len(left) + len(right))
    elif symbol == "*" and (isinstance(left, int) or isinstance(right, int)):
        values, count = (left, right) if isinstance(left, _SEQUENCES) else (right, left)
        current().produce_elements(len(values) * max(count, 0))
    else:
        raise _undefined(symbol, left, right)
    result = _ARITHMETIC[symbol](left, right)
    current().keep(result)
    return result


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
    factor = _MAX_REPR_CHARS if "%r" in text else 1
    current().produce(len(text) + sum(factor * len(value) if isinstance(value, str) else 400 for value in spelled))
    return text % spelled


def compare(symbol: str, left: Any, right: Any) -> Any:
    """A comparison, priced by the characters it may have to look at."""
    if isinstance(left, str) and isinstance(right, str):
        if symbol in ("in", "notin"):
            current().scan_search(right, left)
        elif symbol not in ("eq", "ne") or len(left) == len(right):
            current().scan(min(len(left), len(right)))
    elif not isinstance(left, int | float) or not isinstance(right, int | float):
        current().scan_deep(left, right)
    if isinstance(right, Iterator):
        raise TypeError("a loop is no list to look into")
    return _COMPARISONS[symbol](left, right)


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
    current().keep(value)
    return value


def as_key(value: Any) -> Any:
    """`value`, which is about to be hashed: as a key of a dict, or to look something up."""
    if isinstance(value, str):
        current().scan(len(value))
    elif value is not None and not isinstance(value, _OPERANDS):
        raise SecurityError(f"a key or an index may be text or a number, not a {type(value).__name__}")
    return check_number(value)


def make_dict(*pairs: Any, **named: Any) -> dict[Any, Any]:
    """What a template calls as `dict(...)`: of one mapping or one list of pairs, and of named values."""
    made = named_values(*pairs, **named)
    current().keep(made)
    return made


def named_values(*pairs: Any, **named: Any) -> dict[Any, Any]:
    """`dict(*pairs, **named)`, its keys and elements priced. The values may be anything, so no template may see it."""
    if len(pairs) > 1:
        raise TypeError(f"want one mapping or list of pairs, not {len(pairs)}")
    given = pairs[0] if pairs else ()
    made: dict[Any, Any] = {}
    for key, value in counted(given.items() if isinstance(given, Mapping) else given):
        current().produce_elements(1)
        made[as_key(key)] = value
    current().produce_elements(len(named))
    made.update(named)
    return made
