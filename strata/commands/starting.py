"""What is read and refused before a command is imported: the configuration from all its sources, its start-up lines,
and the refusals that need no model."""

import argparse
import os
import sys
from dataclasses import replace

from strata.commands.config_sources import Resolved, Source, read_switches, resolve
from strata.commands.option_table import variable_of
from strata.commands.options import (
    DEMO_CONTEXT_TOKENS,
    DEMO_DEFAULTS,
    DEMO_FIXED,
    DEMO_MODEL_DEFAULTS,
    DemoOptions,
)
from strata.commands.serve_options import written_options
from strata.commands.source_names import named_by_source
from strata.config.context import MIN_CONTEXT_TOKENS
from strata.config.lending import check_place
from strata.config.refusals import check_config
from strata.config.values import Command, ServeConfig
from strata.core.errors import ConfigError, Refusal


def resolve_serve(arguments: argparse.Namespace) -> Resolved:
    """Of `serve` and `plan`, which judges as if it served. Raises ConfigError."""
    return _noticed(resolve(arguments.model, written_options(arguments), os.environ))


def resolve_demo(arguments: argparse.Namespace) -> tuple[Resolved, DemoOptions]:
    """Of the server that the demo starts as its child, with the same environment: what is written comes before the
    environment and the file, and these before the demo's own defaults. Raises ConfigError with what can be refused
    before there is a model."""
    written = {name: value for name in DEMO_DEFAULTS if (value := getattr(arguments, name)) is not None} | DEMO_FIXED
    defaults = DEMO_DEFAULTS if arguments.model is not None else DEMO_DEFAULTS | DEMO_MODEL_DEFAULTS
    set_by_user = resolve("", written, os.environ).sources
    serve_options = written | {name: value for name, value in defaults.items() if variable_of(name) not in set_by_user}
    resolved = _noticed(resolve("", serve_options, os.environ))
    # What the demo has no option for can only be set in the environment, so that is how a refusal names it.
    not_offered = {variable_of(name): Source.ENVIRONMENT for name in DEMO_MODEL_DEFAULTS if name in serve_options}
    resolved = replace(resolved, sources={**resolved.sources, **not_offered})
    with named_by_source(resolved):
        _refuse([*check_config(resolved.config, command=Command.DEMO), *_check_demo(resolved.config)])
    return resolved, DemoOptions(
        serve_options, cache_dir=arguments.cache_dir, model=arguments.model, api_key=resolved.config.api_key
    )


def refuse_outside_server() -> None:
    """For `inspect`, which opens a model and serves nothing. Raises ConfigError when a switch is on that only a server
    can obey."""
    config = ServeConfig(model="", switches=read_switches(os.environ))
    _refuse([*check_place(config, command=Command.INSPECT)])


def _check_demo(config: ServeConfig) -> list[Refusal]:
    context_tokens = config.context_tokens
    if context_tokens is None or not MIN_CONTEXT_TOKENS <= context_tokens < DEMO_CONTEXT_TOKENS:
        return []
    return [
        Refusal(
            f"ctx refused: ctx={context_tokens} tokens, the demo's conversation takes up to {DEMO_CONTEXT_TOKENS}; "
            f"give --ctx {DEMO_CONTEXT_TOKENS} or more"
        )
    ]


def _noticed(resolved: Resolved) -> Resolved:
    # Not on stdout, which may be JSON and is read by scripts.
    for notice in resolved.notices:
        print(f"strata: {notice}", file=sys.stderr)
    return resolved


def _refuse(refusals: list[Refusal]) -> None:
    if refusals:
        raise ConfigError(*(refusal.reason for refusal in refusals))
