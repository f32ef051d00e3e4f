"""What `strata chat` and `strata demo` can be told. Light: `strata --help` imports it."""

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from strata.commands.config_sources import URL_VARIABLE
from strata.commands.demo_profiles import ANY, DEMO_FIXED, SMOLLM2, STRATA_TINY, TINY, DemoProfile
from strata.core.errors import ConfigError

DEFAULT_URL = "http://127.0.0.1:8080"
KEY_VARIABLE = "STRATA_API_KEY"
MAX_TEMPERATURE = 2.0
"""Of the API."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """`temperature`, `seed` and `max_tokens` are the server's defaults when None; `system` None: no system message."""

    url: str = DEFAULT_URL
    api_key: str | None = None
    system: str | None = None
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`serve_options`: by name, what the server is told on its command line, and `switches` in its environment; all
    else it takes from the environment that it shares with the demo. `cache_dir` None: the user's cache folder. `model`
    None: the mixture, made when it is not in the cache. `api_key`: what the server was told to ask for."""

    profile: DemoProfile = ANY
    serve_options: Mapping[str, str | bool] = field(default_factory=lambda: {**DEMO_FIXED, **ANY.options})
    switches: Mapping[str, str] = field(default_factory=dict)
    cache_dir: Path | None = None
    model: Path | None = None
    api_key: str | None = field(default=None, repr=False)


def add_chat_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help=f"address of the server (default: {URL_VARIABLE}, or {DEFAULT_URL})")
    parser.add_argument(
        "--api-key", metavar="KEY", help=f"the key that the server was started with (default: {KEY_VARIABLE}, or none)"
    )
    parser.add_argument("--system", metavar="TEXT", help="system message of every conversation")
    parser.add_argument("--temperature", type=float, metavar="X", help="0 is greedy (default: the server's)")
    parser.add_argument("--seed", type=int, metavar="N", help="same seed, same answer (default: the server's)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="longest answer (default: what the context leaves)")


def chat_options(arguments: argparse.Namespace, environment: Mapping[str, str]) -> ChatOptions:
    """Raises ConfigError for what no server would take."""
    options = ChatOptions(
        url=environment.get(URL_VARIABLE, DEFAULT_URL) if arguments.url is None else arguments.url,
        api_key=environment.get(KEY_VARIABLE) if arguments.api_key is None else arguments.api_key,
        system=arguments.system,
        temperature=arguments.temperature,
        seed=arguments.seed,
        max_tokens=arguments.max_tokens,
    )
    reasons = [*_check_chat(options)]
    if reasons:
        raise ConfigError(*reasons)
    return options


def _check_chat(options: ChatOptions) -> Iterator[str]:
    if options.api_key == "":
        yield f"api-key refused: it is empty; give a key, or leave --api-key out and unset {KEY_VARIABLE}"
    temperature = options.temperature
    if temperature is not None and not (math.isfinite(temperature) and 0 <= temperature <= MAX_TEMPERATURE):
        yield f"temperature refused: temperature={temperature:g}; give --temperature 0 to {MAX_TEMPERATURE:g}"
    if options.seed is not None and not -(2**63) <= options.seed < 2**63:
        yield f"seed refused: seed={options.seed}; give --seed a number of 64 bits"
    if options.max_tokens is not None and options.max_tokens < 1:
        yield f"max-tokens refused: max-tokens={options.max_tokens} tokens; give --max-tokens 1 or more"


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    for name, metavar, meaning in (("vram", "SIZE", "the virtual card"), ("ctx", "N", "context in tokens")):
        usual, tiny = ANY.options[name], TINY.options[name]
        text = f"{meaning} (default: STRATA_{name.upper()}, or {tiny} for {STRATA_TINY}, else {usual})"
        parser.add_argument(f"--{name}", metavar=metavar, help=text)
    parser.add_argument(
        "--cache-dir",
        type=Path,
        metavar="DIR",
        help=f"where the mixture of {SMOLLM2} is kept (default: $XDG_CACHE_HOME/strata, or ~/.cache/strata)",
    )
    parser.add_argument(
        "--model",
        metavar="NAME|FILE",
        help=f"{SMOLLM2}, a mixture that is made on this machine, or a GGUF file (default: {STRATA_TINY}, the model "
        "that comes with strata)",
    )
