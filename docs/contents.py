"""Writes the README's table of chapters from the notebooks: python docs/contents.py"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # also with a Python where the course is not installed

from exercises_tests.tools.chapters import ROOT, chapters  # noqa: E402
from exercises_tests.tools.course_map import minutes, number, question, reading  # noqa: E402

HEAD = "| | chapter | question | reading | core exercises | extra exercises |\n|--:|---|---|---|---|---|"


def table() -> str:
    """Return one row a chapter, with its exercises and its minutes, and below it all hours."""
    rows = [HEAD]
    for chapter in chapters():
        core = sum(exercise.level == "core" for exercise in chapter.exercises)
        link = f"[{chapter.title}](notebooks/{chapter.name}.ipynb)"
        rows.append(f"| {number(chapter)} | {link} | {question(chapter)} | {reading(chapter)} min "
                    f"| {core}, {minutes(chapter)} min | {len(chapter.exercises) - core} |")
    read, write = (round(sum(map(spent, chapters())) / 60) for spent in (reading, minutes))
    total = f"About {read} hours of reading and {write} hours of core exercises in all (estimated)."
    return "\n".join([*rows, "", total])


def in_place(text: str) -> str:
    """Return the README with its table replaced."""
    return re.sub(r"(## Chapters\n\n).*?(\n\nStart with)", lambda m: m[1] + table() + m[2], text, flags=re.DOTALL)


if __name__ == "__main__":
    readme = Path(ROOT, "README.md")
    readme.write_text(in_place(readme.read_text()))
