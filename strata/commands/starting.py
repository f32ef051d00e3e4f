"""What is read and refused before a command is imported: the configuration from all its sources, its start-up lines,
and the refusals that need no model."""

import argparse
import os
import sys
from dataclasses import replace

from strata.commands.config_sources import Resolved, Source, Written, read_switches, resolve
from strata.commands.demo_profiles import DEMO_FIXED, DEMO_OPTIONS, choose_demo, without_what_is_off
from strata.commands.embedded_model import model_or_embedded
from strata.commands.option_table import variable_of
from strata.commands.options import DemoOptions
from strata.commands.serve_options import written_options
from strata.commands.source_names import named_by_source
from strata.config.context import MIN_CONTEXT_TOKENS
from strata.config.lending import check_place
from strata.config.refusals import check_config
from strata.config.values import Command, ServeConfig
from strata.core.errors import ConfigError, Refusal


def resolve_serve(arguments: argparse.Namespace) -> Resolved:
    """Of `serve` and `plan`, which judges as if it served. Raises ConfigError."""
    model = model_or_embedded(arguments.model, drafter=arguments.mtp)
    return _noticed(resolve(model, written_options(arguments), os.environ))


def resolve_demo(arguments: argparse.Namespace) -> tuple[Resolved, DemoOptions]:
    """Of the server that the demo starts as its child, with the same environment: what is written comes before the
    environment and the file, and these before the demo's own defaults. Raises ConfigError with what can be refused
    before there is a model."""
    profile, model = choose_demo(arguments.model)
    written: dict[str, Written] = {
        name: value for name in DEMO_OPTIONS if (value := getattr(arguments, name)) is not None
    }
    written |= DEMO_FIXED
    by_user = resolve("", written, os.environ)
    profile = without_what_is_off(profile, by_user.config, by_user.sources)
    options = {name: value for name, value in profile.options.items() if variable_of(name) not in by_user.sources}
    switches = {name: value for name, value in profile.switches.items() if name not in by_user.sources}
    serve_options = written | options
    resolved = _noticed(resolve("", serve_options, {**os.environ, **switches}))
    # What the demo has no option for can only be set in the environment, so that is how a refusal names it.
    not_offered = {variable_of(name): Source.ENVIRONMENT for name in options if name not in DEMO_OPTIONS}
    resolved = replace(resolved, sources={**resolved.sources, **not_offered})
    with named_by_source(resolved):
        refusals = check_config(resolved.config, command=Command.DEMO)
        _refuse([*refusals, *_check_demo(resolved.config, profile.context_tokens)])
    return resolved, DemoOptions(
        profile,
        serve_options,
        switches,
        cache_dir=arguments.cache_dir,
        model=model,
        api_key=resolved.config.api_key,
    )


def refuse_outside_server() -> None:
    """For `inspect`, which opens a model and serves nothing. Raises ConfigError when a switch is on that only a server
    can obey."""
    config = ServeConfig(model="", switches=read_switches(os.environ))
    _refuse([*check_place(config, command=Command.INSPECT)])


def _check_demo(config: ServeConfig, most_tokens: int) -> list[Refusal]:
    """`most_tokens`: what the conversation may take."""
    context_tokens = config.context_tokens
    if context_tokens is None or not MIN_CONTEXT_TOKENS <= context_tokens < most_tokens:
        return []
    return [
        Refusal(
            f"ctx refused: ctx={context_tokens} tokens, the demo's conversation takes up to {most_tokens}; "
            f"give --ctx {most_tokens} or more"
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
