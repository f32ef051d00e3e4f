"""Help, inspection, planning and every refusal come without torch, and never as a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from tests.fixtures.models import write_random_model
from tests.tidy.tree import ROOT

HEAVY = ("torch", "trio", "quart", "hypercorn", "triton", "sim")

RUN_AND_REPORT = """
import json, sys
from strata.cli import main
try:
    code = main(sys.argv[2:])
except SystemExit as end:
    code = end.code
with open(sys.argv[1], "w") as file:
    json.dump({"code": code, "modules": sorted({name.partition(".")[0] for name in sys.modules})}, file)
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(60))
    return path


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    """A sound file of an architecture that nobody serves."""
    path = tmp_path / "unknown.gguf"
    writer = GGUFWriter(path, "abacus")
    writer.add_tensor("token_embd.weight", np.zeros((2, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def run(tmp_path: Path, *arguments: str) -> tuple[int, set[str], subprocess.CompletedProcess[str]]:
    """Exit code, top-level modules loaded at the end, and the process."""
    report = tmp_path / "report.json"
    process = subprocess.run(
        [sys.executable, "-c", RUN_AND_REPORT, str(report), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert report.exists(), process.stderr
    result = json.loads(report.read_text())
    return result["code"], set(result["modules"]), process


@pytest.mark.parametrize(
    "command", [(), ("serve",), ("chat",), ("demo",), ("inspect",), ("plan",), ("doctor",), ("replay",)]
)
def test_help_is_light(tmp_path: Path, command: tuple[str, ...]) -> None:
    code, modules, process = run(tmp_path, *command, "--help")
    assert code == 0 and process.stdout.startswith("usage: ") and process.stderr == ""
    assert not modules & set(HEAVY), modules & set(HEAVY)


@pytest.mark.parametrize("command", ["inspect", "plan", "serve", "replay"])
@pytest.mark.parametrize("which", ["missing", "folder", "broken", "unknown"])
def test_a_refused_file_is_light_and_one_line(
    tmp_path: Path, broken: Path, unknown: Path, command: str, which: str
) -> None:
    paths = {"missing": tmp_path / "none.gguf", "folder": tmp_path / "folder", "broken": broken, "unknown": unknown}
    (tmp_path / "folder").mkdir()
    code, modules, process = run(tmp_path, command, str(paths[which]))
    assert code == 2, (code, process.stderr)
    assert "Traceback" not in process.stderr and 1 <= len(process.stderr.splitlines()) <= 3
    assert not modules & set(HEAVY), modules & set(HEAVY)


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_doctor_is_light_where_there_is_no_card(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, modules, process = run(tmp_path, "doctor", *arguments)
    if "no CUDA driver" not in process.stdout:
        pytest.skip("there is a driver, and a card in order is opened and measured with torch")
    assert code in (0, 1) and process.stderr == ""
    assert not modules & set(HEAVY), modules & set(HEAVY)


def test_a_plan_for_a_card_is_light_and_needs_none(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.gguf", arch="qwen3moe", quant="Q8_0")
    code, modules, process = run(tmp_path, "plan", str(path), "--device", "cuda", "--vram", "16MiB")
    assert code == 0 and "weights" in process.stdout and process.stderr == ""
    assert not modules & {*HEAVY, "gguf", "numpy"}, modules & {*HEAVY, "gguf", "numpy"}


def test_serving_on_a_card_that_is_not_there_is_refused_lightly_and_points_to_the_doctor(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.gguf", arch="qwen3moe", quant="Q8_0")
    code, modules, process = run(tmp_path, "serve", str(path), "--device", "cuda", "--vram", "16MiB")
    if "no CUDA driver" not in process.stderr:
        pytest.skip("there is a driver")
    assert code == 2 and "Traceback" not in process.stderr
    assert "device=cuda refused" in process.stderr and "`strata doctor`" in process.stderr
    assert not modules & set(HEAVY), modules & set(HEAVY)


def test_a_refused_option_is_light(tmp_path: Path, broken: Path) -> None:
    code, modules, process = run(tmp_path, "plan", str(broken), "--vram", "much")
    assert code == 2 and "much" in process.stderr and "Traceback" not in process.stderr
    assert not modules & set(HEAVY)


def test_the_program_runs_as_a_module() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "strata", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert all(command in process.stdout for command in ("serve", "chat", "demo", "inspect", "plan", "replay"))
