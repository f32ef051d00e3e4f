"""One process a card while loans are on (`lending.md` 5, invariant 45): a file named by the card's UUID, locked.

The lock is flock(2)'s and belongs to the open file, so that a process which is killed has let go of it. The file stays
where it is and means nothing by itself. Whoever may open the folder sees it, whichever user he is.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from strata.core.errors import ConfigError

LOCK_FOLDER = Path("/tmp")
"""The same for every process of the machine, whatever its TMPDIR."""


@dataclass(slots=True)
class _Held:
    file: int
    num_users: int


_held: dict[Path, _Held] = {}
_held_mutex = Lock()


class CardLock:
    """Held until `close`. A process may hold it several times, for arenas that it compares. Raises ConfigError where
    another process holds it."""

    __slots__ = ("path",)

    def __init__(self, uuid: str, *, folder: Path) -> None:
        self.path = folder / f"strata-{uuid}.lock"
        with _held_mutex:
            if self.path in _held:
                _held[self.path].num_users += 1
            else:
                _held[self.path] = _Held(_locked(self.path, uuid), num_users=1)

    def close(self) -> None:
        with _held_mutex:
            held = _held[self.path]
            held.num_users -= 1
            if held.num_users == 0:
                del _held[self.path]
                os.close(held.file)


def _locked(path: Path, uuid: str) -> int:
    try:
        file = _open(path)
    except OSError as error:
        raise ConfigError(
            f"device=cuda refused: the lock file {path} cannot be opened: {error.strerror}; make it readable for this "
            "user, or remove it"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if isinstance(error, BlockingIOError):
            raise ConfigError(
                f"device=cuda refused: another process lends memory of card {uuid} (it holds {path}); stop it, or "
                "choose another card with CUDA_VISIBLE_DEVICES"
            ) from error
        raise ConfigError(
            f"device=cuda refused: {path} cannot be locked: {error.strerror}; lend nothing, or mend its file system"
        ) from error
    return file


def _open(path: Path) -> int:
    """For reading alone, so that it may be another user's; in a folder like /tmp such a file must not be opened as one
    to be created."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o444)
        os.fchmod(file, 0o444)  # whatever this user's umask: others must see that it is held
        return file
