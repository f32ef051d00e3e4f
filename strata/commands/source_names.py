"""Reasons in the words of whoever set the value: an option is called --port on the command line, STRATA_PORT in the
environment and port in the configuration file. Decides names only; what is wrong is said by whoever refused."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from strata.commands.config_sources import Resolved, Source
from strata.commands.option_table import OPTIONS, SWITCHES
from strata.core.errors import ConfigError

_NAME = re.compile(r"(?<![\w/.-])(--[a-z][a-z0-9-]*|STRATA_[A-Z_]+)(?![\w-])")
_VARIABLES = {f"--{option.name}": option.variable for option in OPTIONS}
_VARIABLES |= {switch.variable: switch.variable for switch in SWITCHES}


@contextmanager
def named_by_source(resolved: Resolved) -> Iterator[None]:
    """A ConfigError that leaves the block names every option as it was written in the source that set it."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(*(name_by_source(reason, resolved) for reason in error.reasons)) from error


def name_by_source(reason: str, resolved: Resolved) -> str:
    """Options that no source has set, or the command line, stay as they are."""
    keys: list[str] = []

    def rename(match: re.Match[str]) -> str:
        name = match[0]
        variable = _VARIABLES.get(name, "")
        source = resolved.sources.get(variable)
        if source is Source.ENVIRONMENT:
            return variable
        if source is not Source.FILE:
            return name
        key = name.removeprefix("--")
        if key not in keys:
            keys.append(key)
        return key

    renamed = _NAME.sub(rename, reason)
    if not keys:
        return renamed
    return f"{renamed} ({' and '.join(keys)} {'is' if len(keys) == 1 else 'are'} set in {resolved.file})"
