"""The repository's Python files and what they import, read from their syntax, never imported."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("strata", "sim", "kernels", "fuzz")


@dataclass(frozen=True)
class Import:
    """`path` (relative to the repository) imports `module` on `line`; `from a import b` is `a.b` where that is a
    module of ours, else `a`."""

    path: str
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} imports {self.module}"


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    return tuple(_imports(relative(path), path.read_text(encoding="utf-8")))


def imports_in_source(source: str) -> tuple[Import, ...]:
    return tuple(_imports("source.py", source))


def is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _imports(path: str, source: str) -> Iterator[Import]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{path}:{node.lineno}: write the whole module name"
            for alias in node.names:
                yield Import(path, node.lineno, _module_named(node.module, alias.name))


def _module_named(package: str, name: str) -> str:
    inside = ROOT / Path(*package.split(".")) / name
    is_ours = inside.with_suffix(".py").is_file() or (inside / "__init__.py").is_file()
    return f"{package}.{name}" if is_ours else package
