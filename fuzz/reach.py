"""Whether the line of a planted bug has run: a call in front of its statement says so, which costs nothing until then.

Following lines with a tracer instead makes worlds two and a half times slower.
"""

import ast
import builtins
from itertools import takewhile
from typing import TypeGuard

from fuzz.planted import Mutant

MARK = "__reached__"


class Reach:
    """Calls of the mark, in this world and since the beginning. There is one in a process at a time."""

    def __init__(self) -> None:
        self.is_reached = False
        self.in_world = False
        setattr(builtins, MARK, self._mark)

    def _mark(self) -> None:
        self.is_reached = self.in_world = True

    def forget(self) -> None:
        """The next world begins."""
        self.in_world = False


def marked(mutant: Mutant, text: str) -> ast.Module:
    """The module of `mutant` with the bug and the mark. `text`: its source without the bug."""
    tree = ast.parse(mutant.changed(text))
    lines = zip(mutant.fragment.splitlines(True), mutant.replacement.splitlines(True), strict=False)
    num_same = sum(len(line) for line, _ in takewhile(lambda both: both[0] == both[1], lines))  # lines that stay
    first = text.count("\n", 0, text.index(mutant.fragment) + num_same) + 1
    changed = mutant.replacement[num_same:]
    line = first + len(changed) - len(changed.lstrip("\n"))
    block, index = _place(tree, line, gone_from=_function_at(ast.parse(text), first))
    mark = ast.Expr(ast.Call(ast.Name(MARK, ast.Load()), [], []))
    block.insert(index, ast.copy_location(mark, block[index] if index < len(block) else tree))
    return ast.fix_missing_locations(tree)


def _place(tree: ast.Module, line: int, *, gone_from: int) -> tuple[list[ast.stmt], int]:
    """In front of the innermost statement at `line`; where the bug is that a statement is gone, of the first one of the
    function or class that it is gone from. `gone_from`: the line where the function begins, 0 for none."""
    block, index, first = tree.body, 0, 0
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            for position, stmt in enumerate(value if isinstance(value, list) else ()):
                is_here = isinstance(stmt, ast.stmt) and stmt.lineno <= line <= (stmt.end_lineno or stmt.lineno)
                if is_here and stmt.lineno >= first:
                    block, index, first = value, position, stmt.lineno
    innermost = block[index]
    if isinstance(innermost, ast.ClassDef) and gone_from:  # it was the last one
        innermost = next(node for node in ast.walk(innermost) if _is_function(node) and node.lineno == gone_from)
        first = gone_from
    if isinstance(innermost, ast.FunctionDef | ast.ClassDef) and line > first:
        return innermost.body, int(ast.get_docstring(innermost) is not None)
    return block, index


def _is_function(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef)


def _function_at(tree: ast.Module, line: int) -> int:
    """The line where the innermost function around `line` begins, 0 for none."""
    functions = [node for node in ast.walk(tree) if _is_function(node)]
    return max((node.lineno for node in functions if node.lineno < line <= (node.end_lineno or line)), default=0)
