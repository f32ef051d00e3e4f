"""The command line: names, options, and which module runs them. Imports each command only when it is called, so that
help, `inspect`, `plan` and every refusal come without torch.

Exit codes: 0 done, 1 failed while running, 2 refused (one line a reason on stderr), 70 the device was lost.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from strata.commands.options import add_chat_arguments, add_demo_arguments, chat_options, demo_options
from strata.commands.serve_options import add_model_argument, add_plan_arguments, add_serve_arguments
from strata.commands.starting import demo_config, refuse_outside_server, serve_config
from strata.core.errors import ConfigError

DESCRIPTION = "Serves mixture-of-experts GGUF models larger than the card over an OpenAI-compatible streaming API."


def main(arguments: Sequence[str] | None = None) -> int:
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        return run(parsed)
    except ConfigError as error:
        for reason in error.reasons:
            print(f"strata: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="strata", description=DESCRIPTION)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    serve = commands.add_parser(
        "serve", help="serve a model over HTTP", description="Serve a GGUF model over HTTP.", allow_abbrev=False
    )
    add_serve_arguments(serve)
    serve.set_defaults(run=_serve)

    chat = commands.add_parser("chat", help="talk to a running server in the terminal")
    add_chat_arguments(chat)
    chat.set_defaults(run=_chat)

    demo = commands.add_parser("demo", help="watch a real model answer from a virtual card")
    add_demo_arguments(demo)
    demo.set_defaults(run=_demo)

    inspect = commands.add_parser("inspect", help="say what a model file holds")
    add_model_argument(inspect)
    inspect.set_defaults(run=_inspect)

    plan = commands.add_parser("plan", help="show the memory map that serve would choose", allow_abbrev=False)
    add_plan_arguments(plan)
    plan.set_defaults(run=_plan)
    return parser


def _serve(arguments: argparse.Namespace) -> int:
    config = serve_config(arguments)
    from strata.commands.serve import run

    return run(config)


def _chat(arguments: argparse.Namespace) -> int:
    from strata.commands.chat import run

    return run(chat_options(arguments))


def _demo(arguments: argparse.Namespace) -> int:
    api_key = demo_config(arguments).api_key
    from strata.commands.demo import run

    return run(demo_options(arguments, api_key=api_key))


def _inspect(arguments: argparse.Namespace) -> int:
    refuse_outside_server()
    from strata.commands.inspect import run

    return run(arguments.model)


def _plan(arguments: argparse.Namespace) -> int:
    from strata.commands.plan import run

    return run(serve_config(arguments), is_json=arguments.json)
