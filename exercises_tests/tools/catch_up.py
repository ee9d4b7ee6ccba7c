"""Borrows what a learner has not written yet, so that a group can go on together at the end of a block."""

from __future__ import annotations

import textwrap
from pathlib import Path

from exercises_tests.tools.chapters import ROOT, ChapterError, find, overlay, tagged
from exercises_tests.tools.copies import back_up, shown, write
from exercises_tests.tools.torchrun_script import is_stub, learners_copy, parsed

BORROWED = '{name} = borrow("{name}")\n# To write it yourself, put this in place of the line above:\n{stub}'


def catch_up(name: str, root: Path = ROOT) -> list[str]:
    """Put `borrow` into the core exercises of a learner's copy that are still stubs; return what was done."""
    pristine = find(name, root)
    if not (root / "solutions" / f"{pristine.name}.py").exists():
        raise ChapterError(f"There is no solutions/{pristine.name}.py here to borrow from: ask your instructor for it.")
    chapter = learners_copy(pristine, root)
    core = {exercise.id for exercise in pristine.exercises if exercise.level == "core"}
    stubs = {cell["id"]: cell.source for cell in tagged(chapter.notebook, "exercise")
             if cell.get("id") in core and is_stub(parsed(cell, chapter))}
    if not stubs:
        return [f"{shown(chapter.path, root)}: no core exercise is left to borrow."]
    backup = back_up(chapter.path, root)
    write(chapter.path, overlay(chapter, {
        name: BORROWED.format(name=name, stub=textwrap.indent(stub, "# ", lambda line: True))
        for name, stub in stubs.items()}))
    return [f"{shown(chapter.path, root)}: borrowed {', '.join(stubs)}. The old one is {shown(backup, root)}. "
            "If it is open in JupyterLab, reload it from disk; then Run All."]
