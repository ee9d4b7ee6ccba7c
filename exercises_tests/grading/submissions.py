"""What has been handed in: the notebooks in `folder/<learner>/`, and the learners whose folders hold none."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from exercises_tests.tools.chapters import ChapterError

MOST_FOLDERS = 1000  # of one learner that are looked into for a notebook that lies too deep


def submissions(folder: Path) -> list[tuple[str, Path]]:
    """Return (learner, notebook) for each notebook in `folder/<learner>/`; of several of one name, all.

    A learner without any comes as (learner, folder of the learner), so that nobody is missing from the grade book.
    Raises ChapterError when nobody has one.
    """
    if not folder.is_dir():
        raise ChapterError(f"{folder} is not a folder; give one with a folder of notebooks for each learner.")
    found: list[tuple[str, Path]] = []
    empty: list[Path] = []
    for learner in sorted(path for path in folder.iterdir() if path.is_dir()):
        notebooks = [] if learner.is_symlink() else [path for path in learner.iterdir() if is_notebook(path)]
        found += [(learner.name, path) for path in sorted(notebooks)]
        if not notebooks and not learner.name.startswith((".", "__")):  # .git, .ipynb_checkpoints, __MACOSX
            empty.append(learner)
    if not found:
        deep = next((f"; {place}" for learner in empty if (place := _deeper(learner))), "")
        raise ChapterError(f"{folder} holds no {folder.resolve().name}/<learner>/*.ipynb to grade{deep}.")
    return sorted(found + [(learner.name, learner) for learner in empty])


def is_notebook(path: Path) -> bool:
    """Return whether a file is called one, in small letters or capitals."""
    return path.suffix.lower() == ".ipynb"


def why_none(learner: Path) -> str:
    """Return why a learner's folder gives nothing to grade, in one sentence."""
    if learner.is_symlink():
        return f"{learner.name} is a link, not a folder."
    place = _deeper(learner)
    return f"no notebook in {learner.name}/{f' ({place})' if place else ''}"


def _deeper(learner: Path) -> str:
    """Say where a notebook lies deeper in a learner's folder; empty if there is none."""
    if learner.is_symlink():
        return ""
    for place, _, files in itertools.islice(os.walk(learner), MOST_FOLDERS):
        for name in sorted(files):
            if is_notebook(Path(name)) and not Path(place).name.startswith((".", "__")):
                return f"{Path(place).relative_to(learner.parent)}/ holds {name}"
    return ""
