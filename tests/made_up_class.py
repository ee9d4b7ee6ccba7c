"""A made-up class of 40 over three days: who hands in what and when, what it earns, and a judge that says just that."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from exercises_tests.grading import verdicts
from exercises_tests.tools.chapters import find, overlay

CHAPTERS = {name: find(name) for name in ("ch00", "ch01")}
NAMES = {short: chapter.name for short, chapter in CHAPTERS.items()}
POINTS = {short: {one.id: one.points for one in chapter.exercises} for short, chapter in CHAPTERS.items()}
EXTRAS = {one.id for one in CHAPTERS["ch01"].exercises if one.level == "extra"}
FIRST = datetime.fromisoformat("2027-03-01T10:00:00+00:00")  # a Monday
LEARNERS = [f"learner{number:02d}" for number in range(1, 41)]
LATE_ONES, MIXED, OLDER, EMPTY = LEARNERS[28:32], LEARNERS[32:34], LEARNERS[34], LEARNERS[37:39]
COPIED = {LEARNERS[35]: LEARNERS[0], LEARNERS[36]: LEARNERS[0]}
POLICY = """
[deadline]
all = 2027-03-02T18:00:00+01:00
ch00 = 2027-03-01T12:00:00Z

[late]
share_per_day = 0.1
most = 0.15

[attempts]
count = "best"
most = 2

[counts]
without = ["even_to_odd"]
extra = "bonus"

[weights]
ch01 = 2
training_days = 0.5
"""
BY_HAND = "learner,chapter,exercise,points,comment\nlearner05,ch01,parameter_count,4.5,right but for a slip\n"
ROSTER = "\ufeffid;name;folder;email\n" + "".join(
    f"s{number:03d};Person {number % 39};learner{number:02d};p{number}@example.org\n" for number in range(1, 42)
    if number != 7
)
"""With a mark, semicolons, two persons of one name, one who hands in nothing, and without learner07."""


@dataclass(frozen=True)
class HandIn:
    """A notebook: whose, of which chapter, hours after the first hour, on which day it is there, and what it earns."""

    learner: str
    chapter: str
    hours: float
    day: int
    earned: dict[str, int]


def hand_ins() -> list[HandIn]:
    """Return all of them in the order in which they reach the instructor."""
    found = []
    for number, learner in enumerate(LEARNERS, 1):
        if learner in EMPTY or learner in COPIED:
            continue
        for chapter, points in POINTS.items():
            some = {name: max(0, most - (number + at) % 4) for at, (name, most) in enumerate(points.items())}
            zero, all_ = dict.fromkeys(points, 0), dict(points)
            if number <= 20:  # once, and in time
                found.append(HandIn(learner, chapter, number / 20, 1, some))
            elif number <= 28:  # improved on the second day
                found += [HandIn(learner, chapter, 1, 1, zero), HandIn(learner, chapter, 24 + number / 10, 2, some)]
            elif learner in LATE_ONES:  # by a minute, by hours, by more than a day
                found.append(HandIn(learner, chapter, 31 + (number - 29) * 8.5 + 1 / 60, 3, all_))
            elif learner in MIXED:  # little in time, then more but late
                found += [HandIn(learner, chapter, 0.5, 1, some), HandIn(learner, chapter, 40, 3, all_)]
            elif learner == OLDER:  # what comes on the third day is older than what came on the second
                found += [HandIn(learner, chapter, 1, 1, zero), HandIn(learner, chapter, 26, 2, some),
                          HandIn(learner, chapter, 20, 3, all_)]  # fmt: skip
            elif number == 40:
                found.append(HandIn(learner, chapter, 1.5, 1, zero))
    copies = [HandIn(copier, one.chapter, 1.9, 1, one.earned) for copier, source in COPIED.items()
              for one in found if one.learner == source]  # fmt: skip
    return sorted(found + copies, key=lambda one: one.day)


def write(folder: Path, day: int) -> None:
    """Put what reaches the instructor on a day into its place."""
    for learner in LEARNERS:
        (folder / learner).mkdir(parents=True, exist_ok=True)
    (folder / "course.toml").write_text(POLICY)
    (folder / "roster.csv").write_text(ROSTER)
    for one in hand_ins():
        if one.day != day:
            continue
        writer = COPIED.get(one.learner, one.learner)
        cells = {name: f"def {name}(*given):\n    return '{writer}'  # earns {earned}\n"
                 for name, earned in one.earned.items()}  # fmt: skip
        path = folder / one.learner / f"{one.chapter}.ipynb"
        path.write_text(json.dumps(overlay(CHAPTERS[one.chapter], cells)))
        seconds = (FIRST + timedelta(hours=one.hours)).timestamp()
        os.utime(path, (seconds, seconds))


class Judge:
    """A sandbox that runs nothing: an answer earns what its comment says, the course's own everything."""

    def __init__(self) -> None:
        self.asked: list[dict] = []

    def ask(self, request: dict, *more) -> verdicts.Verdicts:
        self.asked.append(request)
        return verdicts.Verdicts([self.result(name, points, request) for name, points in request["exercises"].items()])

    def result(self, name: str, points: int, request: dict) -> dict:
        said = re.search(r"# earns (\d+)", request["cells"].get(name, ""))
        earned = int(said[1]) if said else points
        right = earned == points
        return {"exercise": name, "graded": True, "points": points, "earned": earned, "parts": {"value": right},
                "marks": "", "code": "" if right else "value", "sentence": "as it should be" if right else "not that",
                "see": "", "borrowed": False}  # fmt: skip

    def close(self) -> None:
        pass


def learners_asked(judge: Judge) -> int:
    """Return how many of the requests were about a learner, and not about the course's own solutions."""
    return sum("# earns" in json.dumps(request["cells"]) for request in judge.asked)


