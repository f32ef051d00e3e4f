"""Where a doctor's facts come from: this machine. Each source is a small function whose places can be given, so that a
machine can be made up; none of them loads torch or triton."""

import ast
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from importlib import import_module, util
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from strata.commands.doctor_card import NvmlCard

MEMINFO = Path("/proc/meminfo")
SHM = Path("/dev/shm")


def version_of(package: str) -> str | None:
    """Of an installed distribution; None where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def num_cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def is_linux() -> bool:
    return sys.platform == "linux"


def total_bytes(meminfo: Path = MEMINFO) -> int | None:
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")), None)


def memlock_bytes(limits: Callable[[int], tuple[int, int]] = resource.getrlimit) -> int | None:
    """The limit in force; None where there is none."""
    soft, _ = limits(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def shm_bytes(path: Path = SHM) -> int | None:
    """Size of the file system at `path`; None where nothing is there."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_frsize * found.f_blocks


def nvml_cards(load: Callable[[str], Any] = import_module) -> list[NvmlCard] | str | None:
    """None without nvidia-ml-py; why, where NVML fails. Whatever it raises is display's trouble alone."""
    try:
        nvml = load("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        try:
            handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
            return [_nvml_card(nvml, handle) for handle in handles]
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        return str(error)


def _nvml_card(nvml: Any, handle: Any) -> NvmlCard:
    uuid, name = (_text(get(handle)) for get in (nvml.nvmlDeviceGetUUID, nvml.nvmlDeviceGetName))
    return NvmlCard(uuid, name, int(nvml.nvmlDeviceGetMemoryInfo(handle).used))


def _text(value: str | bytes) -> str:
    """Versions of the binding differ."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def kernel_names(folder: Path | None = None) -> frozenset[str]:
    """Kernels that this version has, read from their source: importing them would load triton."""
    if folder is None:
        spec = util.find_spec("kernels.triton")
        assert spec is not None and spec.submodule_search_locations is not None
        folder = Path(spec.submodule_search_locations[0])
    trees = (ast.parse(path.read_text("utf-8")) for path in sorted(folder.glob("*.py")))
    functions = (node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef))
    return frozenset(function.name for function in functions if function.name.endswith("_kernel"))


def compiled_kernels(compute_capability: int, cache: Path | None = None) -> frozenset[str]:
    """Names of what triton's cache holds for cards of this generation."""
    if cache is None:
        home = Path(os.environ.get("TRITON_HOME", Path.home()))
        cache = Path(os.environ.get("TRITON_CACHE_DIR", home / ".triton" / "cache"))
    return frozenset(_compiled_in(cache, compute_capability))


def _compiled_in(cache: Path, compute_capability: int) -> Iterator[str]:
    for cubin in cache.glob("*/*.cubin"):
        try:
            target = json.loads(cubin.with_suffix(".json").read_text("utf-8"))["target"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # half-written, or of another version of triton: as good as not there
        if isinstance(target, dict) and target.get("arch") == compute_capability:
            yield cubin.stem
