"""What `strata chat` and `strata demo` can be told. Light: `strata --help` imports it."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_URL = "http://127.0.0.1:8080"


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
    """`min_cache_slots`: so few that the cache of a small card may lend. `cache_dir` None: the user's cache folder.
    `model` None: the demo model, made when it is not in the cache.
    `api_key`: what the server was told to ask for, by the environment that it shares with the demo."""

    vram: str = "256MiB"
    context_tokens: int = 2048
    min_cache_slots: int = 16
    cache_dir: Path | None = None
    model: Path | None = None
    api_key: str | None = field(default=None, repr=False)


def add_chat_arguments(parser: argparse.ArgumentParser) -> None:
    """The server checks the values: it knows the limits."""
    parser.add_argument("--url", default=DEFAULT_URL, help="address of the server (default: %(default)s)")
    parser.add_argument("--api-key", metavar="KEY", help="the key that the server was started with")
    parser.add_argument("--system", metavar="TEXT", help="system message of every conversation")
    parser.add_argument("--temperature", type=float, metavar="X", help="0 is greedy (default: the server's)")
    parser.add_argument("--seed", type=int, metavar="N", help="same seed, same answer (default: the server's)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="longest answer (default: what the context leaves)")


def chat_options(arguments: argparse.Namespace) -> ChatOptions:
    return ChatOptions(
        url=arguments.url,
        api_key=arguments.api_key,
        system=arguments.system,
        temperature=arguments.temperature,
        seed=arguments.seed,
        max_tokens=arguments.max_tokens,
    )


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = DemoOptions()
    parser.add_argument("--vram", default=defaults.vram, metavar="SIZE", help="the virtual card (default: %(default)s)")
    parser.add_argument(
        "--ctx", type=int, default=defaults.context_tokens, metavar="N", help="context in tokens (default: %(default)s)"
    )
    parser.add_argument(
        "--cache-dir",
        type=Path,
        metavar="DIR",
        help="where the demo model is kept (default: $XDG_CACHE_HOME/strata, or ~/.cache/strata)",
    )
    parser.add_argument("--model", type=Path, metavar="FILE", help="another GGUF file instead of the demo model")


def demo_options(arguments: argparse.Namespace, *, api_key: str | None = None) -> DemoOptions:
    return DemoOptions(
        vram=arguments.vram,
        context_tokens=arguments.ctx,
        cache_dir=arguments.cache_dir,
        model=arguments.model,
        api_key=api_key,
    )
