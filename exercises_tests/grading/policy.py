"""The policy: which of the judged points count, by when, and how much they weigh. A small file, course.toml, holds it.

Nothing here judges: another policy needs no judge, and what counts is computed anew from the record at each grading.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from exercises_tests.grading.tables import meant
from exercises_tests.tools.chapters import Chapter, ChapterError
from exercises_tests.tools.untrusted import plain

FILE = "course.toml"
KEYS = {
    "deadline": (), "late": ("share_per_day", "most"), "attempts": ("count", "most"),
    "counts": ("chapters", "without", "extra"), "weights": (),
}  # fmt: skip
"""The tables of the file and their keys; in those without any, chapters (and exercises) are the keys."""
COUNT, EXTRA = ("last", "best"), ("full", "bonus", "not")
DAY = 24 * 60 * 60  # seconds
DIGITS = 4  # behind the point, of what is computed: more would show that shares are no round binary numbers


@dataclass(frozen=True)
class Policy:
    """What counts. The one without arguments is what the course does where nobody says otherwise."""

    deadlines: Mapping[str, datetime] = field(default_factory=dict)
    """By chapter, or "all"."""
    share_per_day: float = 0.0
    """Of the points of a late hand-in, what each day begun costs."""
    most_late: float = 1.0
    """Of the points, the most that lateness costs."""
    count: str = "last"
    """Which attempt: the last or the best."""
    most_attempts: int = 0
    """So many, from the first on, can count; 0: all."""
    chapters: frozenset[str] | None = None
    """Those that count; None: all."""
    without: frozenset[str] = frozenset()
    """Exercises that do not count."""
    extra: str = "full"
    weights: Mapping[str, float] = field(default_factory=dict)
    """By chapter and by exercise; both of them multiply."""
    extras: frozenset[tuple[str, str]] = frozenset()
    """Chapter and name of each exercise that is not of the core."""
    source: str = "defaults"

    def plain(self) -> dict[str, Any]:
        """Return the policy as plain values, for the grade book."""
        return {
            "from": self.source,
            "deadline": {name: when.isoformat() for name, when in self.deadlines.items()},
            "late": {"share_per_day": self.share_per_day, "most": self.most_late},
            "attempts": {"count": self.count, "most": self.most_attempts},
            "counts": {"chapters": "all" if self.chapters is None else sorted(self.chapters),
                       "without": sorted(self.without), "extra": self.extra},
            "weights": dict(self.weights),
        }  # fmt: skip

    # Lateness

    def late_seconds(self, chapter: str, handed_in: str) -> float:
        """Return how long after its deadline something came; 0 in time, without a deadline, or at a time not known."""
        deadline = self.deadlines.get(chapter) or self.deadlines.get("all")
        if deadline is None or not handed_in:
            return 0.0
        return max(0.0, (datetime.fromisoformat(handed_in) - deadline).total_seconds())

    def lost(self, late_seconds: float) -> float:
        """Return the share of the points that so much lateness costs."""
        return min(self.most_late, self.share_per_day * math.ceil(late_seconds / DAY))

    # What counts

    def counts(self, chapter: str, exercise: str) -> bool:
        """Return whether an exercise adds to what a learner has."""
        if (self.chapters is not None and chapter not in self.chapters) or exercise in self.without:
            return False
        return self.extra != "not" or (chapter, exercise) not in self.extras

    def weight(self, chapter: str, exercise: str) -> float:
        """Return by what the points of an exercise are multiplied."""
        return self.weights.get(chapter, 1.0) * self.weights.get(exercise, 1.0)

    def owed(self, chapter: str, exercise: str) -> bool:
        """Return whether an exercise adds to what a learner could have; one that is a bonus does not."""
        return self.counts(chapter, exercise) and (self.extra != "bonus" or (chapter, exercise) not in self.extras)

    def possible(self, chapter: Chapter) -> float:
        """Return the points of a chapter that solves everything that is owed."""
        owed = [one for one in chapter.exercises if self.owed(chapter.name, one.id)]
        return round(sum(self.weight(chapter.name, one.id) * one.points for one in owed), DIGITS)

    def applied(self, record: dict[str, Any], by_hand: Mapping[tuple[str, str, str], dict[str, Any]]) -> dict[str, Any]:
        """Return an attempt's record with what counts of it: each result's `counts` and `by_hand`, `late_hours`,
        `counted` and `possible` points. What a person gave stands in the place of what was judged; it weighs, and is
        late, like that. Not graded and without points by hand, an exercise is not among what was possible.
        """
        chapter, counted, possible, results = record["chapter"], 0.0, 0.0, []
        for result in record["results"]:
            name = result["exercise"]
            given = by_hand.get((record["learner"], chapter, name))
            points = given["points"] if given and given["points"] is not None else None
            counts, weight = self.counts(chapter, name), self.weight(chapter, name)
            if counts:
                counted += weight * (result["earned"] if points is None else points)
            if self.owed(chapter, name) and (result["graded"] or points is not None):
                possible += weight * result["points"]
            results.append(result | {"by_hand": given, "counts": counts})
        late = self.late_seconds(chapter, record["handed_in"])
        return record | {
            "results": results,
            "late_hours": round(late / 3600, 2),
            "counted": round(counted * (1 - self.lost(late)), DIGITS),
            "possible": round(possible, DIGITS),
        }


def read_policy(path: Path | None, chapters: Sequence[Chapter]) -> Policy:
    """Return the policy in a file; the course's defaults where `path` is None. Raises ChapterError."""
    extras = frozenset((one.name, exercise.id) for one in chapters for exercise in one.exercises
                       if exercise.level != "core")  # fmt: skip
    if path is None:
        return Policy(extras=extras)
    try:
        said = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ChapterError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # of TOML, and of UTF-8
        raise ChapterError(f"{path} is not TOML: {plain(str(error))}.") from None
    return _Reader(path, chapters).policy(said, extras)


class _Reader:
    """Reads a file's tables; each refusal is a sentence with the file, the key, the value and what would be right."""

    def __init__(self, path: Path, chapters: Sequence[Chapter]) -> None:
        self.path = path
        self.chapters = [chapter.name for chapter in chapters]
        self.exercises = [exercise.id for chapter in chapters for exercise in chapter.exercises]

    def policy(self, said: dict[str, Any], extras: frozenset[tuple[str, str]]) -> Policy:
        for table, keys in said.items():
            if table not in KEYS:
                self.refuse(f"there is no {plain(table, 60)!r} in a policy{meant(table, KEYS)}")
            if not isinstance(keys, dict):
                self.refuse(f"{table} is a table: write [{table}] on a line, and its keys below.")
            for key in keys if KEYS[table] else ():
                if key not in KEYS[table]:
                    self.refuse(f"[{table}] has no {plain(key, 60)!r}{meant(key, KEYS[table])}")
        late, attempts, counts = said.get("late", {}), said.get("attempts", {}), said.get("counts", {})
        chosen = counts.get("chapters")
        return Policy(
            deadlines={self.chapter("deadline", key, also=("all",)): self.time(key, value)
                       for key, value in said.get("deadline", {}).items()},
            share_per_day=self.share("late.share_per_day", late.get("share_per_day", 0.0)),
            most_late=self.share("late.most", late.get("most", 1.0)),
            count=self.one_of("attempts.count", attempts.get("count", "last"), COUNT),
            most_attempts=self.number("attempts.most", attempts.get("most", 0), whole=True),
            chapters=None if chosen is None else frozenset(
                self.chapter("counts.chapters", name) for name in self.names("counts.chapters", chosen)),
            without=frozenset(self.exercise("counts.without", name)
                              for name in self.names("counts.without", counts.get("without", []))),
            extra=self.one_of("counts.extra", counts.get("extra", "full"), EXTRA),
            weights={self.weighed(key): self.number(f"weights.{key}", value)
                     for key, value in said.get("weights", {}).items()},
            extras=extras,
            source=self.path.name,
        )  # fmt: skip

    def refuse(self, what: str) -> None:
        raise ChapterError(f"{self.path}: {what}")

    def chapter(self, where: str, name: str, also: tuple[str, ...] = ()) -> str:
        found = name if name in also else _chapter(name, self.chapters)
        if not found:
            self.refuse(f"{where}: there is no chapter {plain(name, 60)!r}{meant(name, [*also, *self.chapters])}")
        return found

    def exercise(self, where: str, name: str) -> str:
        if name not in self.exercises:
            self.refuse(f"{where}: there is no exercise {plain(name, 60)!r}{meant(name, self.exercises)}")
        return name

    def weighed(self, name: str) -> str:
        found = _chapter(name, self.chapters) or (name if name in self.exercises else "")
        if not found:
            told = meant(name, [*self.chapters, *self.exercises])
            self.refuse(f"weights: there is no chapter and no exercise {plain(name, 60)!r}{told}")
        return found

    def time(self, key: str, value: Any) -> datetime:
        if not isinstance(value, datetime):
            told = f'"{plain(value, 40)}" in quotes' if isinstance(value, str) else plain(str(value), 40)
            self.refuse(f"deadline.{key} = {told} is no point in time: write 2027-03-05T18:00:00+01:00, bare.")
        if value.tzinfo is None:
            told = value.isoformat()
            self.refuse(
                f"deadline.{key} = {told} has no time zone: write {told}+01:00 where the clock is one hour ahead of "
                f"UTC then, {told}Z for UTC itself."
            )
        return value

    def number(self, key: str, value: Any, whole: bool = False) -> Any:
        kinds = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value < math.inf:
            wanted = "a whole number, 0 or more" if whole else "a number, 0 or more"
            self.refuse(f"{key} = {_told(value)}: give {wanted}.")
        return value

    def share(self, key: str, value: Any) -> float:
        if self.number(key, value) > 1:
            self.refuse(f"{key} = {_told(value)}: give a share between 0 and 1; 0.1 is a tenth of the points.")
        return float(value)

    def one_of(self, key: str, value: Any, known: Sequence[str]) -> str:
        if value not in known:
            wanted = " or ".join(f'"{one}"' for one in known)
            self.refuse(f"{key} = {_told(value)}: give {wanted}.")
        return value

    def names(self, key: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.refuse(f'{key} = {_told(value)}: give a list of names, for instance ["{self.chapters[0]}"].')
        return value


def _told(value: Any) -> str:
    return f'"{plain(value, 60)}"' if isinstance(value, str) else plain(str(value), 60)


def _chapter(name: str, known: Sequence[str]) -> str:
    """Return the chapter of this name or number (`ch03_ring_all_reduce`, `ch03`); empty if there is none."""
    return next((one for one in known if name in (one, one.partition("_")[0])), "")


def when(seconds: float) -> str:
    """Return a time of change as ISO text in UTC; what no calendar holds becomes the nearest that one does."""
    bounded = min(max(seconds, 0.0), 4_102_444_800.0) if math.isfinite(seconds) else 0.0  # 1970 to 2100
    return datetime.fromtimestamp(bounded, UTC).isoformat(timespec="milliseconds")


def shown(handed_in: str) -> str:
    """Return a hand-in time for a sentence, to the minute."""
    return handed_in and datetime.fromisoformat(handed_in).strftime("%Y-%m-%d %H:%M UTC")
