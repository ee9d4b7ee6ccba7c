"""A learner's answer while it is graded: text, until it is inside a process of its own.

A check is handed an `Answer` in place of the function. Called, or given to `run`, it travels as text; only the process
that it ends up in turns it into a function. So nothing of the learner's ever runs where the check runs, and a
redefined check, a patched course_lib or a replaced traceback changes nothing but the learner's own process.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
from typing import Any

from course_lib import ranks
from course_lib.ranks import packing

CELL = "cell "  # begins the file name of every cell
PATIENCE = 20.0  # seconds that one plain call may take


class Answer:
    """The function `name` as the learner's exercise cells define it; `cells` maps cell ids to their text, in order."""

    def __init__(self, name: str, cells: dict[str, str], imports: str = "") -> None:
        self.__name__, self._cells, self._imports = name, cells, imports
        for cell, text in cells.items():
            linecache.cache[_filename(cell)] = (len(text), None, text.splitlines(keepends=True), _filename(cell))

    def __reduce__(self) -> tuple:
        return load, (self.__name__, tuple(self._cells.items()), self._imports)

    def __call__(self, *args: Any) -> Any:
        """Call the function in a process of its own and return plain data. Raises RankFailed as `run` does."""
        return self._elsewhere(self, *args)

    def __alone__(self, drive: Any, *data: Any) -> Any:
        """Return `drive(function, *data)` from a process of its own (see course_lib.checks.alone)."""
        return self._elsewhere(drive, self, *data)

    def _elsewhere(self, fn: Any, *args: Any) -> Any:
        job = ranks._job("alone", call=packing.pack_call(fn, args))
        patience = min(PATIENCE, getattr(ranks.LAUNCHER, "seconds", PATIENCE))
        (child,) = ranks.LAUNCHER.run([job], patience)
        ranks._raise_first_failure([child], patience, alone=True)
        return ranks._value(child.answer["value"], None)


def _filename(cell: str) -> str:
    return CELL + cell


class _NoShell:
    """Stands in for the shell of a notebook: its magics and settings do nothing where answers are graded."""

    def __getattr__(self, name: str) -> _NoShell:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> _NoShell:
        return self


@functools.lru_cache(maxsize=64)
def _compiled(cell: str, text: str) -> Any:
    try:
        return compile(text, _filename(cell), "exec")
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        return compile(TransformerManager().transform_cell(text), _filename(cell), "exec")


def load(name: str, cells: tuple[tuple[str, str], ...], imports: str) -> Any:
    """In the learner's process: run the cells as a notebook would and return what `name` is then."""
    builtins.get_ipython = _NoShell
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(_compiled("imports", imports), namespace)
    for cell, text in cells:
        try:
            exec(_compiled(cell, text), namespace)
        except Exception:  # in another exercise's cell: it loses its own points, and is missed only where it is used
            if cell == name:
                raise
    if name not in namespace:
        raise NameError(f"the cell {name} does not define {name}")
    return namespace[name]


def borrows(name: str, text: str) -> bool:
    """Return whether a cell only borrows the solution: `name = borrow("name")`."""
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    wanted = ast.dump(ast.parse(f"{name} = borrow({name!r})").body[0])
    return any(ast.dump(statement) == wanted for statement in statements)


def names_defined(text: str) -> set[str]:
    """Return the names that a cell defines at top level; empty if it does not parse."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return set()
    names = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    for node in body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            names |= {leaf.id for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            names.add((alias.asname or alias.name).split(".")[0])
    return names
