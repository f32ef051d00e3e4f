"""What a chat template may ask with `is`, each priced.

Decides the list: jinja's own, but for `filter`, `test` and `escaped`, which ask about jinja and not about a value.
"""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from jinja2 import tests as jinja_tests

from strata.model.chat_template import operations
from strata.model.chat_template.budget import STEPS_PER_CALL, current

Function = Callable[..., bool]
_ORIGINAL: Mapping[str, Any] = jinja_tests.TESTS
_COMPARISONS = {
    "eq": ("eq", "==", "equalto"),
    "ne": ("ne", "!="),
    "gt": ("gt", ">", "greaterthan"),
    "gteq": ("ge", ">="),
    "lt": ("lt", "<", "lessthan"),
    "lteq": ("le", "<="),
    "in": ("in",),
}


def _remainder(value: Any, divisor: Any) -> Any:
    """Never a `%` format: '%999999999d' is odd."""
    if isinstance(value, str):
        raise TypeError("text has no remainder")
    return operations.calculate("%", value, divisor)


def _divisible_by(value: Any, divisor: Any) -> bool:
    return bool(_remainder(value, divisor) == 0)


def _odd(value: Any) -> bool:
    return bool(_remainder(value, 2) == 1)


def _even(value: Any) -> bool:
    return bool(_remainder(value, 2) == 0)


def _lower(value: Any) -> bool:
    return _scanned(value).islower()


def _upper(value: Any) -> bool:
    return _scanned(value).isupper()


def _scanned(value: Any) -> str:
    text = operations.text_of(value)
    current().scan(len(text))
    return text


def _stepping(function: Function) -> Function:
    @wraps(function)
    def apply(*args: Any, **named: Any) -> bool:
        current().step(STEPS_PER_CALL + len(args) + len(named))
        return function(*args, **named)

    return apply


_AT_ONCE = (
    *("defined", "undefined", "none", "boolean", "false", "true", "integer", "float", "string", "mapping", "number"),
    *("sequence", "iterable", "callable", "sameas"),
)
TESTS: dict[str, Function] = {
    name: _stepping(function)
    for name, function in {
        **{name: _ORIGINAL[name] for name in _AT_ONCE},
        **{name: partial(operations.compare, symbol) for symbol, names in _COMPARISONS.items() for name in names},
        "divisibleby": _divisible_by,
        "odd": _odd,
        "even": _even,
        "lower": _lower,
        "upper": _upper,
    }.items()
}
