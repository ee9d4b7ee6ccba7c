"""The small library that the notebooks of this course import: `from course_lib import run, Cluster, ...`.

What a learner calls is in the files named below, and algorithms.py says which messages a collective sends; `engine/` is
how it works, and need not be read. Names are looked up when they are first used, because hardware, models, costs and
memory need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.cluster import Cluster
    from course_lib.engine.storages import bytes_held
    from course_lib.events import Event
    from course_lib.notebook import borrow, compare, progress, solution
    from course_lib.ranks import each, one_process, run, work
    from course_lib.results import Deadlock, RankFailed, Results

_HOME = {
    "run": "ranks", "each": "ranks", "work": "ranks", "one_process": "ranks",
    "borrow": "notebook", "compare": "notebook", "progress": "notebook", "solution": "notebook",
    "Results": "results", "RankFailed": "results", "Deadlock": "results",
    "Cluster": "cluster", "Event": "events", "bytes_held": "engine.storages",
}
__all__ = [
    "Cluster", "Deadlock", "Event", "RankFailed", "Results", "borrow", "bytes_held", "compare", "each", "one_process",
    "progress", "run", "solution", "work",
]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"course_lib has no {name!r}; it has {', '.join(__all__)}, and its modules", name=name)
    return getattr(import_module(f"course_lib.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
