"""The filters a chat template may use: those that published templates use, each priced.

Decides the list. A filter that is not in it does not exist for a template (`center`, `wordwrap`, `urlize`, `xmlattr`,
`batch` and such have no place in a prompt). None is lazy: `map` and `select` give lists, so a template has no chain of
generators to hang work on (Python would also free a long chain by recursion in C, without a check).
"""

import html
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

from jinja2 import filters as jinja_filters
from jinja2.exceptions import SecurityError

from strata.model.chat_template import operations
from strata.model.chat_template.budget import STEPS_PER_CALL, STEPS_PER_ELEMENT, counted, current
from strata.model.chat_template.json_text import to_json
from strata.model.chat_template.sizes import ELEMENT_CHARS
from strata.model.chat_template.str_methods import call_str_method, num_lines, replace
from strata.model.chat_template.str_methods import join as join_with

_SORT_FACTOR = 20  # comparisons an element, up to a million elements
_MAX_PATH_CHARS = 256

Function = Callable[..., Any]


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    width_chars = len(width) if isinstance(width, str) else width
    current().produce(len(text) + (num_lines(text) + 1) * (max(width_chars, 0) + ELEMENT_CHARS))
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
    if not isinstance(value, int | float):
        raise TypeError(f"round: want a number, not a {type(value).__name__}")
    if abs(precision) > 20:
        raise SecurityError(f"round: precision={precision} is not in -20 .. 20")
    return jinja_filters.do_round(value, precision, method)  # type: ignore[arg-type]


def _int(value: Any, default: int = 0, base: int = 10) -> Any:
    return operations.check_number(jinja_filters.do_int(value, default, base))


def _list(values: Iterable[Any]) -> list[Any]:
    kept = []
    current().produce_elements(0)
    for value in values:
        current().produce(ELEMENT_CHARS)
        kept.append(value)
    return kept


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    old, new = operations.text_of(old), operations.text_of(new)
    return replace(operations.text_of(value), old, new, -1 if count is None else count)


def _join(values: Iterable[Any], separator: str = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        raise SecurityError("join: use map(attribute=...) first")
    return join_with(separator, values)


def _text_filter(name: str) -> Function:
    def apply(value: Any, *args: Any) -> Any:
        return call_str_method(name, operations.text_of(value), *args)

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
    """`function`, priced by its arguments and by the elements it gives one by one; what it gives is a list."""

    @wraps(function)
    def apply(*args: Any, **named: Any) -> Any:
        current().step(STEPS_PER_CALL + len(args) + len(named))
        _check_path(named.get("attribute"))
        if any(isinstance(arg, Iterator) for arg in args):
            raise TypeError("a loop is no list")  # it gives itself with each element, which no measure could end
        result = function(*args, **named)
        if isinstance(result, Iterator):
            result = _list(counted(result))
        if isinstance(result, list | tuple | dict):
            current().keep(result)
        return result

    return apply


def _with_path(function: Function, position: int) -> Function:
    """`function`, which also takes an attribute's path as its argument at `position`."""

    @wraps(function)
    def apply(*args: Any, **named: Any) -> Any:
        _check_path(args[position] if len(args) > position else None)
        return function(*args, **named)

    return apply


def _keyed(function: Function, position: int, factor: int = 1) -> Function:
    """`function`, which asks each of the values (characters of a text too) for its key, by a path at `position`."""
    walking = _with_path(_walking(function, factor), position)

    @wraps(function)
    def apply(environment: Any, values: Any, *args: Any, **named: Any) -> Any:
        current().step(STEPS_PER_ELEMENT * len(values))
        return walking(environment, values, *args, **named)

    return apply


def _check_path(path: Any) -> None:
    """It is taken apart before the first element is asked for it."""
    if isinstance(path, str) and len(path) > _MAX_PATH_CHARS:
        raise SecurityError(f"an attribute's path of {len(path)} characters, the limit is {_MAX_PATH_CHARS}")


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
        **{name: _ORIGINAL[name] for name in ("length", "count", "first", "last", "default", "d", "abs")},
        **{name: _ORIGINAL[name] for name in ("map", "select", "reject")},
        **{name: _with_path(_ORIGINAL[name], 2) for name in ("selectattr", "rejectattr")},
        **{name: _keyed(_ORIGINAL[name], 3) for name in ("unique", "min", "max")},
        "sort": _keyed(_ORIGINAL["sort"], 4, _SORT_FACTOR),
        "dictsort": _walking(_ORIGINAL["dictsort"], _SORT_FACTOR),
        **{name: _text_filter(name) for name in ("upper", "lower", "title", "capitalize")},
        "trim": _text_filter("strip"),
        "tojson": to_json,
        "indent": _indent,
        "sum": _sum,
        "round": _round,
        "int": _walking(_int),
        "float": _walking(_ORIGINAL["float"]),
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
