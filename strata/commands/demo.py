"""`strata demo`: a real model answers from a virtual card that is smaller than its experts, over the real API.

Decides what is asked, what is shown, and what makes the demo a failure. The server is a child process started the
way anybody would start it; everything shown comes over HTTP, the card's map and counters from GET /debug/card:

    {"rows": [{"owner": str, "offset_bytes": int, "size_bytes": int}, ...],
     "chunk_tokens": int, "ring_slots": int, "statistics": {every field of EngineStatistics}}
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import httpx

from strata.commands.api_client import ApiError, Completed, connect, get_json, stream_chat
from strata.commands.child_server import ChildFailed, ChildRefused, child_server
from strata.commands.demo_model import demo_model
from strata.commands.demo_report import DemoFigures, Turn, check_demo, figures_of, read_card, report_lines
from strata.commands.options import DemoOptions
from strata.commands.terminal_text import Sanitizer
from strata.config.values import ServeConfig
from strata.core.errors import ConfigError
from strata.planning import plan_model

SYSTEM = "You are a helpful assistant. You answer in one short sentence."
TEMPERATURE = 0.2
SEED = 7

StartCommand = Callable[[Path, DemoOptions], Sequence[str]]


def serve_command(model: Path, options: DemoOptions) -> Sequence[str]:
    """The server, exactly as a person would start it."""
    written = [word for name, value in options.serve_options.items() for word in _words(name, value)]
    return [sys.executable, "-m", "strata", "serve", str(model), *written]


def _words(name: str, value: str | bool) -> tuple[str, ...]:
    """A flag is its name, and so is --mtp for the model's own block."""
    return (f"--{name}",) if value is True or (name, value) == ("mtp", "1") else (f"--{name}", str(value))


def run(options: DemoOptions, config: ServeConfig) -> int:
    """The demo, on a card that was planned first. `config`: the server's, whose model is not chosen yet.

    Raises ConfigError when the card cannot be, or when there is no model and none can be made."""
    model = options.model or demo_model(options.cache_dir)
    plan_model(replace(config, model=str(model)))
    return show(model, options)


def show(model: Path, options: DemoOptions, start_command: StartCommand = serve_command) -> int:
    """0 when everything held, 1 when the demo failed, 130 on Ctrl-C. The server is gone in every case.

    Raises ConfigError with the server's own reasons when it refuses to start."""
    try:
        figures, failures = _run_server(start_command(model, options), options)
    except ChildRefused as error:
        raise ConfigError(*error.reasons) from error
    except (ApiError, ChildFailed) as error:
        failures = (str(error),)
    except KeyboardInterrupt:
        print("\ndemo: stopped", file=sys.stderr)
        return 130
    for reason in failures:
        print(f"demo: failed: {reason}", file=sys.stderr)
    if failures:
        return 1
    print(figures.last_line(), flush=True)
    return 0


def _run_server(command: Sequence[str], options: DemoOptions) -> tuple[DemoFigures, tuple[str, ...]]:
    switches = [f"{name}={value}" for name, value in options.switches.items()]
    print("$", *switches, "strata", *command[3:], flush=True)
    started_s = time.monotonic()
    with child_server(command, environment=options.switches) as server:
        print(f"serving {server.model_id} on {server.url} after {time.monotonic() - started_s:.1f} s\n", flush=True)
        with connect(server.url, options.api_key) as client:
            try:
                before = get_json(client, "/debug/card")
                turns = _converse(client, server.model_id, options.profile.turns)
                card = read_card(before, get_json(client, "/debug/card"))
            except ApiError as error:
                raise ChildFailed(f"{error}; the server's last words: {server.last_words()}") from error
        exit_code = server.stop()
    figures = figures_of(turns, card)
    print("\n".join(report_lines(turns, card)), flush=True)
    has_drafter = options.profile.has_drafter
    return figures, check_demo(turns, figures, card, has_drafter=has_drafter, exit_code=exit_code)


def _converse(client: httpx.Client, model_id: str, asked: Sequence[tuple[str, int]]) -> list[Turn]:
    messages = [{"role": "system", "content": SYSTEM}]
    turns: list[Turn] = []
    for question, max_tokens in asked:
        print(f"> {question}\n", flush=True)
        messages.append({"role": "user", "content": question})
        turns.append(_ask(client, model_id, messages, max_tokens))
        messages.append({"role": "assistant", "content": turns[-1].text})
    return turns


def _ask(client: httpx.Client, model_id: str, messages: Sequence[dict[str, str]], max_tokens: int) -> Turn:
    """One reply, printed as it comes. Raises ApiError when the stream breaks."""
    asked_s = time.monotonic()
    first_s: float | None = None
    sanitizer, text = Sanitizer(), ""
    options = {"model": model_id, "max_tokens": max_tokens, "temperature": TEMPERATURE, "seed": SEED}
    for update in stream_chat(client, messages, **options):
        first_s = time.monotonic() if first_s is None else first_s
        if isinstance(update, Completed):
            print("\n", flush=True)
            return Turn(text, 1e3 * (first_s - asked_s), update)
        text += update.text
        print(sanitizer.feed(update.text), end="", flush=True)
    raise AssertionError("stream_chat ends with Completed or raises")
