"""What a template may call on a string, each method priced before it runs.

Decides the list: `format`, `encode`, `translate`, `expandtabs` and the rest are not available.
"""

from collections.abc import Callable, Iterable
from typing import Any

from jinja2.exceptions import SecurityError

from strata.model.chat_template.budget import counted, current
from strata.model.chat_template.operations import text_of

_PIECE_CHARS = 64  # what a piece costs besides its text
_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def num_lines(text: str) -> int:
    """At most so many lines does `text.splitlines()` give. Priced."""
    current().scan(len(_LINE_ENDS) * len(text))
    return 1 + sum(map(text.count, _LINE_ENDS))


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    current().scan_search(text, old)
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
    current().scan_search(text, separator or "", backwards=method == "rsplit")
    room = max(current().produced_chars // _PIECE_CHARS, 0)
    limit = room if maxsplit < 0 else min(maxsplit, room)
    pieces: list[str] = getattr(text, method)(separator, limit)
    current().produce(len(text) + _PIECE_CHARS * len(pieces))
    return pieces


def _splitlines(text: str, keepends: bool = False) -> list[str]:
    current().produce(len(text) + _PIECE_CHARS * num_lines(text))
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
_BACKWARDS = frozenset({"rfind", "rindex", "rpartition"})


def call_str_method(name: str, text: str, *args: Any, **named: Any) -> Any:
    priced = _PRICED.get(name)
    if priced is not None:
        return priced(text, *args, **named)
    if name not in _SHORT_RESULT:
        raise SecurityError(f"str.{name} is not available to a chat template")
    current().scan_deep(text, *args, *named.values())
    if args and isinstance(args[0], str):
        current().scan_search(text, args[0], backwards=name in _BACKWARDS)
    current().produce(3 * len(text) if name in ("upper", "title", "capitalize", "casefold", "swapcase") else 0)
    return getattr(text, name)(*args, **named)
