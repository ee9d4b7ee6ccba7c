"""Where a class stands: how many are right, stuck or not begun at each exercise, and which mistakes many make.

Counted from plain records of grades.json; a learner counts once at each exercise, with the attempt that counts.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from exercises_tests.grading.sheet import chapter, several

UNWRITTEN = {"not-written", "missing", "needs"}  # codes of what nobody has answered
CODE = re.compile(r"\s+line \d+ of ")  # the lines of a sentence that show where in an answer, and its code
RAISED = re.compile(r"\b([A-Z][A-Za-z]*(?:Error|Exception))\b")
MANY, SHARE = 5, 0.1  # learners who are a group; of a class that is worth the time of all
TRIES, ONE_CODE, OF_THOSE = 8, 0.6, 1 / 3  # when an exercise's text may be at fault: see Place.text_may_be_at_fault


@dataclass
class Mistake:
    """A mistake at one exercise: its code, where many kinds share a code with the exception, and who made it."""

    chapter: str
    exercise: str
    code: str
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By learner."""

    def __len__(self) -> int:
        return len(self.results)

    @property
    def sentence(self) -> str:
        """What most of them read, or its first line, numbers put aside: each learner has numbers of their own.

        Without the lines that show a learner's code. Where only the first line is alike, nothing is announced in it.
        """
        read = [result["sentence"].split("\n") for result in self.results.values()]
        whole = ["\n".join(line for line in lines if not CODE.match(line)) for lines in read]
        for said in (whole, [lines[0].rstrip(":") for lines in read]):
            masked = [re.sub(r"\d+", "#", one) for one in said]
            most, count = Counter(masked).most_common(1)[0]
            if count > 1:
                return said[masked.index(most)]
        return ""


@dataclass
class Place:
    """One exercise, and where each learner who handed in its chapter stands there."""

    chapter: str
    exercise: str
    states: dict[str, str] = field(default_factory=dict)
    """By learner: passed, partly, wrong, borrowed or open, as in sheet.STATES."""
    earned: float = 0.0
    points: float = 0.0
    """Of all of them together."""
    ungraded: int = 0
    tries: Counter = field(default_factory=Counter)
    """Wrong tries by code, of all attempts."""

    @property
    def counts(self) -> dict[str, int]:
        counted = Counter(self.states.values())
        return {state: counted[state] for state in ("passed", "partly", "wrong", "borrowed", "open")}

    @property
    def stuck(self) -> int:
        return self.counts["partly"] + self.counts["wrong"]

    @property
    def text_may_be_at_fault(self) -> bool:
        """Whether many tries end in one mistake, which a third of all who tried are still at."""
        tried = len(self.states) - self.counts["open"] - self.counts["borrowed"]
        most = max(self.tries.values(), default=0)
        return self.stuck >= max(MANY, OF_THOSE * tried) and self.tries.total() >= TRIES and (
            most >= ONE_CODE * self.tries.total())  # fmt: skip


@dataclass
class Standing:
    """All that is counted of a class."""

    learners: list[str]
    """All, in the order of the grade book, also those who handed in nothing."""
    places: list[Place]
    mistakes: list[Mistake]
    """The most frequent first."""
    shares: list[float]
    """Of each learner who handed in something, the share of the points of what they handed in, from 0 to 1."""

    @property
    def empty(self) -> int:
        """How many handed in nothing that could be graded."""
        return len(self.learners) - len(self.shares)

    def advice(self, shown: Callable[[str], str] = str) -> list[str]:
        """Return what to do in the next ten minutes, in sentences: plain text, not yet escaped.

        `shown` makes of a sentence that learners read what may be shown to all.
        """
        class_of, found = len(self.learners), []
        most = next(iter(self.mistakes), None)
        late = max(self.places, key=lambda place: place.counts["open"], default=None)
        enough = max(2, SHARE * class_of)
        if most is not None and len(most) >= enough:
            first = most.sentence.partition("\n")[0].rstrip(":")
            told = f": “{shown(first)}”" if first else ""
            found.append(f"{len(most)} of {class_of} are at the same place, {most.exercise} in "
                         f"{chapter(most.chapter)} ({most.code}){told}. Begin there.")  # fmt: skip
            second = next((one for one in self.mistakes[1:] if len(one) >= enough), None)
            if second is not None:
                found.append(f"Then {second.exercise} ({second.code}), {len(second)} of {class_of}.")
        elif self.shares:
            found.append(f"No mistake is made by {enough:.0f} or more of {class_of}: nothing needs the whole room.")
        if late is not None and late.counts["open"] >= max(enough, len(most or [])):
            stem = late.chapter.partition("_")[0]
            found.append(f"Time is missing, not words: {late.counts['open']} of the {len(late.states)} who handed in "
                         f"{chapter(late.chapter)} have not written {late.exercise}; make catch-up CHAPTER={stem} "
                         "takes them along.")  # fmt: skip
        if faulty := [place.exercise for place in self.places if place.text_may_be_at_fault]:
            found.append(f"Look at the text of {' and '.join(faulty)} first: many tries end in one mistake.")
        if self.empty:
            found.append(f"{several(self.empty, 'learner')} of {class_of} handed in nothing that could be graded.")
        return found or ["Nothing has been handed in yet."]


def standing(records: list[dict[str, Any]], attempts: list[dict[str, Any]] = ()) -> Standing:
    """Count a class. `records` are the attempts that count, `attempts` all of them, where they are known."""
    places: dict[tuple[str, str], Place] = {}
    mistakes: dict[tuple[str, str, str], Mistake] = {}
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for record in records:
        for result in record["results"]:
            where = record["chapter"], result["exercise"]
            place = places.setdefault(where, Place(*where))
            if not result["graded"]:
                place.ungraded += 1
                continue
            points = _points(result)
            place.states[record["learner"]] = state_of(result, points)
            sums[record["learner"]][0] += points
            sums[record["learner"]][1] += result["points"]
            place.earned, place.points = place.earned + points, place.points + result["points"]
            if place.states[record["learner"]] in ("wrong", "partly") and result["code"]:
                code = code_of(result)
                mistakes.setdefault((*where, code), Mistake(*where, code)).results[record["learner"]] = result
    for where, codes in _tries(attempts or records).items():
        if where in places:
            places[where].tries = codes
    return Standing(
        list(dict.fromkeys(record["learner"] for record in records)),
        sorted(places.values(), key=lambda place: place.chapter),  # exercises as in the chapter: sorting is stable
        sorted(mistakes.values(), key=lambda mistake: (-len(mistake), mistake.chapter, mistake.exercise, mistake.code)),
        [earned / points for earned, points in sums.values() if points],
    )


def _points(result: dict[str, Any]) -> float:
    by_hand = (result.get("by_hand") or {}).get("points")
    return result["earned"] if by_hand is None else by_hand


def state_of(result: dict[str, Any], points: float) -> str:
    """Return where a learner stands at an exercise, in a word of sheet.STATES."""
    if points >= result["points"] or not result["code"]:
        return "passed"
    if result.get("borrowed") or result["code"] == "borrowed":
        return "borrowed"
    if result["code"] in UNWRITTEN:
        return "open"
    return "partly" if points else "wrong"


def code_of(result: dict[str, Any]) -> str:
    """Return the code of a mistake; with the exception's name where one code is of all that may be raised."""
    raised = RAISED.search(result["sentence"].partition("\n")[0]) if result["code"] == "raised" else None
    own = raised is None or not hasattr(builtins, raised[1])  # a class of the learner's may be called anything
    return result["code"] if own else f"raised {raised[1]}"


def _tries(attempts: list[dict[str, Any]]) -> dict[tuple[str, str], Counter]:
    """Return of each exercise how many tries ended in which mistake; the same text handed in again is no other try."""
    found: dict[tuple[str, str], Counter] = defaultdict(Counter)
    seen = set()
    for record in attempts:
        for result in record["results"]:
            text = (record.get("cells") or {}).get(result["exercise"], result["sentence"])
            one = record["learner"], record["chapter"], result["exercise"], text
            if one not in seen and result["graded"] and state_of(result, result["earned"]) in ("wrong", "partly"):
                found[record["chapter"], result["exercise"]][code_of(result)] += 1
            seen.add(one)
    return found
