"""The form that traces of every kind share: JSON Lines, canonical, sealed by a hash.

    {"kind":"commands",...,"v":1}        the head
    {...}                                one line each
    {"sha256":"..."}                     of all lines above, each with its line end

Keys are sorted and no space stands between them, so that equal traces are equal files. Knows nothing of what the lines
say.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from math import isfinite
from typing import Any, NoReturn

from strata.core.errors import ConfigError

VERSION = 1

Line = Mapping[str, Any]


class TraceError(ConfigError):
    """A file that is no trace, or not one that this version reads. One reason."""


def seal(head: Line, lines: Iterable[Line]) -> str:
    """The text of a trace. `head` gets the version."""
    texts = [canonical({**head, "v": VERSION}), *map(canonical, lines)]
    digest = sha256()
    for text in texts:
        digest.update(text.encode())
    return "".join(texts) + canonical({"sha256": digest.hexdigest()})


def read_head(text: str) -> dict[str, Any]:
    """The first line, of a trace of any kind. Raises TraceError when it is none or of another version."""
    head = _load(text.partition("\n")[0], 1)
    for key in ("v", "kind"):
        if key not in head:
            raise TraceError(f"no trace: its first line has no {key!r}; a trace begins with a head")
    if head["v"] != VERSION:
        raise TraceError(f"no trace for this version: v={head['v']!r}, v={VERSION} is read; record it again")
    return head


def unseal(text: str, *, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Head and lines of a trace of `kind`. Raises TraceError for anything that `seal` would not have written."""
    head = read_head(text)
    if head["kind"] != kind:
        raise TraceError(f"no trace of {kind}: kind={head['kind']!r}")
    texts = text.splitlines(keepends=True)
    last = _load(texts[-1], len(texts))
    if last.keys() != {"sha256"} or not texts[-1].endswith("\n"):
        raise TraceError(f"no trace: it is cut off, line {len(texts)} is its last one and no hash")
    found = sha256("".join(texts[:-1]).encode()).hexdigest()
    if found != last["sha256"]:
        raise TraceError(f"no trace: its lines hash to {found}, its end says {last['sha256']}; a line was changed")
    lines = [_load(line, number) for number, line in enumerate(texts[1:-1], 2)]
    for number, (line, written) in enumerate(zip([head, *lines], texts, strict=False), 1):
        if canonical(line) != written:
            raise TraceError(f"no trace: line {number} is not written as traces are: sorted keys, no spaces")
    return head, lines


def canonical(line: Line) -> str:
    return json.dumps(line, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n"


def _load(text: str, number: int) -> dict[str, Any]:
    try:
        line = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"no trace: line {number} is no JSON ({error})") from error
    if not isinstance(line, dict):
        raise TraceError(f"no trace: line {number} is no JSON object")
    return line


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    """A number too large for a float would come out as one that JSON has no word for."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text[:20]} is too large a number")
    return value
