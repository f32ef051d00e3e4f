"""`strata serve` as a child process that never outlives its parent's `with` block.

Decides when a child counts as started (it prints its address), and how it ends: SIGTERM, the server's own grace,
then SIGKILL. Knows nothing of models or the API.
"""

import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, MappingProxyType

STARTUP_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 30.0
"""More than the server's shutdown grace of 20 s, so that a clean end is not cut short."""

EXIT_REFUSED = 2

_SERVING = re.compile(r"strata: serving (?P<model_id>.+) on (?P<url>https?://\S+)")

_Found = queue.SimpleQueue[re.Match[str] | None]


class ChildFailed(Exception):
    """The server did not start, or did not end well. One line, and what it wrote to stderr last."""


class ChildRefused(ChildFailed):
    """The server would not start, and said why: `reasons`, one line each."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class ChildServer:
    """A server that has printed its address."""

    def __init__(self, process: subprocess.Popen[str], *, url: str, model_id: str, log: str) -> None:
        self.url, self.model_id = url, model_id
        self._process, self._log = process, log

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> int:
        """SIGTERM, wait, and give the exit code. Raises ChildFailed when it had to be killed."""
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ChildFailed(f"the server did not end within {STOP_TIMEOUT_S:.0f} s of SIGTERM") from None

    def last_words(self) -> str:
        """The end of what the server wrote to stderr."""
        return _tail(self._log)


@contextmanager
def child_server(
    command: Sequence[str],
    startup_timeout_s: float = STARTUP_TIMEOUT_S,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[ChildServer]:
    """Run `command`, in our environment and what `environment` adds, until the block ends, however it ends; SIGTERM to
    this process counts as Ctrl-C meanwhile.

    Raises ChildRefused when the child refuses to start, and ChildFailed when it ends otherwise, or stays silent for too
    long, before it has printed its address."""
    with tempfile.NamedTemporaryFile("w", prefix="strata-serve-", suffix=".log") as log, _sigterm_as_interrupt():
        # A process group of its own: Ctrl-C reaches us alone, and we end the child in order.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            process_group=0,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )
        found: _Found = queue.SimpleQueue()
        reader = threading.Thread(target=_read_stdout, args=(process, found), name="child-stdout", daemon=True)
        try:
            reader.start()
            serving = _wait_for_address(process, found, log.name, startup_timeout_s)
            yield ChildServer(process, url=serving["url"], model_id=serving["model_id"], log=log.name)
        finally:
            _end(process)
            reader.join()


def _read_stdout(process: subprocess.Popen[str], found: _Found) -> None:
    """Finds the address, then goes on to the end: a full pipe would stop the server at its next line."""
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            match = _SERVING.match(line)
            if match is not None:
                found.put(match)
    found.put(None)


def _wait_for_address(process: subprocess.Popen[str], found: _Found, log: str, timeout_s: float) -> re.Match[str]:
    try:
        match = found.get(timeout=timeout_s)
    except queue.Empty:
        raise ChildFailed(f"the server printed no address within {timeout_s:.0f} s: {_tail(log)}") from None
    if match is None:
        if process.wait() == EXIT_REFUSED and (reasons := _lines(log)):
            raise ChildRefused(*(reason.removeprefix("strata: ") for reason in reasons))
        raise ChildFailed(f"the server ended with exit code {process.wait()} before it served: {_tail(log)}")
    return match


def _end(process: subprocess.Popen[str]) -> None:
    """Whatever is left of the child is gone afterwards."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C: at once
            process.kill()
            process.wait()


def _tail(path: str, num_lines: int = 5) -> str:
    return " | ".join(_lines(path)[-num_lines:]) or "it wrote nothing to stderr"


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.strip() for line in file if line.strip()]


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers, and only there does Python run them
        return
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
