"""Which part may know which, in one table; `lint-imports` keeps the same floors, and the indirect ones.

The table is read from the syntax, so an import inside a function or under TYPE_CHECKING counts too.
"""

import sys
from collections.abc import Iterator

import pytest

from tests.tidy.tree import PACKAGES, ROOT, Import, imports_in_source, imports_of, is_inside, python_files, relative

STANDARD = sys.stdlib_module_names

IMPURE = frozenset(
    (
        "asyncio",
        "concurrent",
        "ctypes",
        "datetime",
        "io",
        "logging",
        "mmap",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "uuid",
    )
)
"""What the core must not import even from the standard library: clocks, chance, the world."""

TWIN = (
    "strata.device",
    "strata.core.units",
    "strata.core.errors",
    "strata.core.extent",
    "strata.core.commands",
    "strata.core.events",
    "strata.core.programs",
)

OURS: dict[str, tuple[str, ...]] = {
    "strata/core": ("strata.core",),
    "strata/device.py": ("strata.core",),
    "strata/config": ("strata.config", "strata.core"),
    "strata/terminator.py": (),
    "strata/sizes.py": ("strata.core",),
    "strata/model": ("strata.model", "strata.device", "strata.terminator", "strata.core", "kernels"),
    "strata/cuda": ("strata.cuda", "strata.device", "strata.core"),
    "strata/cuda/programs": ("strata.cuda", "strata.device", "strata.core", "kernels"),
    "strata/output_file.py": (),
    "strata/trace": ("strata.trace", "strata.device", "strata.output_file", "strata.sizes", "strata.core"),
    "strata/engine": ("strata.engine", "strata.device", "strata.terminator", "strata.sizes", "strata.core"),
    "strata/server": ("strata.server", "strata.engine", "strata.core"),
    "strata/planning.py": ("strata.warm_start", "strata.plan_check", "strata.model", "strata.config", "strata.core"),
    "strata/plan_check.py": ("strata.core",),
    "strata/manifest.py": ("strata.core",),
    "strata/warm_start.py": ("strata.model", "strata.output_file", "strata.core"),
    "strata/host_memory.py": (),
    "strata/boot.py": ("strata", "sim"),
    "strata/boot_card.py": ("strata", "kernels"),
    "strata/boot_replay.py": ("strata", "sim"),
    "strata/replay_card.py": ("strata", "kernels"),
    "strata/card_speed.py": ("strata.cuda", "strata.device", "strata.core"),
    "strata/commands": ("strata",),
    "strata/cli.py": ("strata.commands", "strata.core.errors"),
    "strata/__main__.py": ("strata.cli",),
    "strata/__init__.py": (),
    "kernels": ("kernels",),
    "sim": ("sim", *TWIN),
    "sim/__main__.py": ("sim.world.server",),
    "sim/world": ("sim", "strata.engine", "strata.trace", "strata.device", "strata.plan_check", "strata.core"),
    "sim/world/server": ("sim", "strata.server", "strata.engine", "strata.terminator", "strata.core"),
    "fuzz": ("fuzz", "sim", "strata.trace", "strata.core"),
}
"""Folder or file -> the modules of ours that it may import. Of several entries over a file the longest counts."""

OTHERS: dict[str, frozenset[str]] = {
    "strata/core": frozenset(),
    "strata/device.py": frozenset(),
    "strata/config": frozenset(),
    "strata/cuda": frozenset({"torch", "cuda"}),
    "strata/cuda/programs": frozenset({"torch"}),
    "strata/trace": frozenset(),
    "strata/engine": frozenset({"trio"}),
    "strata/server": frozenset(
        {"trio", "quart", "quart_trio", "hypercorn", "prometheus_client", "werkzeug", "h11", "wsproto"}
    ),
    "strata/planning.py": frozenset(),
    "strata/output_file.py": frozenset(),
    "strata/warm_start.py": frozenset(),
    "strata/host_memory.py": frozenset(),
    "strata/cli.py": frozenset(),
    "strata/__main__.py": frozenset(),
    "kernels": frozenset({"torch", "numpy", "gguf", "triton"}),
    "sim": frozenset({"torch", "numpy"}),
    "sim/world": frozenset(),
    "sim/world/server": frozenset({"trio", "h11"}),
    "fuzz": frozenset({"hypothesis"}),
}
"""Packages of others, where the floor names them all; a part that is not listed is free."""


def entry_of(path: str) -> str:
    entries = [entry for entry in OURS if path == entry or path.startswith(f"{entry}/")]
    assert entries, f"{path} stands on no floor: add it to OURS in {__name__}"
    return max(entries, key=len)


def violations(path: str, imports: tuple[Import, ...]) -> Iterator[str]:
    entry = entry_of(path)
    for each in imports:
        top = each.module.partition(".")[0]
        if top in PACKAGES:
            if not any(is_inside(each.module, allowed) for allowed in OURS[entry]):
                yield f"{each}: {entry} may import of ours only {', '.join(OURS[entry]) or 'nothing'}"
        elif top in STANDARD:
            if entry in ("strata/core", "strata/device.py", "strata/config") and top in IMPURE:
                yield f"{each}: core and options have no clock, no chance and no world"
        elif entry in OTHERS and top not in OTHERS[entry]:
            yield f"{each}: {entry} may import of others only {', '.join(sorted(OTHERS[entry])) or 'nothing'}"
        if entry == "sim" and is_inside(each.module, "sim.world"):
            yield f"{each}: the twin knows nothing of the worlds that it judges"
        if top == "hypothesis" and entry == "fuzz" and path != "fuzz/rules.py":
            yield f"{each}: worlds are drawn, replayed and minimized without Hypothesis, but for fuzz/rules.py"
        if top == "torch" and entry == "sim" and path != "sim/bytes.py":
            yield f"{each}: the twin runs without torch, but for sim/bytes.py"


def test_every_import_points_down() -> None:
    found = [line for path in python_files(*PACKAGES) for line in violations(relative(path), imports_of(path))]
    assert not found, "\n" + "\n".join(found)


def test_only_boot_imports_sim_in_strata() -> None:
    importers = {
        relative(path) for path in python_files("strata") for each in imports_of(path) if is_inside(each.module, "sim")
    }
    assert importers <= {"strata/boot.py", "strata/boot_replay.py"}


def test_only_boot_and_the_body_itself_import_cuda_in_strata() -> None:
    importers = {
        relative(path)
        for path in python_files("strata")
        for each in imports_of(path)
        if is_inside(each.module, "strata.cuda") and not relative(path).startswith("strata/cuda/")
    }
    assert importers <= {"strata/boot_card.py", "strata/card_speed.py", "strata/replay_card.py"}


@pytest.mark.parametrize("path", ["open", "device", "arena", "pinned", "driver", "card"])
def test_the_body_without_a_card_needs_no_torch(path: str) -> None:
    found = {each.module for each in imports_of(ROOT / "strata" / "cuda" / f"{path}.py")}
    assert "torch" not in found and ("cuda.bindings" in found) == (path == "driver")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("strata/core/a.py", "import trio"),
        ("strata/core/a.py", "import os.path"),
        ("strata/core/a.py", "def f():\n    import time"),
        ("strata/core/a.py", "from strata.device import Device"),
        ("strata/core/a.py", "from strata.config.values import ServeConfig"),
        ("strata/config/a.py", "import os"),
        ("strata/config/a.py", "from strata.model.spec import ModelSpec"),
        ("strata/engine/a.py", "from strata.model.spec import ModelSpec"),
        ("strata/engine/a.py", "import torch"),
        ("strata/cuda/a.py", "from strata.model import spec"),
        ("strata/cuda/a.py", "import sim.pages"),
        ("strata/cuda/a.py", "import trio"),
        ("strata/server/a.py", "from strata.model import spec"),
        ("strata/model/a.py", "from strata.engine.ports import Engine"),
        ("strata/model/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import strata.server.ports"),
        ("strata/commands/a.py", "import sim.device"),
        ("kernels/a.py", "from strata.core.units import KIB"),
        ("kernels/a.py", "import scipy"),
        ("sim/a.py", "from strata.core.memory.planner import plan_card"),
        ("sim/a.py", "from strata.core import kv"),
        ("sim/order.py", "import torch"),
        ("sim/device.py", "from sim.world.driver import Driver"),
        ("sim/device.py", "from strata.trace.entries import Entry"),
        ("strata/trace/a.py", "from sim.device import SimDevice"),
        ("strata/trace/a.py", "from strata.engine.runner import Runner"),
        ("strata/trace/a.py", "import torch"),
        ("sim/world/a.py", "from strata.model.spec import ModelSpec"),
        ("sim/world/a.py", "import hypothesis"),
        ("sim/world/a.py", "import trio"),
        ("sim/world/a.py", "from strata.server.app import create_app"),
        ("sim/world/server/a.py", "from strata.model.text import load_text"),
        ("sim/world/server/a.py", "import quart"),
        ("fuzz/draw.py", "import hypothesis"),
        ("fuzz/draw.py", "from strata.engine.runner import Runner"),
        ("strata/engine/a.py", "import fuzz.draw"),
    ],
)
def test_a_broken_floor_is_seen(path: str, source: str) -> None:
    assert list(violations(path, imports_in_source(source)))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("strata/core/a.py", "import dataclasses, enum\nfrom strata.core.units import KIB"),
        ("sim/bytes.py", "import torch\nfrom strata.core import extent"),
        ("strata/model/a.py", "import torch\nfrom kernels.reference import experts"),
        ("strata/boot.py", "import sim.device\nimport strata.engine.ports"),
        ("sim/world/a.py", "import random\nfrom strata.engine.runner import Runner"),
        ("sim/world/server/a.py", "import trio\nfrom strata.server.app import create_app"),
        ("sim/__main__.py", "from sim.world.server.campaign import run_campaign"),
        ("fuzz/rules.py", "import hypothesis\nfrom sim.world.driver import Driver"),
    ],
)
def test_a_kept_floor_is_not(path: str, source: str) -> None:
    assert list(violations(path, imports_in_source(source))) == []


def test_every_module_of_strata_has_a_layer_in_the_contracts() -> None:
    contracts = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[[tool.importlinter.contracts]]")[2]
    for path in sorted((ROOT / "strata").iterdir()):
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").is_file():
            assert f"strata.{path.stem}" in contracts, f"strata/{path.name} is in no layer of [tool.importlinter]"
