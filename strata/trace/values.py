"""Values of the core that came out of JSON, as the dataclasses that they were: lists are tuples again, texts members of
their enumerations, objects the dataclass that the field says.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def from_json(kind: type[T], value: object) -> T:
    """Raises ValueError, naming what does not fit."""
    found: T = _read(kind, value)
    return found


def _read(kind: Any, value: object) -> Any:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in get_args(kind):
            return None
        (inner,) = (arg for arg in get_args(kind) if arg is not NoneType)
        return _read(inner, value)
    if origin is tuple:
        return _read_tuple(get_args(kind), value)
    if is_dataclass(kind):
        return _read_dataclass(kind, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{value!r} is no {getattr(kind, '__name__', kind)}")
    return value


def _read_tuple(kinds: tuple[Any, ...], value: object) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{value!r} is no list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_read(kinds[0], each) for each in value)
    if len(kinds) != len(value):
        raise ValueError(f"{value!r} has not {len(kinds)} values")
    return tuple(_read(inner, each) for inner, each in zip(kinds, value, strict=True))


def _read_dataclass(kind: Any, value: object) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is no object of {kind.__name__}")
    hints = get_type_hints(kind)
    names = {field.name for field in fields(kind)}
    if unknown := sorted(value.keys() - names):
        raise ValueError(f"{kind.__name__} has no {', '.join(map(repr, unknown))}")
    try:
        return kind(**{name: _read(hints[name], each) for name, each in value.items()})
    except TypeError as error:  # a field that has no default is missing
        raise ValueError(f"{kind.__name__}: {error}") from error
