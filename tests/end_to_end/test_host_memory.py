"""What the host says of its memory, and what is refused because of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from strata.host_memory import available_bytes
from tests.fixtures.models import write_cycle_model

GIB = 1 << 30


def host(tmp_path: Path, *, available_kib: int | None, limit: str | None, used_bytes: int = 0) -> dict[str, Path]:
    meminfo = tmp_path / "meminfo"
    if available_kib is not None:
        meminfo.write_text(f"MemTotal: 99 kB\nMemAvailable:  {available_kib} kB\n")
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used_bytes}\n")
    return {"meminfo": meminfo, "cgroup": tmp_path}


@pytest.mark.parametrize(
    ("available_kib", "limit", "used_bytes", "left_bytes"),
    [
        (1000, None, 0, 1_024_000),
        (1000, "max", 0, 1_024_000),
        (1000, "500000", 100_000, 400_000),
        (100, "500000", 100_000, 102_400),
        (1000, "500000", 600_000, 0),
        (None, None, 0, None),
        (None, "500000", 0, 500_000),
    ],
)
def test_the_tighter_of_host_and_group_counts(tmp_path, available_kib, limit, used_bytes, left_bytes):
    places = host(tmp_path, available_kib=available_kib, limit=limit, used_bytes=used_bytes)
    assert available_bytes(**places) == left_bytes


@pytest.mark.slow
def test_a_card_larger_than_the_host_is_refused_in_one_line(tmp_path: Path):
    model = write_cycle_model(tmp_path / "cycle.gguf")
    command = [sys.executable, "-m", "strata", "serve", str(model.path), "--vram", "64TiB", "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "lower --vram" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
