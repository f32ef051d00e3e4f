"""`strata serve`: plans first, so that a refusal costs nothing, and only then loads what computes."""

import os
import signal
import sys
from functools import partial
from pathlib import Path
from types import FrameType

from strata.commands.doctor import refuse_without_card
from strata.config.values import DeviceChoice, ServeConfig
from strata.core.errors import ConfigError
from strata.output_file import check_target
from strata.planning import plan_model


def run(config: ServeConfig) -> int:
    """The exit code. Raises ConfigError with every reason not to start, without torch."""
    planned = plan_model(config)
    _check_files(config)
    if config.device is DeviceChoice.CUDA:
        refuse_without_card()
    for number, exit_code in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
        signal.signal(number, partial(_leave, exit_code))
    from strata.boot import run_server

    return run_server(planned)


def _check_files(config: ServeConfig) -> None:
    """A file that cannot be written must be known before anything breaks."""
    files = (("trace", config.trace_file, "a trace"), ("warm-start", config.warm_start_file, "a file of expert usage"))
    reasons = [
        f"{option} refused: {reason}; give --{option} a file in a folder that can be written"
        for option, path, kind in files
        if path is not None and (reason := check_target(Path(path), kind=kind))
    ]
    trace, usage = config.trace_file, config.warm_start_file
    if trace is not None and usage is not None and Path(trace).resolve() == Path(usage).resolve():
        reasons.append(f"warm-start refused: {usage} is the file of --trace, too; give --warm-start another file")
    if reasons:
        raise ConfigError(*reasons)


def _leave(exit_code: int, number: int, frame: FrameType | None) -> None:
    """Asked to stop before anything serves: at once. An exception instead could be swallowed by whatever is being
    imported, and there is nothing yet that would have to be put in order."""
    print("strata: stopped while starting", file=sys.stderr, flush=True)
    os._exit(exit_code)
