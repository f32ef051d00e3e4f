"""`python -m tests.end_to_end.dying_server N MODEL [TRACE]`: every command of its card fails from the N-th on."""

import sys
from functools import partial

from strata import boot
from strata.config.values import ServeConfig
from strata.core.errors import DeviceError
from strata.planning import plan_model


def main() -> int:
    first = int(sys.argv[1])

    def faults(index: int, command: object) -> None:
        if index >= first:
            raise DeviceError("the card fell off the bus", command)

    boot.SimDevice = partial(boot.SimDevice, faults=faults)  # type: ignore[misc, assignment]
    trace = sys.argv[3] if len(sys.argv) > 3 else None
    return boot.run_server(plan_model(ServeConfig(sys.argv[2], vram_bytes=16 << 20, port=0, trace_file=trace)))


if __name__ == "__main__":
    sys.exit(main())
