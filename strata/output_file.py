"""Files that a server replaces as a whole or not at all, for its owner alone: whether they may be, and how."""

import os
import tempfile
from pathlib import Path


def check_target(path: Path, *, kind: str) -> str:
    """Why no JSON can be written there, "" when it seems that some can. `kind`: what the file should be that is there
    already, "a trace"; it is judged by its first byte."""
    folder = path.parent
    if path.is_dir():
        return f"{path} is a folder"
    if path.exists() and not path.is_file():
        return f"{path} is no regular file, and would be replaced by one"
    if _holds_something_else(path):
        return f"{path} exists and is not {kind}"
    if not folder.is_dir():
        return f"there is no folder {folder}"
    return "" if os.access(folder, os.W_OK) else f"the folder {folder} cannot be written"


def _holds_something_else(path: Path) -> bool:
    """JSON objects begin with a brace. What cannot be read is judged when it is written."""
    try:
        with path.open("rb") as file:
            return file.read(1) not in (b"", b"{")
    except OSError:
        return False


def replace_file(path: Path, text: str) -> None:
    """As a whole, for its owner alone, whoever else replaces it meanwhile: the last one stays. Raises OSError, and then
    leaves what was there."""
    descriptor, half = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part", text=True)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(half).replace(path)
    finally:
        Path(half).unlink(missing_ok=True)
