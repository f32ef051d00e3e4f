"""A failing example travels from one process to another through a real Redis (Debian's redis-server)."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.example_database import READ_ONLY, SHARED, example_database

ROOT = Path(__file__).parents[2]
SERVER = shutil.which("redis-server")
PROPERTY = """
import os, sys, unittest
from hypothesis import Phase, given, settings, strategies as st
from tests.example_database import example_database

PHASES = {"look": (Phase.generate, Phase.shrink), "replay": (Phase.reuse,)}

@settings(database=example_database(os.environ), phases=PHASES[sys.argv[1]], max_examples=500, deadline=None)
@given(number=st.integers(0, 1 << 30))
def holds(number):
    seen.append(number)
    assert number < 4321

seen = []
try:
    holds()
except (AssertionError, unittest.SkipTest):  # skipped where there is nothing to replay
    pass
print(len(seen), seen[-1] if seen else None)
"""


@pytest.fixture
def redis_url() -> Iterator[str]:
    """Of a server that this test alone uses, which keeps nothing on the disk."""
    pytest.importorskip("redis")
    if SERVER is None:
        pytest.skip("no redis-server here: apt-get install redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [SERVER, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            is_ready = any("Ready to accept connections" in line for line in server.stdout)
            assert is_ready, f"redis-server ended with {server.wait()}"
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


def run_property(tmp_path: Path, mode: str, **environment: str) -> tuple[int, str]:
    """How often the property ran in a process of its own, and with which number last."""
    script = tmp_path / "a_property.py"
    script.write_text(PROPERTY, encoding="utf-8")
    known = {name: value for name, value in os.environ.items() if name not in (SHARED, READ_ONLY)}
    found = subprocess.run(
        [sys.executable, str(script), mode],
        cwd=tmp_path,
        env={**known, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    times, number = found.stdout.split()
    return int(times), number


@pytest.mark.slow
def test_a_failing_example_travels_between_processes(redis_url: str, tmp_path: Path) -> None:
    assert run_property(tmp_path, "replay", STRATA_EXAMPLES_REDIS=redis_url) == (0, "None")
    times, number = run_property(tmp_path, "look", STRATA_EXAMPLES_REDIS=redis_url)
    assert times > 1 and number == "4321"
    assert "4321" in run_property(tmp_path, "replay", STRATA_EXAMPLES_REDIS=redis_url)
    assert run_property(tmp_path, "replay") == (0, "None")
    assert "4321" in run_property(tmp_path, "replay", STRATA_EXAMPLES_REDIS_READ_ONLY=redis_url)
    assert "4321" in run_property(tmp_path, "replay")  # what was replayed stays beside the checkout


def test_a_process_that_only_reads_does_not_write_too() -> None:
    with pytest.raises(ValueError, match="unset one"):
        example_database({SHARED: "redis://127.0.0.1:1/0", READ_ONLY: "redis://127.0.0.1:1/0"})
