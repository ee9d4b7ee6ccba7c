"""What a judge says of a submission: lines of JSON with known fields, bounded before they are parsed, and cleaned.

A judge runs nothing of a learner's, but it reads what answers send. So it is believed no more than a stranger: should
one be taken over, it can name the points of its own submission, at most those that there are, and say some text.
"""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass
from typing import Any

from exercises_tests.tools.untrusted import loads, plain

MOST_LINE = 200_000  # bytes of one verdict
MOST_TEXT = 4000  # characters of one sentence in a grade book
MOST_EVENTS, MOST_LABEL, MOST_RANKS = 400, 40, 4096  # of the failing run; characters; the simulator takes no more
MOST_SECONDS = 1e15  # of virtual time; that is thirty million years
KINDS = {
    "send", "recv", "work", "wait", "all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter",
    "reduce_scatter", "all_to_all", "barrier",
}  # fmt: skip
DIED = "the judge died"
LATE = "the time was up"
FIELDS = {
    "exercise": str, "earned": int, "parts": dict, "marks": str, "code": str, "sentence": str, "see": str,
    "borrowed": bool, "events": list,
}  # fmt: skip


@dataclass
class Verdicts:
    """The results that came, in order, and why no more did: empty where all are there."""

    results: list[dict[str, Any]]
    ended: str = ""


def read(pipe: int, exercises: dict[str, int], seconds: float) -> Verdicts:
    """Read one verdict on each exercise, of so many points, from a judge."""
    found: dict[str, dict[str, Any]] = {}
    deadline, rest, taken = time.monotonic() + seconds, b"", 0
    while len(found) < len(exercises):
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return Verdicts(list(found.values()), LATE)
        piece = os.read(pipe, 1 << 16)
        taken += len(piece)
        *lines, rest = (rest + piece).split(b"\n")
        if not piece or taken > MOST_LINE * len(exercises):
            return Verdicts(list(found.values()), DIED)
        for line in lines:
            try:
                result = believed(line, exercises)
            except ValueError:
                return Verdicts(list(found.values()), DIED)
            found.setdefault(result["exercise"], result)
    return Verdicts(list(found.values()))


def believed(line: bytes, exercises: dict[str, int]) -> dict[str, Any]:
    """Return the verdict in a line. Raises ValueError for anything else."""
    said = loads(line, most_parts=500 + 6 * MOST_EVENTS, most_depth=3)
    if not isinstance(said, dict) or said.keys() != FIELDS.keys():
        raise ValueError("other fields than a verdict has")
    if any(type(said[name]) is not kind for name, kind in FIELDS.items()) or said["exercise"] not in exercises:
        raise ValueError("a damaged field, or no exercise of this chapter")
    points = exercises[said["exercise"]]
    if not 0 <= said["earned"] <= points or not all(type(mark) is bool for mark in said["parts"].values()):
        raise ValueError("more points than there are")
    if said["borrowed"] and said["earned"]:
        raise ValueError("points for what is borrowed")
    if said["events"] and (said["borrowed"] or not said["code"]):
        raise ValueError("a picture of what is borrowed, or of what is right")
    said["events"] = events(said["events"])
    said["parts"] = {plain(part, 60): mark for part, mark in said["parts"].items()}
    for name, most in (("marks", 400), ("code", 60), ("see", 400)):
        said[name] = plain(said[name], most)
    said["sentence"] = plain(said["sentence"], MOST_TEXT, "\n\t")
    return {"exercise": said.pop("exercise"), "graded": True, "points": points} | said


def events(said: list) -> list[list]:
    """Return what ranks are said to have done: [rank, kind, begin, end, label] each. Raises ValueError for what is not.

    What takes part in a picture is counted, known by its kind, and at a time that can be drawn.
    """
    if len(said) > MOST_EVENTS:
        raise ValueError(f"more than {MOST_EVENTS} events")
    found = []
    for event in said:
        if not isinstance(event, list) or len(event) != 5:
            raise ValueError("an event of other parts")
        rank, kind, *times, label = event
        if type(rank) is not int or not 0 <= rank < MOST_RANKS or not isinstance(kind, str) or kind not in KINDS:
            raise ValueError("an event of no rank or kind")
        if not all(type(time) in (int, float) and 0 <= time <= MOST_SECONDS for time in times) or times[0] > times[1]:
            raise ValueError("an event at no time")
        if not isinstance(label, str):
            raise ValueError("an event whose label is no text")
        found.append([rank, kind, float(times[0]), float(times[1]), plain(label, MOST_LABEL)])
    return found
