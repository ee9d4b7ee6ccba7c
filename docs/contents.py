"""Writes the README's table of chapters from the notebooks: python docs/contents.py"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # also with a Python where the course is not installed

from exercises_tests.tools.chapters import ROOT, chapters  # noqa: E402
from exercises_tests.tools.course_map import minutes, question  # noqa: E402

HEAD = "| chapter | question | core exercises | their minutes (estimated) | extra exercises |\n|---|---|---|---|---|"


def table() -> str:
    """Return one row a chapter, with the exercises and the minutes that its cells name."""
    rows = [HEAD]
    for chapter in chapters():
        core = sum(exercise.level == "core" for exercise in chapter.exercises)
        link = f"[{chapter.title}](notebooks/{chapter.name}.ipynb)"
        rows.append(f"| {link} | {question(chapter)} | {core} | {minutes(chapter)} | {len(chapter.exercises) - core} |")
    return "\n".join(rows)


def in_place(text: str) -> str:
    """Return the README with its table replaced."""
    return re.sub(r"(## Chapters\n\n).*?(\n\nStart with)", lambda m: m[1] + table() + m[2], text, flags=re.DOTALL)


if __name__ == "__main__":
    readme = Path(ROOT, "README.md")
    readme.write_text(in_place(readme.read_text()))
