"""What may be decided in a world, one small value each. A decision that does not apply where it comes is nothing, so a
trace stays a trace whichever of its lines are taken out.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sim.world.card import FaultKind
from sim.world.sites import SITES

MAX_NUMBER = 1 << 31
"""Larger ones say nothing more, and a seed has 63 bits."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A request, when nothing is open. Its prompt: the first `shared` ids of what the session of `base` requests ago
    held or asked (0 is the last one), then `fresh` ids that depend on `salt`; cut to what the context leaves."""

    fresh: int
    shared: int = 0
    base: int = 0
    salt: int = 0
    max_tokens: int = 1
    bias: int = 0  # a logit bias for this token, if above 0


@dataclass(frozen=True, slots=True)
class Advance:
    """`times` steps of what is open: whatever was awaited has come, a sampled token is taken."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Cancel:
    """The client leaves."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A sampled token ends the reply."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The command after the next `after` ones fails, on the card of `stage`; with `at`, a word of `sites.py`, only
    commands that it fits are counted."""

    after: int
    kind: FaultKind
    stage: int = 0
    at: str = ""


@dataclass(frozen=True, slots=True)
class Favour:
    """Where completion is drawn: the next `times` times that the host waits and several streams can go on, number
    `pick` of them does; without one of these, the stream with the oldest command does."""

    pick: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Turn:
    """Of several stages: the next `times` times, number `pick` of those that may have something to tell is heard;
    without one of these, the first one is."""

    pick: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Restart:
    """When nothing is open: the server ends, and the next one starts on the same host pack with other options, number
    `pick` of `sim.world.geometry.OTHER_OPTIONS`; nothing where those have no plan."""

    pick: int


Decision = Begin | Advance | Cancel | Stop | Fault | Favour | Turn | Restart
_KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Begin, Advance, Cancel, Stop, Fault, Favour, Turn, Restart)
}


def to_json(decision: Decision) -> dict[str, Any]:
    """`do` names the kind; values that are the default are left out, so that equal decisions are equal lines."""
    defaults = {field.name: field.default for field in fields(decision)}
    values = {name: value for name, value in asdict(decision).items() if value != defaults[name]}
    return {"do": type(decision).__name__.lower(), **values}


def from_json(line: Mapping[str, Any]) -> Decision:
    """Raises ValueError for a line that is no decision."""
    values = {name: value for name, value in line.items() if name != "do"}
    try:
        if "kind" in values:
            values["kind"] = FaultKind(values["kind"])
        decision: Decision = _KINDS[line["do"]](**values)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no decision: {dict(line)!r} ({error}); kinds: {', '.join(_KINDS)}") from error
    if isinstance(decision, Fault) and decision.at not in ("", *SITES):
        raise ValueError(f"no decision: {dict(line)!r} is at no site; sites: {', '.join(SITES)}")
    numbers = [value for name, value in asdict(decision).items() if name not in ("kind", "at")]
    if not all(type(value) is int and 0 <= value <= MAX_NUMBER for value in numbers):
        raise ValueError(f"no decision: {dict(line)!r} has a number that is not from 0 to {MAX_NUMBER:,}")
    return decision
