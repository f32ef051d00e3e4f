"""What the source of the server must look like, read from its syntax trees."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import strata.server

SERVER = Path(strata.server.__path__[0])
FILES = sorted(SERVER.glob("*.py"))
SCOPES = {
    "open_nursery",
    "CancelScope",
    "move_on_after",
    "move_on_at",
    "fail_after",
    "fail_at",
}
ALLOWED = {"strata.core", "strata.engine.ports", "strata.engine.updates", "strata.server"}


def yields_in_scopes(tree):
    """Line numbers of yields that stand inside a nursery or a cancel scope of the same function."""
    found = []

    def visit(node, is_inside):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            is_inside = False
        if isinstance(node, ast.With | ast.AsyncWith):
            names = [getattr(call, "attr", getattr(call, "id", "")) for call in called(node)]
            is_inside = is_inside or bool(SCOPES & set(names))
        if isinstance(node, ast.Yield | ast.YieldFrom) and is_inside:
            found.append(node.lineno)
        for child in ast.iter_child_nodes(node):
            visit(child, is_inside)

    visit(tree, False)
    return found


def called(node):
    return [inner.func for item in node.items for inner in ast.walk(item.context_expr) if isinstance(inner, ast.Call)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_yield_stands_in_a_nursery_or_a_cancel_scope(path):
    assert yields_in_scopes(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("async def f():\n async with trio.open_nursery() as n:\n  yield 1", [3]),
        ("async def f():\n with trio.move_on_after(1):\n  async for x in y:\n   yield x", [4]),
        ("async def f():\n with a, CancelScope(shield=True) as s:\n  await (yield)", [3]),
        ("async def f():\n with fail_after(1):\n  def g():\n   yield 1", []),
        ("async def f():\n with open(x):\n  yield 1\n with trio.fail_at(1):\n  await x", []),
    ],
)
def test_the_check_for_yields_sees_them(source, lines):
    assert yields_in_scopes(ast.parse(source)) == lines


def imports_of(source):
    """Names of the modules of `strata.server` that `source` imports, for its types alone or not."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return {node.module.removeprefix("strata.server.") for node in nodes if node.module.startswith("strata.server.")}


def find_circle(sources):
    try:
        TopologicalSorter({name: imports_of(source) for name, source in sources.items()}).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_the_modules_of_the_server_form_no_circle():
    assert find_circle({path.stem: path.read_text() for path in FILES}) is None


def test_the_check_for_circles_sees_one_of_types():
    import_b = "if TYPE_CHECKING:\n from strata.server.b import B"
    assert find_circle({"a": import_b, "b": "from strata.server.a import A"}) is not None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_server_imports_ports_and_core_only(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            top = name.split(".")[0]
            assert top not in ("sim", "kernels", "torch", "numpy", "asyncio"), name
            assert top != "strata" or any(name == ok or name.startswith(f"{ok}.") for ok in ALLOWED), name
