"""What each chapter says of itself: its number and question, what it builds and needs, and how long it takes.

Read from the notebooks alone, so a new chapter appears by itself. Where a notebook's metadata say more, that counts:
`course.builds`, a few words, and `course.needs`, numbers of chapters.
"""

from __future__ import annotations

import math
import re

from exercises_tests.tools.chapters import Chapter

SAID = re.compile(r"(\d+) minutes (?:for reading|to read)|Reading\b[^.]*? about (\d+) minutes")
ALONE = 150  # words a minute: about the pace of the chapters that name their minutes


def number(chapter: Chapter) -> int:
    """Return the number of a chapter: 3 for ch03_ring_all_reduce."""
    return int(re.match(r"ch(\d+)", chapter.name)[1])


def question(chapter: Chapter) -> str:
    """Return the chapter's question: the first bold text that ends with a question mark."""
    found = (re.search(r"\*\*((?:(?!\*\*).)+\?)\*\*", text, re.DOTALL) for text in texts(chapter))
    return next((match[1].replace("\n", " ") for match in found if match), "")


def minutes(chapter: Chapter) -> int:
    """Return the minutes of a chapter's core exercises."""
    return sum(exercise.minutes for exercise in chapter.exercises if exercise.level == "core")


def reading(chapter: Chapter) -> int:
    """Return the minutes that a chapter names for who reads it alone, or else those that its text takes."""
    said = SAID.search("\n\n".join(texts(chapter)))
    return int(said[1] or said[2]) if said else at_pace(chapter, ALONE)


def at_pace(chapter: Chapter, pace: int) -> int:
    """Return the minutes that a chapter's text takes at so many words a minute; whole fives."""
    return 5 * math.ceil(sum(map(words, texts(chapter))) / pace / 5)


def words(text: str) -> int:
    """Return the words of a text that are in sight: not those that are folded."""
    return len(re.findall(r"\w\S*", re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)))


def builds(chapter: Chapter) -> str:
    """Return what a learner builds, in Markdown: the metadata's words, or the names of the core exercises."""
    said = chapter.notebook.metadata["course"].get("builds")
    return said or ", ".join(f"`{exercise.id}`" for exercise in chapter.exercises if exercise.level == "core")


def needs(chapter: Chapter) -> list[int]:
    """Return the numbers of the chapters that a chapter needs, by its metadata or by what its first text says."""
    said = chapter.notebook.metadata["course"].get("needs")
    if isinstance(said, list):
        return sorted({place for place in said if isinstance(place, int)} - {number(chapter)})
    found: set[int] = set()
    for sentence in re.split(r"(?<=[.?!])\s+|;|\n\n", next(texts(chapter), "")):
        if re.search(r"\bneeds?\b", sentence) and not re.search(r"\bno other chapter\b", sentence):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
            for numbers in re.findall(r"\bchapters? (\d+(?:(?:, | and | or | to )\d+)*)", plain):
                found |= {int(digits) for digits in re.findall(r"\d+", numbers)}
    return sorted(found - {number(chapter)})


def texts(chapter: Chapter):
    return (cell.source for cell in chapter.notebook.cells if cell.cell_type == "markdown")
