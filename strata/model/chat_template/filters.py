"""The filters and tests a chat template may use: those that published templates use, each priced.

Decides the list. A filter that is not in it does not exist for a template (`center`, `wordwrap`, `urlize`, `xmlattr`,
`batch` and such have no place in a prompt).
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

from jinja2 import filters as jinja_filters
from jinja2 import tests as jinja_tests
from jinja2.exceptions import SecurityError

from strata.model.chat_template import operations
from strata.model.chat_template.budget import STEPS_PER_CALL, counted, current

_SORT_FACTOR = 20  # comparisons an element, up to a million elements
_NOT_ASCII = re.compile("[^\x00-\x7f\ue000-\uf8ff\U000f0000-\U0010ffff]")

Function = Callable[..., Any]


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON, without the HTML escapes of jinja's own filter. Private-use characters are never escaped: they may
    stand for broken-up control tokens (`shield`)."""
    if indent is not None and not 0 <= indent <= 16:
        raise SecurityError(f"tojson: indent={indent} is not in 0 .. 16")
    budget = current()
    before = budget.scanned_chars
    budget.scan_deep(value)
    budget.produce((before - budget.scanned_chars) * (1 + (indent or 0)))
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys)
    if ensure_ascii:
        text = _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)
    budget.produce(len(text))
    return text


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    width_chars = len(width) if isinstance(width, str) else width
    current().scan(len(text))
    current().produce(len(text) + (text.count("\n") + 2) * max(width_chars, 0))
    return jinja_filters.do_indent(text, width, first, blank)


def _escape(value: Any) -> str:
    text = operations.text_of(value)
    current().produce(6 * len(text))
    return html.escape(text)


def _sum(values: Iterable[Any], start: Any = 0) -> Any:
    for value in counted(values):
        start = operations.calculate("+", start, value)
    return start


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    if abs(precision) > 20:
        raise SecurityError(f"round: precision={precision} is not in -20 .. 20")
    return jinja_filters.do_round(value, precision, method)  # type: ignore[arg-type]


def _int(value: Any, default: int = 0, base: int = 10) -> Any:
    return operations.check_number(jinja_filters.do_int(value, default, base))


def _list(values: Iterable[Any]) -> list[Any]:
    kept = []
    for value in values:
        current().produce_elements(1)
        kept.append(value)
    return kept


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    old, new = operations.text_of(old), operations.text_of(new)
    return operations.replace(operations.text_of(value), old, new, -1 if count is None else count)


def _join(values: Iterable[Any], separator: str = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        raise SecurityError("join: use map(attribute=...) first")
    return operations.join(separator, values)


def _text_filter(name: str) -> Function:
    def apply(value: Any, *args: Any) -> Any:
        return operations.call_str_method(name, operations.text_of(value), *args)

    return apply


def _walking(function: Function, factor: int = 1) -> Function:
    """`function`, priced by all that is in its arguments."""

    @wraps(function)
    def apply(*args: Any, **named: Any) -> Any:
        for _ in range(factor):
            current().scan_deep(*args, *named.values())
        return function(*args, **named)

    return apply


def _stepping(function: Function) -> Function:
    """`function`, priced by the elements it takes and gives one by one."""

    @wraps(function)
    def apply(*args: Any, **named: Any) -> Any:
        current().step(STEPS_PER_CALL)
        result = function(*[counted(arg) if _is_iterator(arg) else arg for arg in args], **named)
        return counted(result) if _is_iterator(result) else result

    return apply


def _is_iterator(value: Any) -> bool:
    return isinstance(value, Iterator)


def _reversed(value: Any) -> Any:
    if isinstance(value, str):
        return operations.take_slice(value, None, None, -1)
    return _list(value)[::-1]


def _items(value: Mapping[Any, Any]) -> Any:
    return _list(value.items()) if isinstance(value, Mapping) else []


_ORIGINAL = jinja_filters.FILTERS
FILTERS: dict[str, Function] = {
    name: _stepping(function)
    for name, function in {
        **{name: _ORIGINAL[name] for name in ("length", "count", "first", "last", "default", "d", "abs", "float")},
        **{name: _ORIGINAL[name] for name in ("map", "select", "selectattr", "reject", "rejectattr")},
        **{name: _walking(_ORIGINAL[name]) for name in ("unique", "min", "max")},
        **{name: _walking(_ORIGINAL[name], _SORT_FACTOR) for name in ("sort", "dictsort")},
        **{name: _text_filter(name) for name in ("upper", "lower", "title", "capitalize")},
        "trim": _text_filter("strip"),
        "tojson": to_json,
        "indent": _indent,
        "sum": _sum,
        "round": _round,
        "int": _walking(_int),
        "list": _list,
        "reverse": _reversed,
        "items": _items,
        "replace": _replace,
        "join": _join,
        "string": operations.text_of,
        "safe": operations.text_of,
        "escape": _escape,
        "e": _escape,
        "format": lambda text, *values: operations.print_formatted(operations.text_of(text), values),
    }.items()
}

_ORIGINAL_TESTS: Mapping[str, Any] = jinja_tests.TESTS
_COMPARING = frozenset({"eq", "==", "equalto", "ne", "!=", "gt", ">", "greaterthan", "ge", ">=", "lt", "<", "lessthan"})
TESTS: dict[str, Function] = {
    name: _stepping(_walking(function) if name in _COMPARING | {"le", "<=", "in"} else function)
    for name, function in _ORIGINAL_TESTS.items()
}
