"""One process a card while loans are on (`lending.md` 5, invariant 45): a file named by the card's UUID, locked.

The lock is flock(2)'s and belongs to the open file, so that a process which is killed has let go of it. The file stays
where it is and means nothing by itself. Whoever may open the folder sees it, whichever user he is.
"""

import fcntl
import os
from pathlib import Path

from strata.core.errors import ConfigError

LOCK_FOLDER = Path("/tmp")
"""The same for every process of the machine, whatever its TMPDIR."""


class CardLock:
    """Held until `close`. Raises ConfigError where another process, or another card of this one, holds it."""

    __slots__ = ("_file", "path")

    def __init__(self, uuid: str, *, folder: Path) -> None:
        self.path = folder / f"strata-{uuid}.lock"
        try:
            self._file = _open(self.path)
        except OSError as error:
            raise ConfigError(
                f"device=cuda refused: the lock file {self.path} cannot be opened: {error.strerror}; make it readable "
                "for this user, or remove it"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._file)
            raise ConfigError(
                f"device=cuda refused: another process lends memory of card {uuid} (it holds {self.path}); stop it, or "
                "choose another card with CUDA_VISIBLE_DEVICES"
            ) from error

    def close(self) -> None:
        os.close(self._file)


def _open(path: Path) -> int:
    """For reading alone, so that it may be another user's; in a folder like /tmp such a file must not be opened as one
    to be created."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o444)
