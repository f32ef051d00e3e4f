"""The command line: names, options, and which module runs them. Imports each command only when it is called, so that
help, `inspect`, `plan` and every refusal come without torch.

Exit codes: 0 done, 1 failed while running, 2 refused (one line a reason on stderr), 70 the device was lost.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from strata.commands.bench_options import add_bench_arguments, bench_options
from strata.commands.embedded_model import model_or_embedded
from strata.commands.options import add_chat_arguments, add_demo_arguments, chat_options
from strata.commands.parsing import CommandParser, ShowVersion
from strata.commands.replay_options import add_replay_arguments, replay_options
from strata.commands.serve_options import add_model_argument, add_plan_arguments, add_serve_arguments
from strata.commands.source_names import named_by_source
from strata.commands.starting import refuse_outside_server, resolve_demo, resolve_serve
from strata.core.errors import ConfigError

DESCRIPTION = "Serves mixture-of-experts GGUF models larger than the card over an OpenAI-compatible streaming API."


def main(arguments: Sequence[str] | None = None) -> int:
    parsed, unknown = build_parser().parse_known_args(arguments)
    if unknown:
        parsed.parser.refuse(unknown)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        exit_code = run(parsed)
        sys.stdout.flush()
    except ConfigError as error:
        for reason in error.reasons:
            print(f"strata: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has enough of it (`strata plan MODEL | head`). Python flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return exit_code


def build_parser() -> CommandParser:
    parser = CommandParser(prog="strata", description=DESCRIPTION)
    parser.add_argument("--version", action=ShowVersion, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    serve = commands.add_parser(
        "serve", help="serve a model over HTTP", description="Serve a GGUF model over HTTP.", usage=_usage("serve")
    )
    add_serve_arguments(serve)
    serve.set_defaults(run=_serve, parser=serve)

    chat = commands.add_parser(
        "chat",
        help="talk to a running server in the terminal",
        description="Talk to a running server in the terminal. Inside, /reset starts a new conversation, /quit leaves.",
    )
    add_chat_arguments(chat)
    chat.set_defaults(run=_chat, parser=chat)

    demo = commands.add_parser(
        "demo",
        help="watch a real model answer from a virtual card",
        description="Serve a small model on a virtual card that is smaller than its experts, and talk to it.",
    )
    add_demo_arguments(demo)
    demo.set_defaults(run=_demo, parser=demo)

    inspect = commands.add_parser(
        "inspect", help="say what a model file holds", description="Say what a model file holds, from its header alone."
    )
    add_model_argument(inspect)
    inspect.set_defaults(run=_inspect, parser=inspect)

    doctor = commands.add_parser(
        "doctor",
        help="say whether this machine can serve, and what is missing",
        description="Say what this machine has and lacks for serving. Exit code 0 when some device can serve, else 1.",
    )
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.set_defaults(run=_doctor, parser=doctor)

    plan = commands.add_parser(
        "plan",
        help="show the memory map that serve would choose",
        description="Show the memory map that serve would choose with the same options, or what is missing for one.",
        usage=_usage("plan"),
    )
    add_plan_arguments(plan)
    plan.set_defaults(run=_plan, parser=plan)

    bench = commands.add_parser(
        "bench",
        help="measure prompts and replies through the engine, without a server",
        description="Measure prompts and replies of random tokens through the engine that serve would start.",
        usage=_usage("bench"),
    )
    add_bench_arguments(bench)
    bench.set_defaults(run=_bench, parser=bench)

    replay = commands.add_parser(
        "replay",
        help="play a trace again",
        description="Play a trace again: decisions through the core as it is, commands as they were given. Exit code 1 "
        "when something is refused.",
    )
    add_replay_arguments(replay)
    replay.set_defaults(run=_replay, parser=replay)
    return parser


def _usage(command: str) -> str:
    """One line: a mistake must not be buried under all the options, which the help lists anyway."""
    return f"strata {command} [MODEL] [OPTION ...]"


def _serve(arguments: argparse.Namespace) -> int:
    resolved = resolve_serve(arguments)
    from strata.commands.serve import run

    with named_by_source(resolved):
        return run(resolved.config)


def _chat(arguments: argparse.Namespace) -> int:
    options = chat_options(arguments, os.environ)
    from strata.commands.chat import run

    return run(options)


def _demo(arguments: argparse.Namespace) -> int:
    resolved, options = resolve_demo(arguments)
    from strata.commands.demo import run

    with named_by_source(resolved):
        return run(options, resolved.config)


def _inspect(arguments: argparse.Namespace) -> int:
    refuse_outside_server()
    from strata.commands.inspect import run

    return run(model_or_embedded(arguments.model))


def _doctor(arguments: argparse.Namespace) -> int:
    refuse_outside_server()
    from strata.commands.doctor import run

    return run(is_json=arguments.json)


def _plan(arguments: argparse.Namespace) -> int:
    resolved = resolve_serve(arguments)
    from strata.commands.plan import run

    with named_by_source(resolved):
        return run(resolved.config, is_json=arguments.json)


def _bench(arguments: argparse.Namespace) -> int:
    resolved = resolve_serve(arguments)
    options = bench_options(arguments, room_min=resolved.config.switches.mtp_room_min)
    from strata.commands.bench import run

    with named_by_source(resolved):
        return run(resolved.config, options)


def _replay(arguments: argparse.Namespace) -> int:
    options = replay_options(arguments)
    from strata.commands.replay import run

    return run(options)
