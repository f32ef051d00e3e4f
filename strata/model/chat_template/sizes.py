"""How large a value of a template is once everything that it shares is written out.

`{% set x = (x, x) %}` sixty times makes sixty small tuples, but printing, comparing, hashing or encoding the last one
is 2 ** 60 pieces of work. So every container is measured when it is made, from the measures of its parts, and the
budget refuses it while it is still small. This file decides what a container may hold: plain data (text, numbers,
none, undefined, ranges, and lists, tuples and dicts of plain data), so that nothing is hidden from the measure, and
nested no deeper than MAX_DEPTH (hashing a tuple recurses in C, without a check). It does not know what things cost.

Containers cannot change once a template holds them (the sandbox forbids it), so a measure stays true. Namespaces can
change; they are opaque: printed as a name, compared by identity, never part of a container.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from jinja2.exceptions import SecurityError
from jinja2.runtime import Undefined

MAX_DEPTH = 100
ELEMENT_CHARS = 32  # an element of a container counts as so many characters

_ITEMS: Any = type({}.items())
VIEWS: Any = (type({}.keys()), type({}.values()), _ITEMS)
_SCALARS: Any = (int, float, complex, Undefined)


class Size(NamedTuple):
    chars: int
    """Characters of all text inside plus ELEMENT_CHARS an element; what is shared counts each time it appears."""
    depth: int
    """Levels of containers; 0 for text and numbers."""


class Sizes:
    """The measures of one rendering. It keeps what it measured alive, so no identity is ever that of another value."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Size]] = {}

    def of(self, value: Any) -> Size:
        """In the time of its own length when its parts were measured before. What is neither text nor a container
        counts nothing. Raises SecurityError for a container that holds other than data or is too deep."""
        if isinstance(value, str):
            return Size(len(value), 0)
        if isinstance(value, list | tuple | dict):
            return self._of_container(value, MAX_DEPTH)
        if isinstance(value, range):
            return Size(ELEMENT_CHARS * (len(value) + 1), 1)
        if isinstance(value, VIEWS):
            pair_chars = 3 * ELEMENT_CHARS * len(value) if isinstance(value, _ITEMS) else 0
            whole = self._of_container(value.mapping.copy(), MAX_DEPTH, keep=False)
            return Size(whole.chars + pair_chars, whole.depth + 1)
        return Size(0, 0)

    def _of_container(self, value: Any, levels: int, *, keep: bool = True) -> Size:
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        if levels == 0:
            raise SecurityError(f"a value is nested more than {MAX_DEPTH} levels deep")
        size = self._sum(value, levels)
        if size.depth > MAX_DEPTH:
            raise SecurityError(f"a value is nested more than {MAX_DEPTH} levels deep")
        if keep:
            self._known[id(value)] = (value, size)
        return size

    def _sum(self, value: Any, levels: int) -> Size:
        chars, depth = ELEMENT_CHARS * (len(value) + 1), 0
        parts: tuple[Iterable[Any], ...] = (value, value.values()) if isinstance(value, dict) else (value,)
        for part in (part for parts_of_kind in parts for part in parts_of_kind):
            if isinstance(part, str):
                chars += len(part)
            elif isinstance(part, list | tuple | dict):
                size = self._of_container(part, levels - 1)
                chars += size.chars
                depth = max(depth, size.depth)
            elif isinstance(part, range):
                chars += ELEMENT_CHARS * (len(part) + 1)
                depth = max(depth, 1)
            elif part is not None and not isinstance(part, _SCALARS):
                raise SecurityError(f"a list, tuple or dict may hold plain data, not a {type(part).__name__}")
        return Size(chars, depth + 1)
