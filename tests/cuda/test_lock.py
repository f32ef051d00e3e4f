"""One process a card while loans are on: invariant 45."""

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


def test_a_second_holder_is_refused_by_name_and_the_next_one_is_not(tmp_path: Path) -> None:
    """Two opens of one process are two, as those of two processes are."""
    lock = CardLock(UUID, folder=tmp_path)
    assert lock.path.name == f"strata-{UUID}.lock"
    with pytest.raises(ConfigError, match=f"another process lends memory of card {UUID}.*CUDA_VISIBLE_DEVICES"):
        CardLock(UUID, folder=tmp_path)
    CardLock(UUID.replace("1", "2"), folder=tmp_path).close()
    lock.close()
    CardLock(UUID, folder=tmp_path).close()


def test_a_killed_process_has_let_go_of_it(tmp_path: Path) -> None:
    """The file is left behind, and means nothing."""
    command = [sys.executable, "-c", HOLD, UUID, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="another process"):
            CardLock(UUID, folder=tmp_path)
        child.kill()
    lock = CardLock(UUID, folder=tmp_path)
    assert lock.path.exists()
    lock.close()


def test_a_file_that_cannot_be_opened_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lock file .* cannot be opened: .*; make it readable for this user"):
        CardLock(UUID, folder=tmp_path / "missing")
