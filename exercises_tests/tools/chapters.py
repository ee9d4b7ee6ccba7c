"""A chapter: a notebook known by its metadata, its exercises, and the answers that go into them.

The pristine chapters in notebooks/ are the source; solutions/<chapter>.py holds the answers. An exercise is a cell
tagged `exercise` whose id is the name of the function it asks for; points, minutes and level stand in the metadata of
its check cell. Learners work on copies in work/ (see exercises_tests/tools/copies.py).
"""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from exercises_tests.tools.untrusted import loads

ROOT = Path(__file__).resolve().parents[2]


class ChapterError(Exception):
    """What is wrong with a file or a request, in one sentence for the person who made it."""


@dataclass(frozen=True)
class Exercise:
    """One function to write. `minutes` are estimates; `level` is core or extra."""

    id: str
    points: int
    minutes: int
    level: str


@dataclass(frozen=True)
class Chapter:
    """A notebook of the course, as read from `path`."""

    name: str
    title: str
    version: int
    path: Path
    notebook: NotebookNode

    @property
    def exercises(self) -> list[Exercise]:
        """The exercises in the order of the notebook."""
        checks = {cell.get("id"): cell.metadata.get("course", {}) for cell in tagged(self.notebook, "check")}
        found = []
        for cell in tagged(self.notebook, "exercise"):
            facts = checks.get(f"check_{cell.get('id')}")
            if facts is None:
                raise ChapterError(f"{self.path}: the exercise {cell.get('id')} has no cell check_{cell.get('id')}.")
            try:
                found.append(Exercise(cell["id"], facts["points"], facts["minutes"], facts["level"]))
            except KeyError as missing:
                raise ChapterError(
                    f"{self.path}: the metadata of check_{cell.get('id')} do not give {missing}.") from None
        return found


def tags(cell: NotebookNode) -> list[str]:
    """Return a cell's tags; none where a damaged notebook holds something else."""
    found = cell.get("metadata", {}).get("tags", [])
    return [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else []


def tagged(notebook: NotebookNode, tag: str) -> list[NotebookNode]:
    """Return the code cells that carry a tag, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code" and tag in tags(cell)]


def parse(path: Path, data: bytes | None = None) -> NotebookNode:
    """Return the notebook in a file, its cells complete enough to work with; ChapterError says what else the file is.

    `data` is what is in it, if that has been read already. Not nbformat.read: that one repairs, warns or raises by
    turns, and a submission may be anything.
    """
    try:
        raw = loads(path.read_bytes() if data is None else data)
        if not isinstance(raw, dict) or not isinstance(raw.get("cells"), list):
            raise ChapterError(f"{path} is not a notebook of format 4: it holds no list of cells.")
        cells = [complete(cell) for cell in raw["cells"] if isinstance(cell, dict)]
        notebook = nbformat.from_dict({**raw, "cells": cells})
    except OSError as error:
        raise ChapterError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ChapterError(f"{path} is not a notebook: it is not text in UTF-8.") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ChapterError(f"{path} is not a notebook: it is not JSON ({error}).") from None
    if not isinstance(notebook.get("metadata"), dict):
        notebook["metadata"] = NotebookNode()
    return notebook


def complete(cell: dict) -> dict:
    """Return a cell whose type, id, metadata and source are what the rest of the course expects of them."""
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    metadata = cell.get("metadata")
    if not isinstance(cell.get("id"), str):
        cell = {key: value for key, value in cell.items() if key != "id"}
    source = source.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}") if isinstance(source, str) else ""
    return {**cell, "cell_type": str(cell.get("cell_type")), "source": source,
            "metadata": metadata if isinstance(metadata, dict) else {}}


def read(path: Path) -> Chapter:
    """Return the chapter in a file, whatever the file's name; ChapterError says why there is none."""
    notebook = parse(path)
    course = notebook.metadata.get("course")
    if not isinstance(course, dict) or not isinstance(course.get("chapter"), str):
        raise ChapterError(f"{path} is no chapter of this course: its metadata name no chapter.")
    version = course.get("version")
    return Chapter(course["chapter"], str(course.get("title", "")), version if isinstance(version, int) else 0,
                   path, notebook)


def chapters(root: Path = ROOT) -> list[Chapter]:
    """Return the pristine chapters in order."""
    return sorted((read(path) for path in (root / "notebooks").glob("*.ipynb")), key=lambda chapter: chapter.name)


def find(name: str, root: Path = ROOT) -> Chapter:
    """Return the pristine chapter with this name or number: `ch03_ring_all_reduce`, `ch03`, `Chapter 3`, `3`.

    Also by the path of its notebook. ChapterError says what else may have been meant.
    """
    known = chapters(root)
    asked = re.split(r"[/\\]", name.strip().lower())[-1].removesuffix(".ipynb")
    digits = re.fullmatch(r"(?:ch|chap|chapter)?[\s_-]*([0-9]{1,4})", asked)
    number = f"ch{int(digits[1]):02d}" if digits else asked
    for chapter in known:
        if asked == chapter.name or number == chapter.name.split("_")[0]:
            return chapter
    names = [chapter.name for chapter in known]
    if not digits and (near := _meant(asked, names)):
        raise ChapterError(f"There is no chapter {name!r}; did you mean {near}?")
    said = f"There is no chapter {name!r}" if asked else "Name a chapter, for instance CHAPTER=ch03"
    raise ChapterError(f"{said}; this course has {', '.join(names) or 'none yet'}.")


def _meant(asked: str, names: list[str]) -> str:
    """Return the name that was probably meant: asked for by a part of it, or with a slip of the pen."""
    if len(asked) < 3:
        return ""
    parts = {name.partition("_")[2]: name for name in names} | {name: name for name in names}
    short = {word: name for name in names for word in name.split("_")}  # "fdsp", "ch3x"
    inside = [name for name in names if asked in name]
    if number := re.match(r"(?:ch|chap|chapter)?[\s_-]*([0-9]{1,2})(?![0-9])", asked):
        inside = inside or [name for name in names if name.startswith(f"ch{int(number[1]):02d}_")]
    near = inside or [parts[part] for part in get_close_matches(asked, parts, 1)]
    return (near or [short[word] for word in get_close_matches(asked, short, 1, 0.7)] or [""])[0]


def overlay(chapter: Chapter, answers: dict[str, str], into: tuple[str, ...] = ("exercise",)) -> NotebookNode:
    """Return a copy of the chapter's notebook with the sources of its exercise cells replaced, by id.

    `into` names the tags of the cells that may be replaced; every other cell stays as it is. Raises ValueError for an
    answer to an exercise that the chapter does not have.
    """
    notebook = copy.deepcopy(chapter.notebook)
    cells = {cell.get("id"): cell for tag in into for cell in tagged(notebook, tag)}
    if unknown := sorted(set(answers) - set(cells)):
        raise ValueError(f"{chapter.name} has no exercise {', '.join(unknown)}; it has {', '.join(cells)}")
    for name, source in answers.items():
        cells[name]["source"] = source
    return notebook


def answers_of(notebook: NotebookNode, exercises: list[str] | None = None) -> dict[str, str]:
    """Return the source of each exercise cell by the exercise's id; exercises without a cell are left out.

    `exercises` are the ids to look for (default: the ids of the notebook's own exercise cells); pass those of the
    pristine chapter where tags may have been lost. Of several cells with one id the last counts, as it would in a
    kernel. Where an editor has dropped the ids, the last code cell that defines a function or class of that name is
    taken.
    """
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if exercises is None:
        exercises = [cell["id"] for cell in code if "exercise" in tags(cell) and "id" in cell]
    by_id = {cell["id"]: cell.source for cell in code if "id" in cell}
    found = {}
    for name in exercises:
        definitions = [cell.source for cell in code if defines(cell.source, name)]
        if name in by_id:
            found[name] = by_id[name]
        elif definitions:
            found[name] = definitions[-1]
    return found


def defines(source: str, name: str) -> bool:
    """Return whether a cell's source defines a function or class at top level, also when it does not parse."""
    return re.search(rf"^(async[ \t]+def|def|class)[ \t]+{re.escape(name)}\b", source, re.MULTILINE) is not None


def solutions(chapter: Chapter, root: Path = ROOT) -> dict[str, str]:
    """Return the source of each exercise's solution, decorators included, from solutions/<chapter>.py."""
    path = root / "solutions" / f"{chapter.name}.py"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ChapterError(f"The solutions of {chapter.name} cannot be read: {path}: {error.strerror}.") from None
    lines, found = text.splitlines(), {}
    for node in ast.parse(text, filename=str(path)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[node.name] = "\n".join(lines[first - 1:node.end_lineno])
    wanted = [exercise.id for exercise in chapter.exercises]
    if missing := [name for name in wanted if name not in found]:
        raise ChapterError(f"{path} has no function or class {', '.join(missing)}.")
    return {name: found[name] for name in wanted}


def solved(chapter: Chapter, root: Path = ROOT) -> NotebookNode:
    """Return the chapter's notebook with every exercise solved."""
    return overlay(chapter, solutions(chapter, root))
