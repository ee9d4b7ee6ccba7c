"""A learner's folder in which every exercise of a chapter has been borrowed: for the tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from nbformat import NotebookNode

from exercises_tests.tools.catch_up import catch_up
from exercises_tests.tools.chapters import ROOT, Chapter, overlay, read, solutions
from exercises_tests.tools.copies import write

LONG = ("ch04", "ch07", "ch08")  # they train or serve for half a minute: run once, with half of the answers borrowed

ALL = """import os, runpy, sys
node, nodes, mine = (int(os.environ[name]) for name in ("GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_RANK"))
for here, script in zip(map(int, sys.argv[1::2]), sys.argv[2::2]):
    if mine < here:
        numbers = {"RANK": node * here + mine, "WORLD_SIZE": nodes * here, "LOCAL_WORLD_SIZE": here}
        os.environ |= {name: str(number) for name, number in numbers.items()}
        runpy.run_path(script, run_name="__main__")
"""
"""Runs scripts one after the other in one start of torchrun, as most of the time is the ranks' import of torch.

Given are the ranks that each wants on a node, and its file, those of the most ranks first: others sit out what is for
fewer than they are.
"""


def learners_folder(root: Path) -> Path:
    """Return `root` as a course with chapters, solutions to borrow from, and an empty work/."""
    for name in ("notebooks", "solutions"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "work").mkdir()
    return root


def half_borrowed(chapter: Chapter) -> NotebookNode:
    """Return the chapter's notebook with every second exercise solved, and the others borrowed."""
    answers = solutions(chapter)
    borrowed = {name: f'{name} = borrow("{name}")' for name in list(answers)[::2]}
    return overlay(chapter, answers | borrowed)


def caught_up(chapter: Chapter, root: Path) -> Chapter:
    """Return the copy in work/ after `make catch-up`, with the extra exercises borrowed as their last hint says."""
    path = root / "work" / f"{chapter.name}.ipynb"
    write(path, chapter.notebook)
    catch_up(chapter.name, root)
    extra = [exercise.id for exercise in chapter.exercises if exercise.level != "core"]
    write(path, overlay(read(path), {name: f'{name} = borrow("{name}")' for name in extra}))
    return read(path)
