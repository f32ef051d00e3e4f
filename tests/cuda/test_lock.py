"""One process a card while loans are on: invariant 45."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.core.errors import ConfigError
from strata.cuda.lock import CardLock

UUID = "GPU-00000000-0000-0000-0000-000000000001"
HOLD = """
import signal, sys
from pathlib import Path
from strata.cuda.lock import CardLock
lock = CardLock(sys.argv[1], folder=Path(sys.argv[2]))
print("held", flush=True)
signal.pause()
"""


def test_a_process_may_hold_it_several_times_and_others_wait_for_the_last(tmp_path: Path) -> None:
    """As whoever compares two arenas of one card does."""
    first, second = (CardLock(UUID, folder=tmp_path) for _ in range(2))
    assert first.path.name == f"strata-{UUID}.lock"
    first.close()
    assert not can_be_had(tmp_path)
    CardLock(UUID.replace("1", "2"), folder=tmp_path).close()
    second.close()
    assert can_be_had(tmp_path)


def can_be_had(folder: Path) -> bool:
    """By another process."""
    with (folder / f"strata-{UUID}.lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_others_may_look_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        CardLock(UUID, folder=tmp_path).close()
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o444


def test_a_killed_process_has_let_go_of_it(tmp_path: Path) -> None:
    """The file is left behind, and means nothing."""
    command = [sys.executable, "-c", HOLD, UUID, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=f"another process lends memory of card {UUID}.*CUDA_VISIBLE_DEVICES"):
            CardLock(UUID, folder=tmp_path)
        child.kill()
    lock = CardLock(UUID, folder=tmp_path)
    assert lock.path.exists()
    lock.close()


def test_a_file_that_cannot_be_opened_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lock file .* cannot be opened: .*; make it readable for this user"):
        CardLock(UUID, folder=tmp_path / "missing")
