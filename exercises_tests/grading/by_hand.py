"""Points and comments that a person gives: grades/by_hand.csv, which the grader reads and never writes."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from exercises_tests.grading.tables import meant, read_table
from exercises_tests.tools.chapters import Chapter, ChapterError
from exercises_tests.tools.untrusted import plain

FILE = "by_hand.csv"
COLUMNS = ("learner", "chapter", "exercise", "points", "comment")
MOST_COMMENT = 2000  # characters

Given = dict[tuple[str, str, str], dict[str, Any]]


def read_by_hand(path: Path, chapters: Sequence[Chapter]) -> tuple[Given, list[str]]:
    """Return what a person gave, {"points", "comment"} by learner, chapter and exercise, and what is to be told.

    Without points a line is a comment only, and its points are None. A chapter or an exercise that the course does not
    have is told, and its line waits in the file. Raises ChapterError where points are none, too many, or given twice.
    """
    if not path.exists():
        return {}, []
    known = {chapter.name: {one.id: one.points for one in chapter.exercises} for chapter in chapters}
    given, lines, told = {}, {}, []
    for number, row in read_table(path, COLUMNS):
        chapter = next((name for name in known if row["chapter"] in (name, name.partition("_")[0])), row["chapter"])
        key, where = (row["learner"], chapter, row["exercise"]), f"{path.name}, line {number}"
        if key in lines:
            raise ChapterError(
                f"{path}: lines {lines[key]} and {number} both give {_name(key)} points: keep one of them."
            )
        lines[key] = number
        if chapter not in known:
            told.append(f"{where}: there is no chapter {_short(chapter)!r}{meant(chapter, known)} The line is kept.")
            continue
        if row["exercise"] not in known[chapter]:
            end = meant(row["exercise"], known[chapter])
            told.append(f"{where}: {chapter} has no exercise {_short(row['exercise'])!r}{end} The line is kept.")
            continue
        points = _points(row["points"], f"{path}, line {number}", key, known[chapter][row["exercise"]])
        given[key] = {"points": points, "comment": plain(row["comment"], MOST_COMMENT, "\n")}
    return given, told


def not_used(given: Given, handed_in: Collection[tuple[str, str]], learners: Collection[str]) -> list[str]:
    """Return a sentence for each line whose learner is not there, or has handed in nothing of the chapter."""
    told = []
    for learner, chapter, exercise in given:
        if learner not in learners:
            told.append(f"{FILE}: there is no learner {_short(learner)!r}{meant(learner, learners)} The line is kept.")
        elif (learner, chapter) not in handed_in:
            told.append(f"{FILE}: {_short(learner)} has handed in no {chapter}; the points of {exercise} wait for it.")
    return told


def _points(text: str, where: str, key: tuple[str, str, str], most: int) -> float | int | None:
    if not text:
        return None
    try:
        value = float(text.replace(",", ".", 1))  # as a spreadsheet writes it where commas part decimals
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ChapterError(f"{where}: {_short(text)!r} are no points: give a number from 0 to {most}.")
    if value > most:
        raise ChapterError(f"{where}: {_name(key)} cannot have {value:g} points: at most {most}.")
    return int(value) if value == int(value) else value


def _name(key: tuple[str, str, str]) -> str:
    return f"{_short(key[2])} of {_short(key[0])}"


def _short(text: str) -> str:
    return plain(text, 60)
