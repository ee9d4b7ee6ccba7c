"""A learner's copies of the chapters in work/: made once, never overwritten, updated with a backup.

A copy's metadata keep what it was copied from (a digest of the chapter, and one of each cell's source), so that
`update` knows whether the chapter has changed since, and which cells the learner has changed.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from exercises_tests.tools.chapters import (
    ROOT,
    Chapter,
    ChapterError,
    answers_of,
    chapters,
    find,
    overlay,
    read,
    tagged,
)

KEPT = ("exercise", "prediction")  # the tags of cells that a learner fills in
# What a kernel says of its language, in its words: JupyterLab notes it in a notebook that it opens, and where that is
# news it shows the notebook as unsaved.
LANGUAGE = {
    "name": "python", "version": platform.python_version(), "mimetype": "text/x-python", "file_extension": ".py",
    "codemirror_mode": {"name": "ipython", "version": sys.version_info[0]}, "nbconvert_exporter": "python",
    "pygments_lexer": f"ipython{sys.version_info[0]}"}  # fmt: skip


def to_work(root: Path = ROOT) -> list[str]:
    """Copy the chapters that work/ does not have yet; return a sentence for each thing a learner should know."""
    said, known, made = [], {}, []
    for path in copies(root):
        try:
            known[read(path).name] = path
        except ChapterError as error:
            said.append(f"Left alone: {error}")
    for chapter in chapters(root):
        target = root / "work" / f"{chapter.name}.ipynb"
        if chapter.name in known:
            if newer(chapter, read(known[chapter.name])):
                said.append(f"{shown(known[chapter.name], root)} is from an older version of the chapter: "
                            "make update puts your answers on the new one.")
        elif not target.exists():
            write(target, stamped(chapter.notebook, chapter))
            made.append(chapter.name)
    if len(made) > 3:
        said.append(f"Copied {len(made)} chapters, {made[0]} to {made[-1]}, to work/.")
    else:
        said += [f"Copied {name} to work/{name}.ipynb." for name in made]
    return said


def update(root: Path = ROOT) -> tuple[list[str], bool]:
    """Put a learner's answers on the newer chapters; return what was done in sentences, and if all could be read."""
    said, well = [], True
    pristine = {chapter.name: chapter for chapter in chapters(root)}
    for path in copies(root):
        try:
            learner = read(path)
            if learner.name not in pristine:
                said.append(f"{shown(path, root)} left alone: this version of the course has no {learner.name}.")
            elif newer(pristine[learner.name], learner):
                said += update_copy(learner, pristine[learner.name], root)
            else:
                said.append(f"{shown(path, root)} is up to date.")
        except ChapterError as error:
            said.append(f"Left alone: {error}")
            well = False
    return said or ["work/ has no chapters yet: make lab copies them."], well


def update_copy(learner: Chapter, chapter: Chapter, root: Path) -> list[str]:
    """Replace one copy by the newer chapter with the learner's answers and predictions in it, after a backup."""
    given = copied_from(learner).get("cells", {})
    wanted = {cell["id"]: cell.source for tag in KEPT for cell in tagged(chapter.notebook, tag)}
    carried = {name: source for name, source in answers_of(learner.notebook, list(wanted)).items()
               if source != wanted[name] and filled_in(name, source, given)}
    moved = moved_away(learner, chapter, root)
    taken = {*carried.values(), *(source for answers in moved.values() for source in answers.values())}
    added = own_cells(learner, chapter, given, taken)
    kept = {id(cell) for _, cell in added}
    left = [label(cell) for cell in learner.notebook.cells if cell.source not in taken and id(cell) not in kept
            and is_own(cell, given or {cell.get("id"): digest(cell.source) for cell in chapter.notebook.cells})]
    backup = back_up(learner.path, root)
    write(learner.path, stamped(with_own(overlay(chapter, carried, into=KEPT), added), chapter))
    said = [f"{shown(learner.path, root)} is now version {chapter.version}; carried over: "
            f"{', '.join(carried) or 'nothing'}. The old one is {shown(backup, root)}. "
            "If it is open in JupyterLab, reload it from disk."]
    for home, answers in moved.items():
        said += move_along(answers, find(home, root), root)
    if added:
        said.append(f"  Your own cells came along: {'; '.join(label(cell) for _, cell in added)}.")
    if left:
        said.append(f"  Only in that backup, what you changed elsewhere: {'; '.join(left)}.")
    return said


def own_cells(learner: Chapter, chapter: Chapter, given: dict, taken: set[str]) -> list[tuple[str, NotebookNode]]:
    """Return the cells that a learner has added, each with the id of the chapter's cell above it ("" where none is).

    Which cells were added only a copy knows that remembers what it was given; one made by hand does not.
    """
    here = {cell["id"] for cell in chapter.notebook.cells}
    above, found = "", []
    for cell in learner.notebook.cells:
        name = cell.get("id")
        if name in here:
            above = name
        elif given and name and name not in given and cell.source.strip() and cell.source not in taken:
            found.append((above, cell))
    return found


def with_own(notebook: NotebookNode, added: list[tuple[str, NotebookNode]]) -> NotebookNode:
    """Return a notebook with a learner's own cells put in again, each below the cell that it stood below."""
    below: dict[str, list[NotebookNode]] = {}
    for above, cell in added:
        again = copy.deepcopy(cell)
        again["metadata"] = NotebookNode()  # a copied exercise must not count as one
        if cell.cell_type == "code":
            again |= {"outputs": [], "execution_count": None}
        below.setdefault(above, []).append(again)
    lines = [[cell, *below.get(cell["id"], [])] for cell in notebook.cells]
    notebook["cells"] = sum(lines, below.get("", []))
    return notebook


def moved_away(learner: Chapter, chapter: Chapter, root: Path) -> dict[str, dict[str, str]]:
    """Return a copy's answers to exercises that are another chapter's now, by that chapter's name."""
    here, given = {exercise.id for exercise in chapter.exercises}, copied_from(learner).get("cells", {})
    homes = {cell["id"]: other.name for other in chapters(root) for cell in tagged(other.notebook, "exercise")}
    found: dict[str, dict[str, str]] = {}
    for name, source in answers_of(learner.notebook).items():
        if name not in here and name in homes and filled_in(name, source, given):
            found.setdefault(homes[name], {})[name] = source
    return found


def move_along(answers: dict[str, str], home: Chapter, root: Path) -> list[str]:
    """Put answers into the copy of the chapter that asks for them now, where it has none yet; say what was done.

    An answer moves only if it takes what the exercise asks for there.
    """
    stubs = {cell["id"]: cell.source for cell in tagged(home.notebook, "exercise")}
    said, asked = [], answers
    answers = {name: source for name, source in asked.items() if parameters(source) == parameters(stubs[name])}
    if other := [name for name in asked if name not in answers]:
        why = f"because {home.name} asks for it with other parameters"
        said.append(f"  Only in that backup, {why}: {', '.join(other)}.")
    if not answers:
        return said
    copy_of_home = next((path for path in copies(root) if is_copy_of(path, home)), None)
    if copy_of_home is None:
        target = root / "work" / f"{home.name}.ipynb"
        write(target, stamped(overlay(home, answers), home))
        return [*said, f"  Moved to {shown(target, root)}, which asks for it now: {', '.join(answers)}."]
    there = read(copy_of_home)
    cells, given = {cell.get("id"): cell for cell in there.notebook.cells}, copied_from(there).get("cells", {})
    free = [name for name in answers if name in cells and not filled_in(name, cells[name].source, given)]
    for name in free:
        cells[name]["source"] = answers[name]
    if free:
        backup = back_up(copy_of_home, root)
        write(copy_of_home, there.notebook)
        said.append(f"  Moved to {shown(copy_of_home, root)}, which asks for it now: {', '.join(free)}. "
                    f"The old one is {shown(backup, root)}.")
    if left := [name for name in answers if name not in free]:
        said.append(f"  Only in the first backup, because {shown(copy_of_home, root)} has an answer of its own or is "
                    f"older: {', '.join(left)}.")
    return said


def parameters(source: str) -> list[str] | None:
    """Return the names of what the first function or class of a cell takes; None where there is none to be read."""
    try:
        found = next((one for one in ast.parse(source).body if isinstance(one, (ast.FunctionDef, ast.ClassDef))), None)
    except SyntaxError:
        return None
    if isinstance(found, ast.ClassDef):
        found = next((one for one in found.body if getattr(one, "name", "") == "__init__"), None)
    return None if found is None else [one.arg for one in found.args.posonlyargs + found.args.args]


def is_copy_of(path: Path, chapter: Chapter) -> bool:
    try:
        return read(path).name == chapter.name
    except ChapterError:
        return False


def copies(root: Path) -> list[Path]:
    """Return the notebooks in work/, which is created if it does not exist."""
    work = root / "work"
    try:
        work.mkdir(exist_ok=True)
        return sorted(path for path in work.iterdir() if path.suffix == ".ipynb")
    except OSError as error:
        raise ChapterError(f"{work} cannot be used: {error.strerror}.") from None


def newer(chapter: Chapter, learner: Chapter) -> bool:
    """Return whether a learner's copy should be updated to the chapter; a copy of a later version should not."""
    if learner.version != chapter.version:
        return learner.version < chapter.version
    before = copied_from(learner).get("digest")
    return before is not None and before != digest_of(chapter.notebook)


def copied_from(learner: Chapter) -> dict:
    """Return what a copy's metadata say of the chapter it was made from; nothing where it was copied by hand."""
    found = learner.notebook.metadata["course"].get("copied_from")
    return found if isinstance(found, dict) and isinstance(found.get("cells", {}), dict) else {}


def stamped(notebook: NotebookNode, chapter: Chapter) -> NotebookNode:
    """Return a copy of a notebook that remembers from which state of the chapter it was made."""
    made = copy.deepcopy(notebook)
    made.metadata["language_info"] = NotebookNode(LANGUAGE)
    made.metadata["course"]["copied_from"] = {
        "digest": digest_of(chapter.notebook),
        "cells": {cell["id"]: digest(cell.source) for cell in chapter.notebook.cells if "id" in cell}}
    return made


def digest_of(notebook: NotebookNode) -> str:
    return digest(json.dumps([(cell.get("id"), cell.cell_type, cell.source, learners(cell.metadata))
                              for cell in notebook.cells], sort_keys=True))


def learners(metadata: dict) -> dict:
    """Return a cell's metadata without what stands on a slide: no copy is older because a slide is newer."""
    course = metadata.get("course")
    if not isinstance(course, dict) or "slide" not in course:
        return metadata
    kept = {key: value for key, value in course.items() if key != "slide"}
    return {key: value for key, value in metadata.items() if key != "course"} | ({"course": kept} if kept else {})


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def filled_in(name: str, source: str, given: dict) -> bool:
    """Return whether a learner has changed a cell; for a copy made by hand: whether it is more than a stub."""
    if name in given:
        return digest(source) != given[name]
    return not source.rstrip().endswith("raise NotImplementedError") and "= None  #" not in source


def is_own(cell: NotebookNode, given: dict) -> bool:
    """Return whether a learner has added or changed a cell, beside those cells that were given."""
    return bool(cell.source.strip()) and digest(cell.source) != given.get(cell.get("id"))


def label(cell: NotebookNode) -> str:
    """Return a few words by which a learner recognizes a cell."""
    first = cell.source.strip().splitlines()[0]
    return f"{cell.get('id', 'without an id')} ({first[:40]}{'…' if len(first) > 40 else ''})"


def back_up(path: Path, root: Path) -> Path:
    """Return the path of a new, time-stamped copy of a file in work/backups/."""
    folder, moment = root / "work" / "backups", datetime.now().strftime("%Y%m%d-%H%M%S")
    try:
        folder.mkdir(exist_ok=True)
        target, number = folder / f"{path.stem}-{moment}.ipynb", 1
        while target.exists():
            number += 1
            target = folder / f"{path.stem}-{moment}-{number}.ipynb"
        shutil.copy2(path, target)
    except OSError as error:
        raise ChapterError(f"No backup of {path} can be written to {folder}: {error.strerror}.") from None
    return target


def write(path: Path, content: NotebookNode | str) -> None:
    """Write a notebook or a text at once or not at all."""
    text = content if isinstance(content, str) else nbformat.v4.writes(content) + "\n"
    temporary = None
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.stem}-",
                                         delete=False) as file:
            temporary = file.name
            file.write(text)
        os.chmod(temporary, 0o666 & ~umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise ChapterError(f"{path} cannot be written: {error.strerror}.") from None


def umask() -> int:
    """Return the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root))
