"""Everything that happened in a world, as lines with virtual times, and their hash.

Two runs that differ anywhere have different hashes, so equal hashes show that nothing came from outside.
"""

from collections.abc import Callable
from hashlib import sha256

import trio


class Journal:
    """`sink` gets every line as text, for whoever looks for the place where two runs part."""

    def __init__(self, sink: Callable[[str], None] | None = None) -> None:
        self._hash, self._sink = sha256(), sink

    def note(self, who: str, what: str, data: bytes = b"") -> None:
        line = f"{trio.current_time()!r} {who} {what} {data!r}\n"
        self._hash.update(line.encode("utf-8", "backslashreplace"))
        if self._sink is not None:
            self._sink(line)

    def digest(self) -> str:
        return self._hash.hexdigest()
