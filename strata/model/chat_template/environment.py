"""The jinja2 sandbox that chat templates run in.

Decides what a template may touch: jinja's immutable sandbox forbids what reaches into Python, this one also allows only
named attributes on values and prices every call. It knows nothing of messages or tokens.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import BuiltinMethodType, FunctionType
from typing import Any, NoReturn

from jinja2.exceptions import SecurityError, TemplateError
from jinja2.runtime import Context, LoopContext, Macro, TemplateReference, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace

from strata.model.chat_template import operations
from strata.model.chat_template.budget import ELEMENT_CHARS, STEPS_PER_CALL, current
from strata.model.chat_template.counting import HOOKS, GenerationTag
from strata.model.chat_template.filters import FILTERS, TESTS

_HOOKS = frozenset(HOOKS.values())
_DATE_FORMAT_CHARS = 128
_DICT_METHODS = frozenset({"get", "items", "keys", "values"})
_LIST_METHODS = frozenset({"count", "index"})


def raise_exception(message: object) -> NoReturn:
    """What templates call to refuse a conversation."""
    raise TemplateError(operations.text_of(message))


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """`clock` answers `strftime_now`; every render must happen inside `budget.spending`."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self, clock: Callable[[], datetime]) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", GenerationTag],
            finalize=operations.output_of,
            optimized=False,
            cache_size=0,
        )
        self._clock = clock
        self.filters = dict(FILTERS)
        self.tests = dict(TESTS)
        self.globals = {
            "range": safe_range,
            "dict": dict,
            "namespace": Namespace,
            "raise_exception": raise_exception,
            "strftime_now": self.strftime_now,
        }
        self.concat = operations.concatenate  # type: ignore[method-assign]  # jinja joins bodies with it
        for name, hook in HOOKS.items():
            setattr(self, name, hook)

    def strftime_now(self, pattern: str) -> str:
        """The clock's time. Plain directives only: glibc would take a width (`%999999Y`)."""
        directives = pattern.split("%")[1:]
        if len(pattern) > _DATE_FORMAT_CHARS or not all(part[:1].isalpha() or not part for part in directives):
            raise SecurityError(f"strftime_now: a pattern of at most {_DATE_FORMAT_CHARS} plain directives is allowed")
        return self._clock().strftime(pattern)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if not super().is_safe_attribute(obj, attr, value):
            return False
        if isinstance(obj, str):
            return attr in operations.STR_METHODS
        if isinstance(obj, Mapping):
            return attr in _DICT_METHODS
        if isinstance(obj, list | tuple):
            return attr in _LIST_METHODS
        return isinstance(obj, LoopContext | Macro | Namespace | TemplateReference | Undefined)

    def wrap_str_format(self, value: Any) -> None:
        """`str.format` stays what it is: an attribute that is not safe."""
        return

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return operations.calculate(operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(__obj, FunctionType) and __obj in _HOOKS:
            return __obj(*args)
        current().step(STEPS_PER_CALL)
        if isinstance(__obj, BuiltinMethodType) and isinstance(__obj.__self__, str):
            return operations.call_str_method(__obj.__name__, __obj.__self__, *args, **kwargs)
        if __obj is dict or __obj is Namespace:
            current().produce(ELEMENT_CHARS * (1 + len(kwargs) + sum(len(arg) for arg in args)))
        elif not isinstance(__obj, Macro):  # a macro's body is charged where it runs
            current().scan_deep(*args, *kwargs.values())
        return super().call(__context, __obj, *args, **kwargs)
