"""A course of one small chapter in a temporary folder, for the tests of chapters, copies, scripts and commands."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

NAME = "ch98_sums"
STUB = 'def total(dist, value):\n    """Return the total."""\n    raise NotImplementedError'
ANSWER = "def total(dist, value):\n    return value * dist.get_world_size()"
SOLUTIONS = '''"""Solutions."""
from functools import wraps


def keep(function):
    return function


@keep
def total(dist, value):
    """Why: every rank has the same value."""
    return value * dist.get_world_size()


class Counter:
    seen = 0
'''


def code(name: str, source: str, *tags: str, **course):
    cell = new_code_cell(source, id=name)
    cell.metadata["tags"] = list(tags)
    if course:
        cell.metadata["course"] = course
    return cell


def cells() -> list:
    return [
        new_markdown_cell("# Sums", id="title"),
        code("imports", "import os", "imports"),
        code("guess_total", "guess_total = None  # your number, in bytes", "prediction"),
        code("total", STUB, "exercise"),
        code("check_total", "check_total(total)", "check", "raises-exception", points=5, minutes=20, level="core"),
        code("demo", 'text = """first\nsecond"""\ntotal(os, ranks=6)', "script", "needs-total", "raises-exception"),
        code("Counter", "class Counter:\n    def add(self):\n        raise NotImplementedError", "exercise"),
        code("check_Counter", "check_Counter(Counter)", "check", points=2, minutes=5, level="extra"),
    ]


def save(path, notebook_cells, version: int = 1, name: str = NAME):
    path.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=notebook_cells, metadata={
        "course": {"chapter": name, "title": "Sums", "version": version}}), path)
    return path


def make_course(folder: Path) -> Path:
    """Return a folder with the chapter and its solutions."""
    save(folder / "notebooks" / f"{NAME}.ipynb", cells())
    (folder / "solutions").mkdir()
    (folder / "solutions" / f"{NAME}.py").write_text(SOLUTIONS)
    return folder


def edit(path, **sources: str):
    """Change the sources of a copy's cells, as a learner would."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = sources.get(cell.id, cell.source)
    nbformat.write(notebook, path)


def new_version(course, *extra, version: int = 2):
    """Release a chapter with another title and other cells added."""
    changed = cells()
    changed[0].source = "# Sums, again"
    save(course / "notebooks" / f"{NAME}.ipynb", [*changed, *extra], version)


def sources(path) -> dict[str, str]:
    return {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}
