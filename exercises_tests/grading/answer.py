"""A learner's answer while it is graded: text, until it is inside a process of its own.

A check is handed an `Answer` in place of the function. Called, or given to `run`, it travels as text; only the process
that it ends up in turns it into a function. So nothing of the learner's ever runs where the check runs, and a
redefined check, a patched course_lib or a replaced traceback changes nothing but the learner's own process.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
from collections.abc import Iterator
from typing import Any

from course_lib.engine import failures, packing, runs
from course_lib.engine.processes import launcher
from exercises_tests.grading.cells import binds, filename, needed, statements
from exercises_tests.grading.loading import Loading

PATIENCE = 20.0  # seconds that one plain call may take
AWAITS = (
    "await outside of a function: a notebook runs that, but there is no event loop where cells are graded; "
    "put it into an async function, or take it out of the exercise cell"
)


class Answer:
    """The function `name` as the learner's exercise cells define it; `cells` maps cell ids to their text, in order."""

    def __init__(self, name: str, cells: dict[str, str], imports: str = "") -> None:
        self.__name__, self._cells, self._imports = name, cells, imports
        for cell, text in cells.items():
            linecache.cache[filename(cell)] = (len(text), None, text.splitlines(keepends=True), filename(cell))

    def __reduce__(self) -> tuple:
        return load, (self.__name__, tuple(self._cells.items()), self._imports)

    def __call__(self, *args: Any) -> Any:
        """Call the function in a process of its own and return plain data. Raises RankFailed as `run` does."""
        return self._elsewhere(self, *args)

    def __alone__(self, drive: Any, *data: Any) -> Any:
        """Return `drive(function, *data)` from a process of its own (see exercises_tests.judging.alone)."""
        return self._elsewhere(drive, self, *data)

    def _elsewhere(self, fn: Any, *args: Any) -> Any:
        job = runs.job("alone", call=packing.pack_call(fn, args))
        patience = min(PATIENCE, getattr(launcher.LAUNCHER, "seconds", PATIENCE))
        (child,) = launcher.LAUNCHER.run([job], patience)
        failures.raise_first_failure([child], patience, alone=True)
        return runs.value(child.outcome.value, None)


class _NoShell:
    """Stands in for the shell of a notebook: its magics and settings do nothing where answers are graded."""

    def __getattr__(self, name: str) -> _NoShell:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> _NoShell:
        return self


def load(name: str, cells: tuple[tuple[str, str], ...], imports: str) -> Any:
    """In the learner's process: run the cells that `name` needs as a notebook would, and return what it is then.

    Definitions count. Other lines are run too, for what they bind, but a demo is passed over: what would start ranks,
    check or draw does nothing while cells load, and a line that fails loses nothing unless it binds what is needed.
    """
    builtins.get_ipython = _NoShell
    namespace: dict[str, Any] = {"__name__": "__main__"}
    parsed = dict(_parsed(name, cells))
    chosen, names = needed(name, parsed)
    failure: Exception | None = None
    with Loading() as loading:
        exec(compile(imports, filename("imports"), "exec"), namespace)
        loading.hold(namespace)
        for cell in filter(chosen.__contains__, parsed):
            try:
                failure = _run(cell, parsed[cell], namespace, name, names, loading) or failure
            except Exception:  # another exercise's cell loses its own points, and is missed only where it is used
                if cell == name:
                    raise
    if name not in namespace:
        raise failure or NameError(f"the cell {name} does not define {name}")
    return namespace[name]


def _parsed(name: str, cells: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield the cells that parse. Raises what is wrong with the one called `name`."""
    for cell, text in cells:
        try:
            yield cell, statements(cell, text)
        except Exception:  # SyntaxError, mostly
            if cell == name:
                raise


def _run(
    cell: str, body: list[ast.stmt], namespace: dict[str, Any], name: str, names: set[str], loading: Loading
) -> Exception | None:
    """Run a cell statement by statement; return the first failure that was passed over.

    That is one of a statement that binds none of the `names` that `name` needs; or, once a demo has done nothing, of
    any that may miss what the demo would have bound.
    """
    passed_over: Exception | None = None
    for statement in body:
        try:
            code = compile(ast.Module([statement], []), filename(cell), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if code.co_flags & inspect.CO_COROUTINE:
                raise SyntaxError(AWAITS, (filename(cell), statement.lineno, None, None))
            exec(code, namespace)
        except Exception as error:
            if binds(statement) & ({name} if loading.met else names):
                raise
            passed_over = passed_over or error
        loading.hold(namespace)
    return passed_over
