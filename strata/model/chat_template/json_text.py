"""`tojson`, as chat templates know it: plain JSON, without the HTML escapes of jinja's own filter.

Decides how far its layout can be asked for: an indent of at most 16, separators of at most 8 characters. It does not
know why private-use characters stay as they are (`shield`).
"""

import json
import re
from typing import Any

from jinja2.exceptions import SecurityError

from strata.model.chat_template.budget import current
from strata.model.chat_template.sizes import ELEMENT_CHARS

MAX_INDENT = 16
MAX_SEPARATOR_CHARS = 8
_SORT_FACTOR = 20  # comparisons an element, up to a million elements
_NOT_ASCII = re.compile("[^\x00-\x7f\ue000-\uf8ff\U000f0000-\U0010ffff]")


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Priced by its layout too. Raises SecurityError for a layout that is not allowed, TypeError for what has no JSON.
    Private-use characters are never escaped: they may stand for broken-up control tokens."""
    indent = _checked_indent(indent)
    separators = _checked_separators(separators)
    budget = current()
    size = budget.sizes.of(value)
    budget.scan(size.chars * (_SORT_FACTOR if sort_keys else 1))
    separator_chars = max(map(len, separators), default=0) if separators else 0
    layout_chars = (size.chars // ELEMENT_CHARS) * ((indent or 0) * size.depth + separator_chars)
    budget.produce(size.chars + layout_chars)
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=bool(sort_keys))
    if ensure_ascii:
        text = _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)
    budget.produce(len(text))
    return text


def _checked_indent(indent: Any) -> int | None:
    if indent is None or (isinstance(indent, int) and 0 <= indent <= MAX_INDENT):
        return indent
    raise SecurityError(f"tojson: indent is {_short(indent)}, want a number from 0 to {MAX_INDENT}")


def _checked_separators(separators: Any) -> tuple[str, str] | None:
    if separators is None:
        return None
    if isinstance(separators, list | tuple) and len(separators) == 2:
        item, key = separators
        if all(isinstance(each, str) and len(each) <= MAX_SEPARATOR_CHARS for each in (item, key)):
            return item, key
    raise SecurityError(f"tojson: separators must be two texts of at most {MAX_SEPARATOR_CHARS} characters")


def _short(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"a {type(value).__name__}"
