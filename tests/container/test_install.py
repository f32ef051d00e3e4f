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
from strata.commands.embedded_model import EMBEDDED
from tests.commands.fake_server import Script, fake_server
from tests.fixtures.models import write_random_model

ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "container" / "install.sh"
HEALTHCHECK = ROOT / "container" / "healthcheck.py"


def rules() -> list[str]:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*", "everything is left out but what is named"
    return lines


def is_let_in(path: Path) -> bool:
    """The last rule that names the file, or a folder that it lies in; `**/` is a name at any depth."""
    places = [path, *path.parents][:-1]
    is_in = True
    for rule in rules():
        pattern = rule.removeprefix("!")
        names = path.parts if pattern.startswith("**/") else [str(place) for place in places]
        if any(fnmatch.fnmatch(name, pattern.removeprefix("**/")) for name in names):
            is_in = rule.startswith("!")
    return is_in


def build_context() -> Iterator[Path]:
    """The files that `.dockerignore` lets into an image, relative to the repository."""
    for folder in {rule.removeprefix("!").partition("/")[0] for rule in rules() if rule.startswith("!")}:
        found = [ROOT / folder] if (ROOT / folder).is_file() else sorted((ROOT / folder).rglob("*"))
        for path in found:
            if path.is_file() and is_let_in(path.relative_to(ROOT)):
                yield path.relative_to(ROOT)


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


def test_no_weights_but_those_of_the_package_and_no_caches_go_into_an_image() -> None:
    own = EMBEDDED.relative_to(ROOT)
    assert is_let_in(own) and not is_let_in(Path("strata/model.gguf")) and not is_let_in(Path("made/strata-tiny.gguf"))
    assert not is_let_in(Path("strata/__pycache__/cli.cpython-312.pyc"))
    files = [path for path in build_context() if path != own]
    assert {Path("container/install.sh"), Path("strata/cli.py"), Path("sim/device.py"), Path("LICENSE")} <= set(files)
    assert [path for path in files if path.suffix not in {".py", ".sh", ".md", ".toml", ""}] == []
    assert sum((ROOT / path).stat().st_size for path in files) < 4 * 1024 * 1024


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
