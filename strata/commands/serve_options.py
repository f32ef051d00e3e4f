"""What `serve`, `plan` and `inspect` can be told. Light: `strata --help` imports it."""

import argparse

from strata.core.config import DEFAULT_TWIN_VRAM_BYTES, MAX_DEFAULT_CONTEXT_TOKENS, DeviceChoice, ServeConfig
from strata.core.kv import KvFormat
from strata.core.units import format_bytes, parse_size

_DEFAULTS = ServeConfig(model="")


def add_model_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="a GGUF file, any shard of a split set, or its folder"
    )


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_argument(parser)
    _add_memory_arguments(parser)
    parser.add_argument("--json", action="store_true", help="the map as JSON, for programs")


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_argument(parser)
    _add_memory_arguments(parser)
    parser.add_argument("--host", default=_DEFAULTS.host, help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=_DEFAULTS.port, help="port to listen on, 0 for any free one (default: %(default)s)"
    )
    parser.add_argument("--api-key", metavar="KEY", help="clients must send it as a bearer token (default: none)")
    parser.add_argument(
        "--queue",
        type=int,
        default=_DEFAULTS.max_queued,
        metavar="N",
        help="requests that may wait; beyond them 503 (default: %(default)s)",
    )


def _add_memory_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        type=DeviceChoice,
        choices=list(DeviceChoice),
        default=_DEFAULTS.device,
        help="twin: a virtual card on the CPU; cuda: not in this version; auto: twin (default: %(default)s)",
    )
    parser.add_argument(
        "--vram",
        type=_size,
        metavar="SIZE",
        help=f"bytes of the card, like 8GiB (default: {format_bytes(DEFAULT_TWIN_VRAM_BYTES)} on the twin)",
    )
    parser.add_argument(
        "--ctx",
        type=int,
        metavar="N",
        help=f"context in tokens (default: the model's, at most {MAX_DEFAULT_CONTEXT_TOKENS:,})",
    )
    parser.add_argument(
        "--kv",
        type=KvFormat,
        choices=list(KvFormat),
        default=_DEFAULTS.kv_format,
        help="how K and V are stored (default: %(default)s)",
    )


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def serve_config(arguments: argparse.Namespace) -> ServeConfig:
    """`plan` has no address: it judges as if it served on the default one."""
    return ServeConfig(
        model=arguments.model,
        device=arguments.device,
        vram_bytes=arguments.vram,
        context_tokens=arguments.ctx,
        kv_format=arguments.kv,
        host=getattr(arguments, "host", _DEFAULTS.host),
        port=getattr(arguments, "port", _DEFAULTS.port),
        api_key=getattr(arguments, "api_key", None),
        max_queued=getattr(arguments, "queue", _DEFAULTS.max_queued),
    )
