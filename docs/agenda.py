"""Writes the agendas of docs/instructor.md from the timetable: python docs/agenda.py"""

from __future__ import annotations

import re
from dataclasses import dataclass

from timetable import CATCHING_UP, block

from exercises_tests.tools.chapters import ROOT, Chapter, chapters

PAGE = ROOT / "docs" / "instructor.md"
BREAK, LUNCH = 10, 60
TALK = 3  # minutes that have a row of their own
BEGIN = 9 * 60
LUNCH_FROM = 11 * 60 + 40  # the first block that ends after this is followed by lunch


@dataclass(frozen=True)
class Part:
    """A row of an agenda: minutes with a text; of a chapter or a break."""

    minutes: int
    text: str
    chapter: Chapter | None = None


WORKSHOPS = {"half a day": [(0, 3)], "four days": [(0, 1, 2, 3), (4, 5, 6), (7, 8, 9, 10), (11, 12, 13)]}
"""The chapters of each day. One that does not exist yet is left out."""


def number(chapter: Chapter) -> int:
    return int(chapter.name[2:4])


def rows(chapter: Chapter) -> list[Part]:
    """Return a chapter's block: a row begins where more than a few words are said before the next core exercise."""
    found: list[Part] = []
    for stretch in block(chapter):
        said = f"`{stretch.exercise}` {stretch.minutes}" if stretch.exercise else f"talk {stretch.minutes}"
        if not found:
            found = [Part(stretch.minutes, said.replace("talk", "introduction"), chapter)]
        elif stretch.exercise or stretch.minutes < TALK:
            text = f"{found[-1].text}, {said}" if stretch.minutes else found[-1].text
            found[-1] = Part(found[-1].minutes + stretch.minutes, text, chapter)
        else:
            found.append(Part(stretch.minutes, said, chapter))
    return [*found, Part(CATCHING_UP, f"`make catch-up CHAPTER={chapter.name[:4]}`, run on to the end", chapter)]


def day(wanted: list[Chapter], lunch: bool) -> list[Part]:
    """Return a day's parts: a block for each chapter, and between two blocks a break or lunch."""
    parts, spent = [], 0
    for chapter in wanted:
        parts += rows(chapter)
        spent += sum(part.minutes for part in rows(chapter))
        if chapter is not wanted[-1]:
            eat = lunch and BEGIN + spent >= LUNCH_FROM
            lunch = lunch and not eat
            parts.append(Part(LUNCH, "lunch") if eat else Part(BREAK, "break"))
            spent += parts[-1].minutes
    return parts


def table(parts: list[Part]) -> str:
    """Return a day's parts with the time at which each begins."""
    lines, now = ["| time | chapter | talk and core exercises, in minutes (estimated) |", "|---|---|---|"], BEGIN
    for part in parts:
        title = f"{number(part.chapter)} {part.chapter.title}" if part.chapter else ""
        lines.append(f"| {clock(now)} | {title} | {part.text} |")
        now += part.minutes
    return "\n".join([*lines, f"| {clock(now)} | | end |"])


def clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def agendas() -> str:
    """Return the tables of all workshops."""
    known = {number(chapter): chapter for chapter in chapters()}
    parts = []
    for name, days in WORKSHOPS.items():
        for place, numbers in enumerate(days, 1):
            wanted = [known[n] for n in numbers if n in known]
            heading = f"### {name.capitalize()}" + (f": day {place}" if len(days) > 1 else "")
            parts.append(f"{heading}\n\n{table(day(wanted, lunch=len(days) > 1))}")
    return "\n\n".join(parts)


def in_place(text: str) -> str:
    """Return the instructor's page with its agendas replaced."""
    return re.sub(r"(<!-- agendas: written by docs/agenda.py -->\n).*?(<!-- end -->)",
                  lambda found: f"{found[1]}\n{agendas()}\n\n{found[2]}", text, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(in_place(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
