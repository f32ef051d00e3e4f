"""Where a server's configuration comes from: command line > environment > TOML file > defaults.

Options are STRATA_NAME in the environment and `name = value` in the file, lending switches are called alike in both.
Every source is read to its end, so that all its mistakes are told at once, also those of a value that another source
overrides. Knows nothing of what values may be combined.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from strata.commands.option_table import OPTIONS, SWITCHES, Option, Switch
from strata.config.switches import LendingSwitches, switch_notices
from strata.config.values import ServeConfig, slab_notices
from strata.core.errors import ConfigError

CONFIG_OPTION = "config"
CONFIG_VARIABLE = "STRATA_CONFIG"
URL_VARIABLE = "STRATA_URL"
MAX_FILE_BYTES = 1024 * 1024
MAX_SHOWN_CHARS = 80

Written = str | bool
"""A value of the command line: text, or whether a flag is on."""

_FOREIGN = ("STRATA_TEST_",)
"""Variables with our prefix that are not the program's."""


OTHER_VARIABLES = frozenset((CONFIG_VARIABLE, URL_VARIABLE))
"""Variables of ours that are no option of a server."""


class Source(StrEnum):
    COMMAND_LINE = "command line"
    ENVIRONMENT = "environment"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Resolved:
    """`notices`: start-up lines about what was set and is not done as it was written. `sources`: by variable, where the
    value of an option or switch comes from; what nobody has set is not in it. `file`: of the configuration."""

    config: ServeConfig
    notices: tuple[str, ...]
    sources: Mapping[str, Source]
    file: str | None


def resolve(model: str, command_line: Mapping[str, Written], environment: Mapping[str, str]) -> Resolved:
    """The configuration of a server for `model`. Raises ConfigError with every mistake of every source."""
    reasons: list[str] = []
    path = command_line.get(CONFIG_OPTION, environment.get(CONFIG_VARIABLE))
    file = None if path is None else str(Path(str(path)))
    from_file = {} if file is None else _read_file(file, reasons)
    from_environment = _read_environment(environment, reasons)
    from_command_line = _read_command_line(command_line, reasons)
    if reasons:
        raise ConfigError(*reasons)
    found = {**from_file, **from_environment, **from_command_line}
    values = {option.field: found[option.variable] for option in OPTIONS if option.variable in found}
    switches = {switch.field: found[switch.variable] for switch in SWITCHES if switch.variable in found}
    config = ServeConfig(model, **values, switches=LendingSwitches(**switches))
    sources = {
        variable: source
        for source, found_there in (
            (Source.FILE, from_file),
            (Source.ENVIRONMENT, from_environment),
            (Source.COMMAND_LINE, from_command_line),
        )
        for variable in found_there
    }
    idle = (*switch_notices(config.switches), *slab_notices(config))
    notices = (*_unknown_variables(environment), *idle)
    return Resolved(config, notices, sources, file)


def read_switches(environment: Mapping[str, str]) -> LendingSwitches:
    """The lending switches alone, for commands that serve nothing. Raises ConfigError."""
    reasons: list[str] = []
    found = _read_environment({switch.variable: environment.get(switch.variable) for switch in SWITCHES}, reasons)
    if reasons:
        raise ConfigError(*reasons)
    return LendingSwitches(**{switch.field: found[switch.variable] for switch in SWITCHES if switch.variable in found})


def _read_command_line(command_line: Mapping[str, Written], reasons: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in OPTIONS:
        written = command_line.get(option.name)
        if isinstance(written, bool):
            found[option.variable] = written
        elif written is not None:
            try:
                found[option.variable] = option.kind.from_text(written)
            except ValueError:
                reasons.append(_wrong(f"--{option.name}", written, option))
    return found


def _read_environment(environment: Mapping[str, str | None], reasons: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in (*OPTIONS, *SWITCHES):
        text = environment.get(entry.variable)
        if text is not None:
            try:
                found[entry.variable] = entry.kind.from_text(text)
            except ValueError:
                reasons.append(_wrong(f"environment variable {entry.variable}", text, entry))
    return found


def _read_file(path: str, reasons: list[str]) -> dict[str, Any]:
    entries: dict[str, Option | Switch] = {option.name: option for option in OPTIONS}
    entries |= {switch.variable: switch for switch in SWITCHES}
    found: dict[str, Any] = {}
    for key, value in _load_toml(path, reasons).items():
        if key not in entries:
            reasons.append(f"{path}: key {_shown(key)} is not an option; {_nearest(key, entries)}")
            continue
        entry = entries[key]
        try:
            found[entry.variable] = entry.kind.from_toml(value)
        except ValueError:
            reasons.append(_wrong(f"{path}: key {key}", value, entry))
    return found


def _load_toml(path: str, reasons: list[str]) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            reasons.append(f"{path}: the configuration file has more than {MAX_FILE_BYTES:,} B; make it shorter")
            return {}
        return tomllib.loads(data.decode())
    except OSError as error:
        reasons.append(f"{path}: cannot read the configuration file: {error.strerror}")
    except (ValueError, RecursionError) as error:  # bad TOML, bad UTF-8, a name with NUL; nested too deeply
        reasons.append(f"{path}: not a TOML file: {_one_line(str(error))}")
    return {}


def _unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """A misspelt switch would be silently off."""
    known = {*OTHER_VARIABLES, *(entry.variable for entry in (*OPTIONS, *SWITCHES))}
    for name in sorted(environment):
        if name.startswith("STRATA_") and name not in known and not name.startswith(_FOREIGN):
            yield f"environment variable {_shown(name)} is not an option and has no effect; {_nearest(name, known)}"


def _nearest(name: str, known: Mapping[str, object] | set[str]) -> str:
    nearest = difflib.get_close_matches(name[:MAX_SHOWN_CHARS], sorted(known), n=1)
    return f"did you mean {nearest[0]}?" if nearest else "strata serve --help lists them"


def _wrong(where: str, value: object, entry: Option | Switch) -> str:
    shown = "(hidden)" if entry.variable == "STRATA_API_KEY" else _shown(value)
    return f"{where}: {shown} is refused; allowed: {entry.kind.allowed}"


def _shown(value: object) -> str:
    text = _one_line(value if isinstance(value, str) else repr(value))
    return repr(text) if isinstance(value, str) else text


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}..."
