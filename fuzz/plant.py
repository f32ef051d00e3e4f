"""Puts planted bugs into a process. The code that is shipped knows nothing of it.

Where a bug is inside of functions of a module that is there already, their code is exchanged, so that a process forked
from one that has imported everything need not do so again. All else is done while the module is imported.
"""

import ast
import builtins
import functools
import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FrameType, FunctionType
from typing import Any

from fuzz.planted import Mutant
from fuzz.reach import MARK, marked

OURS = ("strata", "sim", "fuzz")
KEPT = ("fuzz", "fuzz.child", "fuzz.planted", "fuzz.plant", "fuzz.reach")
"""Of our modules those that plant, and judge nothing."""
JUDGES = ("fuzz.campaign", "fuzz.minimize", "sim.world.recording", "sim.world.trace")
_called_early: set[CodeType] = set()

Names = tuple[str, ...]


def import_ahead() -> None:
    """Imports what bugs are judged with. Functions that run meanwhile leave something behind, so their code is never
    exchanged."""

    def note(frame: FrameType, event: str, arg: Any) -> None:
        _called_early.add(frame.f_code)

    sys.setprofile(note)
    try:
        for module in JUDGES:
            importlib.import_module(module)
    finally:
        sys.setprofile(None)


def plant(mutants: Sequence[Mutant]) -> None:
    """Modules of `mutants` have their bugs from now on, and a mark where the first one is, for a `Reach` that there is
    by then. Unless functions alone had to change, all that was imported of ours must be imported again."""
    vars(builtins).setdefault(MARK, lambda: None)
    codes = compile_changed(mutants)
    if kept := sorted(set(codes) & set(KEPT)):
        raise ValueError(f"{kept[0]} plants bugs itself, and can have none")
    imported = {module: code for module, code in codes.items() if module in sys.modules}
    changes = [_exchanges(module, code) for module, code in imported.items()]
    if None not in changes:
        for function, code in (pair for change in changes if change for pair in change):
            function.__code__ = code
    else:
        for name in [name for name in sys.modules if name.split(".")[0] in OURS and name not in KEPT]:
            del sys.modules[name]
    sys.meta_path.insert(0, _Finder(codes))


def compile_changed(mutants: Sequence[Mutant]) -> dict[str, CodeType]:
    """The code of each module of `mutants` with every bug that belongs to it."""
    codes: dict[str, CodeType] = {}
    for module in dict.fromkeys(mutant.module for mutant in mutants):
        own = [mutant for mutant in mutants if mutant.module == module]
        path = own[0].module_path
        text = path.read_text(encoding="utf-8")
        for mutant in own[1:]:
            text = mutant.changed(text)
        tree = marked(own[0], text) if own[0] is mutants[0] else ast.parse(own[0].changed(text))
        codes[module] = compile(tree, str(path), "exec", dont_inherit=True)
    return codes


def _exchanges(module: str, changed: CodeType) -> list[tuple[FunctionType, CodeType]] | None:
    """Functions of the imported `module`, and what their code is to be; None where not functions alone differ, or one
    of them has run already or cannot be found by its name."""
    path = sys.modules[module].__file__
    assert path is not None
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    differing = _differing(code, changed)
    if differing is None:
        return None
    exchanges = []
    for names, (old_code, new_code) in differing.items():
        function = _find(vars(sys.modules[module]), names)
        if function is None or function.__code__ in _called_early or _plain(function.__code__) != _plain(old_code):
            return None
        if old_code.co_freevars != new_code.co_freevars:
            return None
        exchanges.append((function, new_code))
    return exchanges


def _differing(old: CodeType, new: CodeType, names: Names = ()) -> dict[Names, tuple[CodeType, CodeType]] | None:
    """The code of functions that differ, by their names, in what runs while a module is imported; None where that
    differs itself. Lines may move."""
    if _plain(old, with_inner=False) != _plain(new, with_inner=False):
        return None
    found: dict[Names, tuple[CodeType, CodeType]] = {}
    for one, other in zip(_inner(old), _inner(new), strict=True):
        if _plain(one) == _plain(other):
            continue
        path = (*names, one.co_name)
        if one.co_flags & inspect.CO_NEWLOCALS and one.co_flags & inspect.CO_OPTIMIZED:  # a function
            found[path] = one, other
        elif (within := _differing(one, other, path)) is not None:
            found |= within
        else:
            return None
    return found


def _inner(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def _plain(code: CodeType, *, with_inner: bool = True) -> CodeType:
    """Without the lines it stands at."""
    inner = (_plain(const) if with_inner else const.co_name for const in code.co_consts if isinstance(const, CodeType))
    consts = tuple(next(inner) if isinstance(const, CodeType) else const for const in code.co_consts)
    return code.replace(co_firstlineno=1, co_linetable=b"", co_consts=consts)


def _find(scope: Mapping[str, Any], names: Names) -> FunctionType | None:
    found: Any = scope.get(names[0])
    for name in names[1:]:
        found = vars(found).get(name) if isinstance(found, type) else None
    found = found.fget if isinstance(found, property) else found
    found = found.func if isinstance(found, functools.cached_property) else found
    found = inspect.unwrap(found.__func__ if isinstance(found, staticmethod | classmethod) else found)
    return found if isinstance(found, FunctionType) else None


class _Finder(MetaPathFinder):
    def __init__(self, codes: Mapping[str, CodeType]) -> None:
        self._codes = codes

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if fullname not in self._codes:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None, fullname
        spec.loader = _Loader(fullname, spec.origin, self._codes[fullname])
        return spec


class _Loader(SourceFileLoader):
    """Runs the changed code under the file's own name; byte code that lies about is not looked at."""

    def __init__(self, fullname: str, path: str, code: CodeType) -> None:
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code
