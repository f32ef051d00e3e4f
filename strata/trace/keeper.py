"""Keeps the tail of a server's run, and writes it when something breaks: a checker's word, an assertion, a lost device.

The file holds the token ids of prompts, so only its owner may read it, and it is replaced as a whole or not at all.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from strata.core.serving.request import GenerationRequest
from strata.device import Device
from strata.output_file import replace_file
from strata.trace.command_trace import write_trace
from strata.trace.entries import Noted
from strata.trace.recording import RecordingDevice
from strata.trace.tail import Tail


class Keeper:
    """Obeys `strata.engine.watched.Watch`, over a sealed device. `say` gets one line for each time that the file was,
    or could not be, written."""

    def __init__(self, device: Device, tail: Tail, path: Path, say: Callable[[str], None]) -> None:
        self.device = RecordingDevice(device, tail.keep, is_sealed=True)
        self._tail, self._path, self._say = tail, path, say

    def began(self, request: GenerationRequest) -> None:
        self.device.flush()
        self._tail.begin(request)

    def noted(self, what: str, **facts: Any) -> None:
        self.device.flush()
        self._tail.keep(Noted(what, facts))

    def broke(self, error: BaseException | None) -> None:
        reason = ("", "a fault outside the runner") if error is None else (type(error).__name__, str(error))
        self.noted("failure", error=reason[0], message=reason[1])
        trace = self._tail.trace({"server": {"error": reason[0], "message": reason[1]}})
        try:
            replace_file(self._path, write_trace(trace))
        except OSError as failed:
            self._say(f"the trace could not be written to {self._path}: {failed.strerror}")
        else:
            self._say(
                f"the last {len(self._tail):,} entries of {len(self._tail) + self._tail.num_skipped:,} are in "
                f"{self._path}, with the token ids of prompts; strata replay {self._path} plays them"
            )
