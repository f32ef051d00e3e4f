"""Whether the line of a planted bug has run. A line tracer on one file, which takes itself off at the first hit."""

import ast
import sys
from types import FrameType
from typing import Any

from fuzz.planted import Mutant, changed_source


class Reach:
    """Watches from construction on, also while the module is imported."""

    def __init__(self, mutant: Mutant) -> None:
        self._path = str(mutant.module_path)
        self._lines = lines_of(mutant)
        self.is_reached = False
        sys.settrace(self._call)

    def stop(self) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename == self._path else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and frame.f_lineno in self._lines:
            self.is_reached = True
            sys.settrace(None)
            return None
        return self._line


def lines_of(mutant: Mutant) -> range:
    """The lines, in the changed source, of the innermost statement that the bug is in; where the bug is that a
    statement is gone, of the block that it is gone from."""
    text = changed_source(mutant.module, [])
    first = text.count("\n", 0, text.index(mutant.fragment)) + 1
    line = first + len(mutant.replacement) - len(mutant.replacement.lstrip("\n"))
    innermost: ast.stmt | None = None
    for node in ast.walk(ast.parse(mutant.changed(text))):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        if innermost is None or node.lineno >= innermost.lineno:
            innermost = node
    if innermost is None:
        return range(1, text.count("\n") + 2)
    start = innermost.lineno
    if isinstance(innermost, ast.FunctionDef | ast.ClassDef) and line > start:
        start = innermost.body[0].lineno
    return range(start, (innermost.end_lineno or start) + 1)
