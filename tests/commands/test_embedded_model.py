"""Commands without MODEL mean the model of the package, in a build that has one."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from strata.cli import main
from strata.commands import embedded_model
from strata.commands.embedded_model import EMBEDDED, model_or_embedded
from strata.core.errors import ConfigError
from tests.recipes.toy import spread_weights, write_toy

ROOT = Path(__file__).parents[2]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = write_toy(tmp_path / EMBEDDED.name, spread_weights(seed=3), is_q8=True)
    monkeypatch.setattr(embedded_model, "EMBEDDED", path)
    return path


def test_what_is_named_comes_first_and_the_model_of_the_package_else(own: Path) -> None:
    assert model_or_embedded("m.gguf") == "m.gguf"
    assert model_or_embedded(None) == model_or_embedded(None, drafter="1") == str(own)


def test_a_file_behind_mtp_is_never_taken_for_a_drafter_of_the_model_of_the_package(own: Path) -> None:
    with pytest.raises(ConfigError, match=r"no MODEL is named, and --mtp has m\.gguf; write --mtp behind MODEL"):
        model_or_embedded(None, drafter="m.gguf")


@pytest.mark.parametrize("command", ["serve", "plan", "inspect", "bench"])
def test_a_build_without_a_model_of_its_own_wants_one_named(command: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(embedded_model, "EMBEDDED", tmp_path / EMBEDDED.name)
    assert main([command]) == 2
    assert "no MODEL is named, and this build has none of its own; name a GGUF file" in capsys.readouterr().err


def test_the_model_of_the_package_is_planned_and_inspected_unnamed(own: Path, capsys) -> None:
    assert main(["plan", "--vram", "4MiB", "--mtp", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drafter"]["num_experts"] == 8
    assert main(["inspect"]) == 0
    assert "qwen35moe: strata-tiny" in capsys.readouterr().out


@pytest.mark.soak
def test_a_wheel_has_the_models_of_the_package(own: Path, tmp_path: Path) -> None:
    """Built from a copy of the sources, as an image is."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, tmp_path / name)
    for name in ("strata", "sim", "kernels"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "strata" / "models").mkdir(exist_ok=True)
    shutil.copy2(own, tmp_path / "strata" / "models" / EMBEDDED.name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path / "made"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=600)
    (wheel,) = (tmp_path / "made").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"strata/models/{EMBEDDED.name}") == own.read_bytes()
