"""How long each part of a chapter takes in a class: talk and core exercises in the notebook's order, then catching up.

docs/agenda.py writes the agendas from it, and slides count by it. The minutes of somebody who reads alone are in
exercises_tests/tools/course_map.py, which counts the words for both.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # also with a Python where the course is not installed

from exercises_tests.tools.chapters import Chapter, tags  # noqa: E402
from exercises_tests.tools.course_map import words  # noqa: E402

WORDS_A_MINUTE = 200  # more than alone: the instructor helps; an exercise's minutes begin when its text has been read
GUESS = 2  # minutes more that a room needs to write a guess down, to put hands up, and to hear two reasons
SPOKEN = 140  # words that a speaker says in a minute
PICTURE, SHOWN, STEP = 1 / 3, 1 / 4, 0.15  # minutes to look at a picture; at a formula, a table, code; at a step of one
CATCHING_UP = 5  # minutes


@dataclass(frozen=True)
class Stretch:
    """Minutes of talk, or of the core exercise that is named."""

    minutes: int
    exercise: str = ""


def block(chapter: Chapter) -> list[Stretch]:
    """Return a chapter's parts in turn: talk, a core exercise, talk and so on; talk takes as long as its text does.

    What follows "Going further" is nobody's talk. The talk before an exercise has its share by its words and guesses.
    """
    core = {exercise.id: exercise.minutes for exercise in chapter.exercises if exercise.level == "core"}
    shares, names, talked = [], [], 0.0
    for cell in chapter.notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("## Going further"):
            break
        if cell.cell_type == "markdown":
            talked += words(cell.source) / WORDS_A_MINUTE
        elif "prediction" in tags(cell):
            talked += GUESS
        elif cell.get("id") in core:
            shares.append(talked)
            names.append(cell["id"])
    ends = [round(share) for share in [0, *shares, talked]]
    talks = [Stretch(end - begin) for begin, end in zip(ends, ends[1:], strict=False)]
    tasks = [Stretch(core[name], name) for name in names]
    return [part for pair in zip(talks, [*tasks, None], strict=True) for part in pair if part]


def whole(chapter: Chapter) -> int:
    """Return the minutes of a chapter's block, with catching up."""
    return sum(stretch.minutes for stretch in block(chapter)) + CATCHING_UP
