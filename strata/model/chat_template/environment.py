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
from strata.model.chat_template.budget import STEPS_PER_CALL, STEPS_PER_ELEMENT, current
from strata.model.chat_template.counting import HOOKS, GenerationTag
from strata.model.chat_template.filters import FILTERS
from strata.model.chat_template.predicates import TESTS
from strata.model.chat_template.str_methods import STR_METHODS, call_str_method

_HOOKS = frozenset(HOOKS.values())
_SCOPES = ("_loop_vars", "_block_vars")  # jinja adds them to calls, for functions that take its context; none here does
_DATE_FORMAT_CHARS = 128
_DICT_METHODS = frozenset({"get", "items", "keys", "values"})
_LIST_METHODS = frozenset({"count", "index"})


def raise_exception(message: object) -> NoReturn:
    """What templates call to refuse a conversation."""
    raise TemplateError(operations.text_of(message))


class OpaqueNamespace(Namespace):
    """A namespace that does not print what it holds: it can hold itself, and any number of namespaces twice each."""

    def __init__(self, /, *pairs: Any, **named: Any) -> None:
        super().__init__(operations.named_values(*pairs, **named))

    def __repr__(self) -> str:
        return "<namespace>"


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
            "dict": operations.make_dict,
            "namespace": OpaqueNamespace,
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
            return attr in STR_METHODS
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

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Filters come here for each part of an attribute's path."""
        current().step(1)
        return super().getitem(obj, operations.as_key(argument))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(__obj, FunctionType) and __obj in _HOOKS:
            return __obj(*args)
        for name in _SCOPES:
            kwargs.pop(name, None)
        current().step(STEPS_PER_CALL + STEPS_PER_ELEMENT * (len(args) + len(kwargs)))
        if isinstance(__obj, BuiltinMethodType):
            if isinstance(__obj.__self__, str):
                return call_str_method(__obj.__name__, __obj.__self__, *args, **kwargs)
            if isinstance(__obj.__self__, list | tuple):  # `count` and `index` look at each element
                current().scan_deep(__obj.__self__)
        if isinstance(__obj, Macro):  # its body is charged where it runs
            current().keep_arguments((*args, *kwargs.values()))
        else:
            current().scan_deep(*args, *kwargs.values())
        return super().call(__context, __obj, *args, **kwargs)
