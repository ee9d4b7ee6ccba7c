"""What has been handed in: the notebooks in `folder/<learner>/`, and the learners whose folders hold none."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path

from exercises_tests.tools.chapters import ChapterError

MOST_NOTEBOOKS = 50  # of one learner that are looked at
MOST_FOLDERS = 1000  # of one learner that are looked into for a notebook that lies too deep


def submissions(folder: Path) -> list[tuple[str, list[Path]]]:
    """Return each learner with the notebooks in `folder/<learner>/`.

    A learner without any comes with the folder itself, so that nobody is missing from the grade book. Raises
    ChapterError when nobody has one.
    """
    if not folder.is_dir():
        raise ChapterError(f"{folder} is not a folder; give one with a folder of notebooks for each learner.")
    found: list[tuple[str, list[Path]]] = []
    empty: list[Path] = []
    for learner in sorted(path for path in folder.iterdir() if os.path.isdir(path)):
        notebooks = []
        with contextlib.suppress(OSError):  # nobody may read it: why_none says so
            notebooks = [] if learner.is_symlink() else [path for path in learner.iterdir() if is_notebook(path)]
        if notebooks:
            found.append((learner.name, sorted(notebooks)[:MOST_NOTEBOOKS]))
        elif not learner.name.startswith((".", "__")):  # .git, .ipynb_checkpoints, __MACOSX
            empty.append(learner)
    if not found:
        deep = next((f"; {place}" for learner in empty if (place := _deeper(learner))), "")
        raise ChapterError(f"{folder} holds no {folder.resolve().name}/<learner>/*.ipynb to grade{deep}.")
    return sorted(found + [(learner.name, [learner]) for learner in empty])


def is_notebook(path: Path) -> bool:
    """Return whether a file is called one, in small letters or capitals."""
    return path.suffix.lower() == ".ipynb"


def why_none(learner: Path) -> str:
    """Return why a learner's folder gives nothing to grade, in one sentence."""
    if learner.is_symlink():
        return f"{learner.name} is a link, not a folder."
    if not os.access(learner, os.R_OK | os.X_OK):
        return f"{learner.name}/ may not be read: change its permissions."
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
