"""Writes the README's table of chapters from the notebooks: python docs/contents.py"""

from __future__ import annotations

import re
from pathlib import Path

from exercises_tests.tools.chapters import ROOT, chapters, tagged

HEAD = "| chapter | question | exercises | minutes for the core exercises (estimated) |\n|---|---|---|---|"


def question(chapter) -> str:
    """Return the chapter's question: the first bold sentence of its text."""
    texts = (cell.source for cell in chapter.notebook.cells if cell.cell_type == "markdown")
    found = next(found for text in texts if (found := re.search(r"\*\*(.+?\?)\*\*", text, re.DOTALL)))
    return found[1].replace("\n", " ")


def minutes(chapter) -> int:
    """Return the minutes of a chapter's core exercises."""
    return sum(exercise.minutes for exercise in chapter.exercises if exercise.level == "core")


def table() -> str:
    """Return one row a chapter, with the exercises and the minutes that stand in its cells."""
    rows = [HEAD]
    for chapter in chapters():
        names = len(tagged(chapter.notebook, "exercise"))
        link = f"[{chapter.title}](notebooks/{chapter.name}.ipynb)"
        rows.append(f"| {link} | {question(chapter)} | {names} | {minutes(chapter)} |")
    return "\n".join(rows)


def in_place(text: str) -> str:
    """Return the README with its table replaced."""
    return re.sub(r"(## Chapters\n\n).*?(\n\nStart with)", lambda m: m[1] + table() + m[2], text, flags=re.DOTALL)


if __name__ == "__main__":
    readme = Path(ROOT, "README.md")
    readme.write_text(in_place(readme.read_text()))
