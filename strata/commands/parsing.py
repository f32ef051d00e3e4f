"""The parser of the command line: what a mistake in it reads like. Knows no command and no option by name."""

import argparse
import difflib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

DISTRIBUTION = "strata-moe"


class CommandParser(argparse.ArgumentParser):
    """Options are written in full, and an unknown one is told with the usage of its own command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Ends the process with 2. `unknown`: what was left over, in order."""
        option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), None)
        if option is None:
            self.error(f"unexpected argument {unknown[0]!r}")
        # Without the dashes, which would make any two short options look alike.
        names = {name.lstrip("-"): name for name in self._option_string_actions}
        nearest = difflib.get_close_matches(option.lstrip("-"), list(names), n=1)
        advice = f"did you mean {names[nearest[0]]}?" if nearest else f"{self.prog} --help lists what there is"
        self.error(f"unknown option {option}; {advice}")


class ShowVersion(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        try:
            number = version(DISTRIBUTION)
        except PackageNotFoundError:
            number = "of a source tree that is not installed"
        print(f"{parser.prog} {number}")
        parser.exit()
