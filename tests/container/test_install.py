"""The steps of the images, run without a container engine: into a clean virtual environment, from a copy of what an
image would be built from."""

import fnmatch
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.commands.child_server import child_server
from tests.commands.fake_server import Script, fake_server
from tests.fixtures.models import write_random_model

ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "container" / "install.sh"
HEALTHCHECK = ROOT / "container" / "healthcheck.py"


def build_context() -> Iterator[Path]:
    """Files that `.dockerignore` lets into an image, relative to the repository: the last line that fits decides."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*", "everything is left out but what is named"
    tops = sorted({line.removeprefix("!").split("/")[0] for line in lines if line.startswith("!")})
    for top in tops:
        for path in [ROOT / top, *sorted((ROOT / top).rglob("*"))]:
            name = path.relative_to(ROOT)
            if path.is_file() and next(line for line in reversed(lines) if fits(name, line)).startswith("!"):
                yield name


def fits(name: Path, line: str) -> bool:
    """Of a pattern the name itself or a folder that it lies in."""
    pattern = line.removeprefix("!")
    if pattern.startswith("**/"):
        return any(fnmatch.fnmatch(part, pattern[3:]) for part in name.parts)
    heads = ["/".join(name.parts[:depth]) for depth in range(1, len(name.parts) + 1)]
    return any(head.count("/") == pattern.count("/") and fnmatch.fnmatch(head, pattern) for head in heads)


def health(port: int) -> int:
    environment = {**os.environ, "STRATA_PORT": str(port), "http_proxy": "http://127.0.0.1:9"}
    return subprocess.run(
        [sys.executable, str(HEALTHCHECK)], env=environment, stderr=subprocess.DEVNULL, timeout=60, check=False
    ).returncode


def test_the_health_check_tells_a_live_server_from_a_dead_one() -> None:
    with fake_server(Script()) as server:
        port = int(server.url.rpartition(":")[2])
        assert health(port) == 0
    assert health(port) == 1


def test_an_existing_folder_and_an_unknown_body_are_refused(tmp_path: Path) -> None:
    for arguments in ([str(tmp_path)], [str(tmp_path / "new"), "tpu"]):
        result = subprocess.run([INSTALL, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 2 and result.stderr.startswith("install.sh: "), result
    assert list(tmp_path.iterdir()) == []


def test_no_weights_but_the_models_that_come_with_it_and_no_caches_go_into_an_image() -> None:
    files = list(build_context())
    assert {Path("container/install.sh"), Path("strata/cli.py"), Path("sim/device.py"), Path("LICENSE")} <= set(files)
    others = [path for path in files if path.suffix not in {".py", ".sh", ".md", ".toml", ""}]
    assert others == [Path("strata/models/strata-tiny.Q8_0.gguf")]
    assert sum((ROOT / path).stat().st_size for path in files if path not in others) < 4 * 1024 * 1024


def test_both_images_run_as_a_user_with_check_and_stop_signal() -> None:
    _, *stages = (ROOT / "Containerfile").read_text().split("\nFROM ")
    assert [stage.partition("\n")[0] for stage in stages] == ["${TWIN_BASE} AS twin", "${CUDA_BASE} AS cuda"]
    for stage in stages:
        steps = [line.split(" ", 1)[0] for line in stage.splitlines() if line[:1].isupper()]
        assert {"USER", "HEALTHCHECK", "STOPSIGNAL", "VOLUME", "ENTRYPOINT"} <= set(steps)
        assert steps.index("USER") < steps.index("ENTRYPOINT")
        assert "container/install.sh /opt/strata" in stage


@pytest.mark.soak
def test_the_installed_program_starts(tmp_path: Path) -> None:
    """Takes a minute or more: installs everything anew, from a source tree that it may not write to."""
    for path in build_context():
        (tmp_path / "src" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, tmp_path / "src" / path)
    before = sorted((tmp_path / "src").rglob("*"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    subprocess.run(
        [tmp_path / "src" / "container" / "install.sh", tmp_path / "env", "twin"],
        env={**environment, "PYTHON": sys.executable},
        cwd=tmp_path,
        check=True,
        timeout=1800,
    )
    assert sorted((tmp_path / "src").rglob("*")) == before
    shutil.rmtree(tmp_path / "src")
    python = str(tmp_path / "env" / "bin" / "python")
    where = "import kernels, sim, strata; print(strata.__path__[0], sim.__path__[0], kernels.__path__[0])"
    output = subprocess.run([python, "-c", where], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert all(Path(folder).is_relative_to(tmp_path / "env") for folder in output.split()), output
    model = write_random_model(tmp_path / "tiny.gguf")
    with child_server([python, "-m", "strata", "serve", str(model), "--vram", "16MiB", "--port", "0"]) as server:
        port = int(server.url.rpartition(":")[2])
        assert health(port) == 0
        assert server.stop() == 0
    assert health(port) == 1
