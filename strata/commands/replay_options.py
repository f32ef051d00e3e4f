"""What `strata replay` can be told. Light: `strata --help` imports it."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from strata.core.errors import ConfigError

DEVICES = ("twin", "cuda", "both")
PAYLOADS = ("bytes", "none")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """`device`: one of DEVICES. `has_bytes`: the twin has real bytes, so that there are digests. `chrome`, `svg`: files
    to write."""

    trace: Path
    device: str = "twin"
    has_bytes: bool = True
    is_json: bool = False
    chrome: Path | None = None
    svg: Path | None = None


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trace", metavar="TRACE", type=Path, help="a trace of decisions or of commands (docs/traces.md)"
    )
    parser.add_argument(
        "--device",
        default="twin",
        choices=DEVICES,
        help="what the commands are played onto: the twin checks, cuda is a card in several orders of its streams, "
        "both compares them step by step (default: twin)",
    )
    parser.add_argument(
        "--payload",
        default="bytes",
        choices=PAYLOADS,
        help="of a trace of commands: bytes gives digests, none is faster and keeps all checks (default: bytes)",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON, for programs")
    parser.add_argument("--chrome", metavar="FILE", type=Path, help="write the commands for a trace viewer, too")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="write a picture of the card over the commands, too")


def replay_options(arguments: argparse.Namespace) -> ReplayOptions:
    """Raises ConfigError for what does not go together."""
    if arguments.device != "twin" and arguments.payload == "none":
        raise ConfigError(
            f"--payload=none refused: --device={arguments.device} compares bytes; leave --payload out, or give "
            "--device twin"
        )
    return ReplayOptions(
        arguments.trace,
        device=arguments.device,
        has_bytes=arguments.payload == "bytes",
        is_json=arguments.json,
        chrome=arguments.chrome,
        svg=arguments.svg,
    )
