"""How the value of an option is written: as text (command line, environment) and in TOML, and what is allowed. Decides
nothing about a value that is written well; ranges are the core's."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from strata.config.values import Mtp, Prefill
from strata.core.units import GIB
from strata.sizes import parse_size

MAX_WHOLE = 2**53
"""Beyond any count, time or size that means something; keeps messages and arithmetic short."""

_WHOLE = re.compile(r"-?[0-9]{1,17}")
_DECIMAL = re.compile(r"-?[0-9]{1,17}(\.[0-9]{1,17})?")


@dataclass(frozen=True, slots=True)
class Kind:
    """`allowed` completes "allowed: ...". Both readers raise ValueError for anything else."""

    allowed: str
    from_text: Callable[[str], object]
    from_toml: Callable[[object], object]


def whole_number(allowed: str, *, minimum: int = -MAX_WHOLE, unit: int = 1) -> Kind:
    """An integer of at least `minimum`, times `unit`."""

    def check(value: object) -> object:
        # In Python a truth value is an integer too, in TOML it is none.
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= MAX_WHOLE:
            raise ValueError(value)
        return value * unit

    return Kind(allowed, lambda text: check(int(_match(_WHOLE, text))), check)


def decimal_number(allowed: str, *, convert: Callable[[float], object] = float) -> Kind:
    def check(value: object) -> object:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(value)
        if not math.isfinite(value) or abs(value) > MAX_WHOLE:
            raise ValueError(value)
        return convert(float(value))

    return Kind(allowed, lambda text: check(float(_match(_DECIMAL, text))), check)


def one_of(choices: type[StrEnum]) -> Kind:
    def check(value: object) -> object:
        if not isinstance(value, str):
            raise ValueError(value)
        return choices(value)

    return Kind(", ".join(choices), check, check)


def _match(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(text)
    return text


def _zero_or_one(value: object) -> bool:
    if not isinstance(value, int) or isinstance(value, bool) or value not in (0, 1):
        raise ValueError(value)
    return value == 1


def _zero_or_one_text(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(text)
    return text == "1"


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _string(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(value)
    return value


def _size(value: object) -> int:
    if isinstance(value, str):
        # parse_size goes through a float, which a long number overflows.
        size_bytes = parse_size(value) if len(value) <= 32 else MAX_WHOLE + 1
    elif isinstance(value, int) and not isinstance(value, bool):
        size_bytes = value
    else:
        raise ValueError(value)
    if not 0 <= size_bytes <= MAX_WHOLE:
        raise ValueError(value)
    return size_bytes


def _prefill_text(text: str) -> Prefill:
    if text == "auto":
        return Prefill()
    if text.startswith("auto:"):
        return Prefill(max_chunk_tokens=int(_match(_WHOLE, text.removeprefix("auto:"))))
    return Prefill(chunk_tokens=int(_match(_WHOLE, text)))


def _prefill_toml(value: object) -> Prefill:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_WHOLE:
        return Prefill(chunk_tokens=value)
    return _prefill_text(_string(value))


def _mtp_text(text: str) -> Mtp | None:
    if not text:
        raise ValueError(text)
    return None if text == "0" else Mtp(None if text == "1" else _string(text))


def _mtp_toml(value: object) -> Mtp | None:
    if isinstance(value, bool):
        return Mtp() if value else None
    return _mtp_text(_string(value))


def _gib(number: float) -> int:
    return math.floor(number * GIB)  # what is below nothing stays there, and is refused


FLAG = Kind("0 or 1 (in a file: true or false)", _zero_or_one_text, _truth)
SWITCH = Kind("0 or 1", _zero_or_one_text, _zero_or_one)
TEXT = Kind("text", _string, _string)
SIZE = Kind("bytes, or a number with a unit, like 256MiB or 8GiB", _size, _size)
SECONDS = decimal_number("a number of seconds")
PROBABILITY = decimal_number("a number from 0 to 1")
GIBIBYTES = decimal_number("a number of GiB", convert=_gib)
PREFILL = Kind("a number of tokens, auto, or auto:N", _prefill_text, _prefill_toml)
MTP = Kind("1 for the model's own block, 0 for none (in a file: true or false), or a file", _mtp_text, _mtp_toml)
