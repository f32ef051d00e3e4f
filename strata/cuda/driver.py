"""The CUDA driver API, call by call: a result code becomes an exception, and the calling thread gets the context.

The only file that imports `cuda.bindings`, and only when a card is opened. `api` is that module, or anything with the
same functions: each returns a tuple, the result code first. What the calls are for is written where they are made.
"""

import threading
from typing import Any

from strata.core.errors import ConfigError
from strata.cuda.errors import NOT_READY, CudaFailure


def load_api() -> Any:
    """The driver's functions. Raises ConfigError where the binding is not installed."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise ConfigError(f"device=cuda refused: {error}; in the checkout: pip install -e '.[gpu]'") from error
    return driver


class Driver:
    """Calls by name. Every part of this body shares one, and its one context."""

    __slots__ = ("_context", "_threads", "api")

    def __init__(self, api: Any) -> None:
        self.api = api
        self._context: Any = None
        self._threads = threading.local()

    def call(self, name: str, *arguments: Any) -> Any:
        """What the function returns beside its code: nothing, a value, or a tuple. Raises CudaFailure."""
        status, *values = getattr(self.api, name)(*arguments)
        if int(status):
            raise self._failure(name, status)
        return values[0] if len(values) == 1 else (tuple(values) or None)

    def is_done(self, name: str, *arguments: Any) -> bool:
        """Of a query: whether the work is over. Raises CudaFailure, also for what failed in that work."""
        (status, *_) = getattr(self.api, name)(*arguments)
        if not int(status):
            return True
        if int(status) == NOT_READY:  # asked again and again, so without the words for it
            return False
        raise self._failure(name, status)

    def use(self, context: Any) -> None:
        """From now on `attach` makes `context` current; None: there is none any more."""
        self._context = context
        self._threads = threading.local()

    def attach(self) -> None:
        """Make the context current in the calling thread: it is a property of threads, and the engine moves its work
        to a thread of its own. Once a thread, then free of charge."""
        if getattr(self._threads, "is_attached", False):
            return
        assert self._context is not None, "the card is closed"
        self.call("cuCtxSetCurrent", self._context)
        self._threads.is_attached = True

    def _failure(self, name: str, status: Any) -> CudaFailure:
        code = self._text("cuGetErrorName", status) or f"CUresult {int(status)}"
        text = self._text("cuGetErrorString", status) or "an error that this driver has no words for"
        return CudaFailure(f"{name} failed: {code}: {text}", code=code)

    def _text(self, name: str, status: Any) -> str:
        unknown, text = getattr(self.api, name)(status)
        return "" if int(unknown) or text is None else bytes(text).decode("utf-8", "replace")
