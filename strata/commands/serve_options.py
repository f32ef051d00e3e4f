"""The command line of `serve`, `plan` and `inspect`, made from the option table. Light: `strata --help` imports it.

Values stay as they were written: `config_sources.py` reads all sources in one way. `plan` takes every option of
`serve`, since it judges as if it served.
"""

import argparse

from strata.commands.config_sources import CONFIG_OPTION, Written
from strata.commands.option_table import OPTIONS, SWITCHES, describe

SWITCHES_TITLE = "lending switches, each in the environment or in the file:"
SOURCES = (
    "Every option can also be set as STRATA_NAME in the environment (--cache-min-slots: STRATA_CACHE_MIN_SLOTS) and in "
    "the TOML file of --config (cache-min-slots = 128). The command line comes before the environment, that before the "
    "file, and that before the defaults."
)


def add_model_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="a GGUF file, any shard of a split set, or its folder (default: strata-tiny, which comes with strata)",
    )


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    add_serve_arguments(parser)
    parser.add_argument("--json", action="store_true", help="the map as JSON, for programs")


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_argument(parser)
    parser.add_argument(f"--{CONFIG_OPTION}", metavar="FILE", help="a TOML file with options (default: none)")
    groups = {option.group: parser.add_argument_group(option.group) for option in OPTIONS}
    for option in OPTIONS:
        group, name, text = groups[option.group], f"--{option.name}", describe(option).replace("%", "%%")
        if not option.metavar:
            group.add_argument(name, action=argparse.BooleanOptionalAction, help=text)
        elif option.name == "mtp":
            group.add_argument(name, nargs="?", const="1", metavar=option.metavar, help=text)
        else:
            group.add_argument(name, metavar=option.metavar, help=text)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join([SOURCES, "", SWITCHES_TITLE, *switch_lines()])


def switch_lines() -> list[str]:
    return [line for switch in SWITCHES for line in (f"  {switch.variable}", f"      {describe(switch)}")]


def written_options(arguments: argparse.Namespace) -> dict[str, Written]:
    """What the command line says, by option name; options that it does not name are left out."""
    names = [CONFIG_OPTION, *(option.name for option in OPTIONS)]
    values = {name: getattr(arguments, name.replace("-", "_"), None) for name in names}
    return {name: value for name, value in values.items() if value is not None}
