"""Writes the README's list of chapters from the notebooks: python docs/contents.py"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # also with a Python where the course is not installed

from exercises_tests.tools.chapters import ROOT, chapters  # noqa: E402
from exercises_tests.tools.course_map import minutes, number, question, reading  # noqa: E402


def listed() -> str:
    """Return a line for each chapter with its exercises and its minutes, and below them all hours.

    A list, because a table of six columns is wider than a phone.
    """
    rows = []
    for chapter in chapters():
        core = sum(exercise.level == "core" for exercise in chapter.exercises)
        extra = len(chapter.exercises) - core
        link = f"[{chapter.title}](notebooks/{chapter.name}.ipynb)"
        times = f"{reading(chapter)} min of reading; {core} exercises, {minutes(chapter)} min"
        rows.append(f"{number(chapter)}. **{link}** {question(chapter)}<br>*{times}{f'; {extra} extra' * bool(extra)}*")
    read, write = (round(sum(map(spent, chapters())) / 60) for spent in (reading, minutes))
    total = f"About {read} hours of reading and {write} hours of exercises in all (estimated), without the extra ones."
    return "\n".join([*rows, "", total])


def in_place(text: str) -> str:
    """Return the README with its list replaced."""
    return re.sub(r"(## Chapters\n\n).*?(\n\nStart with)", lambda m: m[1] + listed() + m[2], text, flags=re.DOTALL)


if __name__ == "__main__":
    readme = Path(ROOT, "README.md")
    readme.write_text(in_place(readme.read_text()))
