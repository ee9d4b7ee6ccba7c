"""Notebooks of a made-up workshop, as learners' folders hold them half-way: what is written and what checks printed."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path

from exercises_tests.tools.chapters import Chapter

STATES = ("open", "written", "wrong", "passed", "borrowed")


def printed(name: str, state: str) -> list[dict]:
    """Return the outputs of a check's cell, in the forms that a notebook saves."""
    if state == "passed":
        return [{"output_type": "display_data", "metadata": {}, "data": {
            "text/plain": [f"✓ {name}   Sums correctly\n", "    5 of 5 points"], "text/html": "<b>card</b>"}}]
    if state == "wrong":
        words = f"✗ {name}   On 4 ranks a deadlock\n    0 of 5 points (value ✗)"
        return [{"output_type": "error", "ename": "CheckFailed", "evalue": words, "traceback": [words]}]
    if state == "open":
        words = f"✗ {name}   Not written yet\n    0 of 5 points"
        return [{"output_type": "error", "ename": "CheckFailed", "evalue": words, "traceback": [words]}]
    return []


def notebook(chapter: Chapter, states: dict[str, str]) -> dict:
    """Return a learner's copy of a chapter whose exercises stand as said; those not named are as handed out."""
    whole = json.loads(json.dumps(copy.deepcopy(chapter.notebook)))
    for cell in whole["cells"]:
        name = cell.get("id", "")
        if states.get(name, "open") != "open":
            cell["source"] = (f'{name} = borrow("{name}")' if states[name] == "borrowed"
                              else f"def {name}(*args):\n    return args\n")
        elif name.startswith("check_") and name[6:] in states:
            cell["outputs"] = printed(name[6:], states[name[6:]])
    return whole


def save(folder: Path, learner: str, chapter: Chapter, states: dict[str, str], when: float) -> Path:
    """Put a copy into the learner's folder, changed at a time."""
    path = folder / learner / f"{chapter.name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook(chapter, states)), encoding="utf-8")
    os.utime(path, (when, when))
    return path
