"""What `strata bench` can be told beside the options of a server. Light: `strata --help` imports it."""

import argparse
from dataclasses import dataclass
from typing import TypeVar

from strata.commands.serve_options import add_serve_arguments
from strata.core.errors import ConfigError

Value = TypeVar("Value")

DEFAULT_PROMPTS = "4096,16384"
DEFAULT_GENERATED = 64
DEFAULT_ROUNDS = 5
DEFAULT_TURNS = 3
LOANS = ("on", "off", "ab")
UNSET = "unset"


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """A cold chat of `tokens` and `turns` continuations of it, once for each threshold of the room; None: unset."""

    tokens: int
    turns: int
    room_mins: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """`prompts`: tokens of each prompt, `generated`: tokens of each reply, `rounds`: how often each is served behind
    one that is not counted. `loans`: the lending switches as they are set, or none of them; both are two arms. With
    `chat`, only that is measured."""

    prompts: tuple[int, ...]
    generated: int
    rounds: int
    loans: tuple[bool, ...]
    chat: ChatOptions | None = None
    is_json: bool = False


def add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    add_serve_arguments(parser)
    group = parser.add_argument_group("bench")
    group.add_argument(
        "--prompt", default=DEFAULT_PROMPTS, metavar="N,...", help=f"tokens of prompts (default: {DEFAULT_PROMPTS})"
    )
    group.add_argument(
        "--gen", type=int, default=DEFAULT_GENERATED, metavar="N", help="tokens of a reply (default: %(default)s)"
    )
    group.add_argument(
        "--rounds", type=int, default=DEFAULT_ROUNDS, metavar="N", help="of each measurement (default: %(default)s)"
    )
    group.add_argument(
        "--loans",
        default="on",
        choices=LOANS,
        help="on: lending switches as they are set; off: none of them; ab: both, turn by turn (default: %(default)s)",
    )
    group.add_argument(
        "--chat", type=int, metavar="N", help="instead of prompts: a cold chat of N tokens, then --turns that go on"
    )
    group.add_argument(
        "--turns", type=int, default=DEFAULT_TURNS, metavar="N", help="turns of --chat (default: %(default)s)"
    )
    group.add_argument(
        "--room-min",
        metavar="N,...",
        help="arms of --chat: values of STRATA_MTP_ROOM_MIN, or `unset` (default: as it is set)",
    )
    group.add_argument("--json", action="store_true", help="the figures as JSON, for programs")


def bench_options(arguments: argparse.Namespace, *, room_min: int) -> BenchOptions:
    """`room_min`: as it is set. Raises ConfigError for what cannot be measured."""
    reasons = [
        f"{name} refused: {name}={value}; give --{name} {least} or more"
        for name, value, least in (
            ("gen", arguments.gen, 2),
            ("rounds", arguments.rounds, 1),
            ("turns", arguments.turns, 1),
            ("chat", arguments.chat if arguments.chat is not None else 2, 2),
        )
        if value < least
    ]
    if arguments.room_min is not None and arguments.chat is None:
        reasons.append("room-min refused: it names the arms of a chat; give --chat N, or set STRATA_MTP_ROOM_MIN")
    if arguments.chat is not None and arguments.loans != "on":
        reasons.append(f"loans refused: loans={arguments.loans} with --chat, whose arms are those of --room-min")
    if reasons:
        raise ConfigError(*reasons)
    chat = None
    if arguments.chat is not None:
        mins = (None if room_min < 0 else room_min,) if arguments.room_min is None else _room_mins(arguments.room_min)
        chat = ChatOptions(arguments.chat, arguments.turns, mins)
    prompts = _each_once("prompt", tuple(_tokens(text.strip()) for text in arguments.prompt.split(",")))
    loans = (True, False) if arguments.loans == "ab" else (arguments.loans == "on",)
    return BenchOptions(prompts, arguments.gen, arguments.rounds, loans, chat, arguments.json)


def _tokens(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise ConfigError(f"prompt refused: {text!r} is no number of tokens of 2 or more; give --prompt 4096,16384")
    return int(text)


def _room_mins(text: str) -> tuple[int | None, ...]:
    mins = tuple(part.strip() for part in text.split(","))
    if not all(part == UNSET or part.isdecimal() for part in mins):
        raise ConfigError(
            f"room-min refused: {text!r}; give numbers of fresh tokens or `unset`: --room-min 1024,0,unset"
        )
    return _each_once("room-min", tuple(None if part == UNSET else int(part) for part in mins))


def _each_once(name: str, values: tuple[Value, ...]) -> tuple[Value, ...]:
    if len(set(values)) < len(values):
        raise ConfigError(f"{name} refused: the same value twice; give each --{name} once, and --rounds for more")
    return values
