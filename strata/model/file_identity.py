"""Opens a file of a model and says which file it is, so that the weights are read from the file whose header was read.

Between header and weights lie planning, the build of the programs and the reservation of the host's memory: long
enough for a download to end or for another file to be renamed over this one. Decides what may be opened as a model
file and when two openings met the same bytes; knows nothing of what the bytes mean.
"""

import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from strata.core.errors import ModelError

MAX_SHOWN_CHARACTERS = 300
REMEDY = "name a .gguf file that can be read, or a folder that holds one"


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Of an open file: which one it is, how long it is, and when its bytes last changed. `inode` tells another file
    renamed over the path, `modified_ns` bytes that were written in place."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int


def mode_of(path: Path) -> int:
    """The type bits of what lies at `path`, 0 for nothing. Raises ModelError for a path that the system does not look
    up: too long, a loop of links, a folder that may not be entered, no path at all."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (OSError, ValueError) as error:
        raise ModelError(f"{shown(path)}: cannot open the model file: {reason_of(error)}; {REMEDY}") from None


def open_model_file(path: Path) -> tuple[int, FileIdentity]:
    """A descriptor, which is the caller's to close, and what it was when it was opened. Raises ModelError for whatever
    cannot be opened or is not a regular file. Never waits: opening a named pipe would, for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise ModelError(f"{shown(path)}: cannot open the model file: {reason_of(error)}; {REMEDY}") from None
    with ExitStack() as opened:
        opened.callback(os.close, descriptor)
        if not stat.S_ISREG(_status(path, descriptor).st_mode):
            raise ModelError(f"{shown(path)}: is not a regular file")
        # Weights are scattered over the file and a header is followed by them; nobody drops what readahead fetches.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        identity = identity_of(path, descriptor)
        opened.pop_all()
    return descriptor, identity


def identity_of(path: Path, descriptor: int) -> FileIdentity:
    """Of the open file. Raises ModelError naming `path` when the system does not say."""
    status = _status(path, descriptor)
    return FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _status(path: Path, descriptor: int) -> os.stat_result:
    try:
        return os.fstat(descriptor)
    except OSError as error:
        raise ModelError(f"{shown(path)}: cannot read the model file: {reason_of(error)}") from None


def check_unchanged(path: Path, *, was: FileIdentity, now: FileIdentity) -> None:
    """Raises ModelError that says what changed. A change of the bytes that leaves size and time of modification as
    they were goes unseen; nothing but reading the file twice would find it."""
    if was == now:
        return
    if (was.device, was.inode) != (now.device, now.inode):
        what = "another file lies at this path now"
    elif was.size_bytes != now.size_bytes:
        what = f"it had {was.size_bytes:,} B, it has {now.size_bytes:,} B now"
    else:
        what = f"its {now.size_bytes:,} B were written to"
    raise ModelError(
        f"{shown(path)}: the file changed since its header was read: {what}; start again once nothing writes to it"
    )


def shown(path: Path | str) -> str:
    """The path for a message of one line. Of a long one the end, which names the file; control characters and what is
    not UTF-8 escaped."""
    text = str(path)
    if len(text) > MAX_SHOWN_CHARACTERS:
        text = f"...{text[-MAX_SHOWN_CHARACTERS:]}"
    return text if text.isprintable() else ascii(text)


def reason_of(error: OSError | ValueError) -> str:
    """The system's words alone, without the number and the path; Python's own for a path that is no path at all."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
