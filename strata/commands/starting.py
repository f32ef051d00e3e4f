"""What is read and refused before a command is imported: the configuration from all its sources, its start-up lines,
and the refusals that need no model."""

import argparse
import os
import sys

from strata.commands.config_sources import Resolved, read_switches, resolve
from strata.commands.serve_options import written_options
from strata.core.config.lending import check_place
from strata.core.config.refusals import check_config
from strata.core.config.values import Command, ServeConfig
from strata.core.errors import ConfigError, Refusal


def serve_config(arguments: argparse.Namespace) -> ServeConfig:
    """Of `serve` and `plan`, which judges as if it served. Raises ConfigError."""
    return _noticed(resolve(arguments.model, written_options(arguments), os.environ))


def demo_config(arguments: argparse.Namespace) -> ServeConfig:
    """Of the server that the demo starts as its child, with the same environment. Raises ConfigError with what can be
    refused before there is a model; the child judges the rest."""
    written = {"vram": str(arguments.vram), "ctx": str(arguments.ctx), "device": "twin", "port": "0"}
    config = _noticed(resolve("", written, os.environ))
    _refuse(check_config(config, command=Command.DEMO))
    return config


def refuse_outside_server() -> None:
    """For `inspect`, which opens a model and serves nothing. Raises ConfigError when a switch is on that only a server
    can obey."""
    config = ServeConfig(model="", switches=read_switches(os.environ))
    _refuse([*check_place(config, command=Command.INSPECT)])


def _noticed(resolved: Resolved) -> ServeConfig:
    # Not on stdout, which may be JSON and is read by scripts.
    for notice in resolved.notices:
        print(f"strata: {notice}", file=sys.stderr)
    return resolved.config


def _refuse(refusals: list[Refusal]) -> None:
    if refusals:
        raise ConfigError(*(refusal.reason for refusal in refusals))
