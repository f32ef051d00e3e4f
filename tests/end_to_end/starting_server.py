"""`python -m tests.end_to_end.starting_server MODEL`: a server that never gets past loading what computes."""

import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from strata.commands.serve import run
from strata.config.values import ServeConfig


class Stuck(MetaPathFinder):
    """Importing boot takes for ever, and swallows exceptions as an import of an extension may."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "strata.boot":
            print("loading", flush=True)
            while True:
                try:
                    signal.pause()
                except BaseException as error:
                    print(f"swallowed {error!r}", flush=True)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, Stuck())
    sys.exit(run(ServeConfig(sys.argv[1], vram_bytes=16 << 20, port=0)))
