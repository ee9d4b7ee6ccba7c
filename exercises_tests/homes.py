"""Which cell of a notebook gave a name its value: only the exercises' own cells are graded."""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any

from course_lib.chapter_names import binds
from course_lib.engine import packing

IMPORTS = "imports"  # the cell of a chapter that is run where answers are graded, beside the exercises'


LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


@dataclass
class Homes:
    """Notes, before each cell is run, its id and the names that it binds."""

    cell: str = ""
    """The id of the cell that runs; empty where the notebook's program does not tell."""
    last: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By name the id and the number of the cell that bound it last."""
    all: dict[str, set[str]] = field(default_factory=dict)
    broken: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By name the id and the number of the cell that was to bind it last and does not compile."""
    left: set[str] = field(default_factory=set)
    """The ids of cells that did not bind their own id as a name when they ran last: an exercise's cell is to do so."""
    judged: dict[str, int] = field(default_factory=dict)
    """By exercise the number of the cell whose answer a check has judged last."""

    def before(self, info: Any) -> None:
        """Note a cell; IPython calls this before it runs."""
        shell = sys.modules["IPython"].get_ipython()
        try:
            source = shell.transform_cell(info.raw_cell)
        except SyntaxError:  # IPython could not even read it
            source = info.raw_cell
        self.note(getattr(info, "cell_id", None) or "", len(shell.user_ns["In"]), source)  # it is not in there yet

    def note(self, cell: str, number: int, source: str) -> None:
        self.cell = cell
        bound = binds(source)
        if bound is None:
            self.broken |= dict.fromkeys(_BEGINS.findall(source), (cell, number))
            return
        self.broken = {name: place for name, place in self.broken.items() if not cell or place[0] != cell}
        self.left = self.left - {cell} if cell in bound else self.left | {cell}
        for name in bound:
            self.broken.pop(name, None)
            self.last[name] = cell, number
            self.all.setdefault(name, set()).add(cell)

    def unread(self, exercise: str) -> str:
        """Return that Python could not read the cell that was to define an exercise; nothing if it could."""
        if exercise not in self.broken:
            return ""
        return (
            f"cell [{self.broken[exercise][1]}], where you write it, has a syntax error, so nothing new was judged: "
            "mend the line that is named under that cell, run the cell, then run this one again"
        )

    def old(self, exercise: str) -> str:
        """Return which cell's answer is judged, where a learner may well believe that it is a newer one; or nothing."""
        if exercise not in self.last:
            return ""
        number, before = self.last[exercise][1], self.judged.get(exercise)
        self.judged[exercise] = number
        if exercise in self.left:
            return f"Its cell no longer defines {exercise}: judged is what cell [{number}] defined."
        if number == before:
            return f"Judged again: what cell [{number}] defined. If you have changed it since, run its cell first."
        return ""

    def warning(self, answer: Any, exercise: str, exercises: set[str]) -> str:
        """Return what is not graded although it passes here: the answer itself, or what it uses; or nothing."""
        if self.cell != f"check_{exercise}" or not callable(answer):  # not the chapter's own cell or ids; a number
            return ""
        home = self.last.get(exercise)
        names = getattr(answer, "__globals__", None) or vars(sys.modules.get(answer.__module__, sys))
        if home and home[0] != exercise and names.get(exercise) is answer:
            return (
                f"This answer stands in cell [{home[1]}], and only the exercise's own cell is graded, the one that "
                f"began with the stub: move it there, or it will score 0."
            )
        for name, value in _used(answer, set()):
            where = self.last.get(name)
            if where is None or where[0] in exercises or where[0] == IMPORTS:
                continue
            if _is_library(value) and self.all[name] & {*exercises, IMPORTS}:
                continue  # imported once more
            return (
                f"This answer uses {name}, which was made in cell [{where[1]}]. Only the exercises' own cells are "
                f"graded: write {name} in the cell of {exercise} too, or it will be missing there."
            )
        return ""


HOMES = Homes()


def watch() -> None:
    """In a notebook, note from now on which cell binds which names; and of the cell that runs now."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if getattr(shell, "kernel", None) is None:
        return
    shell.events.register("pre_run_cell", HOMES.before)
    parent = shell.kernel.get_parent() or {}
    cells = shell.user_ns["In"]
    HOMES.note((parent.get("metadata") or {}).get("cellId") or "", len(cells) - 1, cells[-1])


_BEGINS = re.compile(r"^(?:def +|class +|(?=\w+ *=))(\w+)", re.MULTILINE)  # in what does not parse: lines that bind


def _used(answer: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the global names, and their values, that a learner's function or class uses, however deep."""
    functions = [value for value in vars(answer).values() if hasattr(value, "__code__")] if isinstance(
        answer, type) else [answer]  # fmt: skip
    for function in functions:
        code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
        if code is None or id(code) in seen or packing.is_library(code.co_filename):
            continue
        seen.add(id(code))
        for name in dict.fromkeys(_names(code)):
            if name in names:
                yield name, names[name]
                if isinstance(names[name], type | Callable):
                    yield from _used(names[name], seen)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that code looks up by themselves; what stands behind a dot, as count in x.count, is none."""
    for step in dis.get_instructions(code):
        if step.opname in LOADS:
            yield step.argval
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)


def _is_library(value: Any) -> bool:
    if isinstance(value, ModuleType):
        return True
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    return module is not None and module.__name__ != "__main__"
