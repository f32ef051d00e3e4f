"""One field of a request at a time: the type, the range, null as "not given".

Decides how a wrong field is reported: the parameter's name, the value as JSON, and what would be right. Knows no
endpoint.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from strata.core.errors import RequestError
from strata.server.schemas_json import type_name

MAX_SHOWN_CHARS = 60


def read_bool(body: Mapping[str, Any], name: str) -> bool:
    """False when absent or null."""
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise invalid(name, value, "must be true or false")
    return value


def read_string(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise invalid(name, value, "must be a string")
    return value


def read_int(body: Mapping[str, Any], name: str, *, least: int, most: int | None = None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    bound = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        raise invalid(name, value, f"must be {bound}")
    return value


def read_number(body: Mapping[str, Any], name: str, default: float, *, least: float, most: float) -> float:
    """A finite number of [least, most]; `default` when absent or null."""
    value = body.get(name)
    if value is None:
        return default
    return check_number(name, value, least=least, most=most)


def check_number(name: str, value: object, *, least: float, most: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Compare before converting: float() of an integer of 400 digits overflows.
    if not is_number or not least <= value <= most or not math.isfinite(value):  # type: ignore[operator,arg-type]
        raise invalid(name, value, f"must be a number from {least:g} to {most:g}")
    return float(value)  # type: ignore[arg-type]


def read_object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Empty when absent or null."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(name, value, "must be an object")
    return value


def invalid(name: str, value: object, rule: str) -> RequestError:
    return RequestError(f"{name}={show(value)} refused: {name} {rule}", code="invalid_value", param=name)


def unsupported(name: str, value: object, instead: str) -> RequestError:
    message = f"{name}={show(value)} refused: this server does not support it; {instead}"
    return RequestError(message, code="unsupported_parameter", param=name)


def show(value: object) -> str:
    """A value as its JSON, cut; a container as its type only (it may be as large as the body)."""
    if isinstance(value, dict | list):
        return f"<{type_name(value)}>"
    if isinstance(value, str):
        value = value[: MAX_SHOWN_CHARS + 1]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**MAX_SHOWN_CHARS:
        return f"<an integer of {value.bit_length()} bits>"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "..."
