"""The time in which an answer's cells load: whatever would start ranks, check, draw or show does nothing meanwhile.

Learners leave demo lines in their cells (`check_total(total)`, `timeline(run(...))`), and each process of a graded
answer loads the cells anew. Stand-ins raise `Demo` until the cells are loaded; from then on they are what they stand
for, so that an answer may still call them. All of this is in the answer's process: nothing is judged by it.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from course_lib import ranks
from course_lib.engine.processes import launcher

ACT = {
    "course_lib.notebook": {"compare", "progress", "solution"},
    "course_lib.ranks": {"run"},
    "course_lib.lessons.memory_step": {"measure_step"},
    "course_lib.lessons.running_table": {"measure"},
    "course_lib.training": {"train"},
}
"""Functions by module; all of those that draw, and all checks, come on top."""
DRAW = "course_lib.plots"


class Demo(Exception):  # noqa: N818 - no mistake, unless a definition wants the value
    """A line of a cell wanted to act while the cell was only being loaded."""


def acts(thing: Any) -> bool:
    """Return whether this is a function of the course that does something rather than work something out."""
    if not isinstance(thing, FunctionType) or not isinstance(thing.__module__, str):
        return False
    module = thing.__module__
    if module.startswith("exercises_tests.ch"):
        return thing.__name__.startswith("check_")
    return module.startswith(DRAW) or thing.__name__ in ACT.get(module, ())


class Loading:
    """The loading of cells, as a context; `met` says whether any line has tried to act."""

    def __init__(self) -> None:
        self.over, self.met = False, False

    def __enter__(self) -> Loading:
        self._kept = ranks.run, launcher.LAUNCHER
        ranks.run, launcher.LAUNCHER = _StandIn(ranks.run, self), _Nobody(self)
        return self

    def __exit__(self, *_: Any) -> None:
        ranks.run, launcher.LAUNCHER = self._kept
        del self._kept  # a stand-in may travel on to ranks; a launcher cannot
        self.over = True

    def hold(self, namespace: dict[str, Any]) -> None:
        """Put stand-ins in the place of what acts."""
        for name, thing in list(namespace.items()):
            if acts(thing):
                namespace[name] = _StandIn(thing, self)

    def refuse(self, name: str) -> None:
        self.met = True
        raise Demo(f"{name} does nothing while an exercise cell is loaded for grading: define the answer without it")


class _StandIn:
    """A function of the course that waits until the cells are loaded."""

    def __init__(self, real: Any, loading: Loading) -> None:
        functools.update_wrapper(self, real)
        self._real, self._loading = real, loading

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._loading.over:
            self._loading.refuse(self.__name__)
        return self._real(*args, **kwargs)


class _Nobody:
    """Stands in for the launcher: what starts ranks in some other way comes to it."""

    def __init__(self, loading: Loading) -> None:
        self._loading = loading

    def __getattr__(self, name: str) -> Any:
        self._loading.refuse("starting ranks")
