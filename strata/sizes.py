"""Sizes as people write and read them. Decides nothing; every floor above the core may use it."""

import re

from strata.core.units import GIB, KIB, MIB

_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[KMGT]?i?B?)", re.IGNORECASE)
_FACTORS = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": 1024 * GIB}


def parse_size(text: str) -> int:
    """Bytes of a human size: `8GiB`, `8G`, `512 MiB`, `4096`. All units are binary.

    Raises ValueError with what would be right."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"size={text!r} is not a number with a unit; write for example 256MiB or 8GiB")
    unit = match["unit"].lower().rstrip("b").rstrip("i")
    return int(float(match["number"]) * _FACTORS[unit])


def format_bytes(size_bytes: int) -> str:
    """`1,572,864 B` as `1.5 MiB`: for people, never for parsing."""
    for factor, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(size_bytes) >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"
