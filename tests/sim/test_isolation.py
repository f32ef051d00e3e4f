"""The twin judges the core, so it may not share the core's thoughts; and it must run where torch is not installed."""

import ast
import subprocess
import sys
from pathlib import Path

SIM = Path(__file__).parents[2] / "sim"
ALLOWED = {
    "strata.device",
    *(f"strata.core.{name}" for name in ("units", "errors", "extent", "commands", "events", "programs")),
}
TORCH_IN = {"bytes.py"}


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            found.add(node.module or "")
    return found


def test_the_twin_imports_the_port_and_the_vocabulary_and_nothing_it_judges() -> None:
    files = list(SIM.glob("*.py"))
    assert len(files) > 10
    for path in files:
        foreign = {name for name in imports_of(path) if name.split(".")[0] not in sys.stdlib_module_names}
        allowed = ALLOWED | ({"torch"} if path.name in TORCH_IN else set())
        assert {name for name in foreign if not name.startswith("sim.")} <= allowed, path


def test_the_twin_without_bytes_does_not_import_torch() -> None:
    code = "import sim.device, sim.symbolic, sys; raise SystemExit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=SIM.parent, check=False).returncode == 0
