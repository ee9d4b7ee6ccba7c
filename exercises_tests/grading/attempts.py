"""The attempts: every version of a chapter that a learner handed in and that was judged, oldest first; none is lost.

An attempt is known by its answers and by when it was handed in, the time of change of its file. So a file that is older
than the one judged before takes its place before that one, and a file that only got a new date is no new attempt.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from exercises_tests.grading.policy import Policy, shown, when

MOST_KEPT = 20_000  # characters of a cell as handed in; longer ones are cut in the record, and judged whole
UNKNOWN = {"handed_in": "", "attempt": 1, "cells": {}, "answers": "", "judge": ""}
"""What the grade books of earlier versions do not say of an attempt."""

Key = tuple[str, str]
Record = dict[str, Any]


def digest(cells: Mapping[str, str]) -> str:
    """Return what tells these answers from others."""
    return hashlib.sha256(json.dumps(dict(cells), sort_keys=True).encode()).hexdigest()


class HandedIn(Protocol):
    """A learner's notebook of a chapter, as the grader looks at it."""

    cells: dict[str, str]
    changed: float


def kept_of(handed_in: HandedIn) -> dict[str, Any]:
    """Return what the record of an attempt keeps of what was handed in, and when: ISO text in UTC."""
    cells = {name: text[:MOST_KEPT] for name, text in handed_in.cells.items()}
    return {"handed_in": when(handed_in.changed), "cells": cells, "answers": digest(handed_in.cells)}


def empty_record(learner: str, path: Path, remark: str) -> dict[str, Any]:
    """Return the record of what earns nothing."""
    return {"learner": learner, "file": path.name, "chapter": "", "earned": 0, "points": 0, "results": [],
            "remark": remark, "seed": None, "digest": "", "judge": "", "handed_in": "", "attempt": 0, "cells": {},
            "answers": ""}  # fmt: skip


NO_ATTEMPT = {"attempts": 0, "late_hours": 0.0, "counted": 0.0, "possible": 0.0}
"""What a policy makes of what earns nothing."""


class Attempts:
    """The attempts of a class, by learner and chapter."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        """`records` are those of a grade book: its attempts, or the submissions of one that has none."""
        self._known: dict[Key, list[Record]] = {}
        self._here: dict[Key, Record] = {}
        self.waiting: set[Key] = set()
        """Whose notebook is still to be judged."""
        for record in records:
            if record["chapter"]:
                results = [{"events": []} | {name: value for name, value in result.items() if name != "counts"}
                           | {"by_hand": None} for result in record["results"]]  # fmt: skip
                bare = {name: value for name, value in record.items() if name not in NO_ATTEMPT}
                self._insert(UNKNOWN | bare | {"results": results})

    def learners(self) -> set[str]:
        """Return who has an attempt."""
        return {learner for learner, _ in list(self._known)}  # a copy: judges add to it meanwhile

    def keys(self) -> set[Key]:
        """Return each learner and chapter of which there is an attempt."""
        return set(self._known)

    def chapters(self, learner: str) -> list[str]:
        """Return the chapters of which a learner has an attempt, in order."""
        return sorted(chapter for name, chapter in list(self._known) if name == learner)

    def of(self, key: Key) -> list[Record]:
        """Return the attempts at a chapter of a learner, oldest first."""
        return list(self._known.get(key, ()))

    def all(self) -> list[Record]:
        """Return all attempts, oldest first."""
        return sorted((one for several in list(self._known.values()) for one in several), key=_time)

    def same(self, key: Key, answers: str, handed_in: str, judged: str) -> Record | None:
        """Return the attempt that these answers are, if they are one that is known; `judged` is their digest.

        Not any with the same answers: who goes back to an earlier version after another one has tried again.
        """
        several = self.of(key)
        before = [one for one in several if one["handed_in"] <= handed_in]
        near = [one for one in before if one["handed_in"] == handed_in] + before[-1:] + several[len(before):][:1]
        return next((one for one in near if one["answers"] == answers or _old(one, judged)), None)

    def put(self, record: Record, instead_of: Record | None = None) -> Record:
        """Add an attempt in its right order, or renew one: that keeps the earlier of its two times of hand-in."""
        key = record["learner"], record["chapter"]
        if instead_of is not None and instead_of["handed_in"]:
            record = record | {"handed_in": min(record["handed_in"], instead_of["handed_in"])}
        self._insert(record, instead_of)
        self.seen(key, record)
        return record

    def seen(self, key: Key, attempt: Record) -> None:
        """Note that the notebook which lies there now is this attempt."""
        self._here[key] = attempt
        self.waiting.discard(key)

    def _insert(self, record: Record, instead_of: Record | None = None) -> None:
        key = record["learner"], record["chapter"]
        others = [one for one in self._known.get(key, ()) if one is not instead_of]
        several = sorted([*others, record], key=_time)  # stable: of one time, the later seen is later
        for number, one in enumerate(several, 1):
            one["attempt"] = number
        self._known[key] = several

    def counting(self, key: Key, policy: Policy, by_hand: Mapping) -> Record:
        """Return the record of the attempt that counts, with what of it counts, and why in its remark."""
        several = self.of(key)
        can = [policy.applied(one, by_hand) for one in several[: policy.most_attempts or None]]
        best = policy.count == "best"
        chosen = max(can, key=lambda one: (one["counted"], one["attempt"])) if best else can[-1]
        told = [chosen["remark"], self._why(key, chosen["attempt"], policy), _late(chosen, policy)]
        return chosen | {"attempts": len(several), "remark": ". ".join(filter(None, told))}

    def _why(self, key: Key, number: int, policy: Policy) -> str:
        """Say why this attempt counts, where it is not simply the notebook that lies there."""
        several, here = self.of(key), self._here.get(key)
        counts = f"attempt {number} of {len(several)} counts"
        if key in self.waiting:
            return f"the notebook there is not graded yet; {counts}: run the command again"
        if here is None:
            return f"no notebook of this chapter there any more; {counts}"
        if policy.most_attempts and len(several) > policy.most_attempts:
            rule = "the best" if policy.count == "best" else "the last"
            return f"{counts}: {rule} of the first {policy.most_attempts}, more do not count"
        if here is not several[-1]:
            newest = several[-1]
            return (f"the notebook there is attempt {here['attempt']}, of {shown(here['handed_in'])}, older than "
                    f"attempt {newest['attempt']}, of {shown(newest['handed_in'])}; {counts}")  # fmt: skip
        return f"{counts}, the best" if number != len(several) else ""


def _time(record: Record) -> str:
    return record["handed_in"]


def _old(record: Record, judged: str) -> bool:
    """Return whether this is an attempt of a grade book that did not keep answers, and the same all in all."""
    return not record["answers"] and record["digest"] == judged


def _late(record: Record, policy: Policy) -> str:
    seconds = policy.late_seconds(record["chapter"], record["handed_in"])
    if not seconds:
        return ""
    long = f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{math.ceil(seconds / 60)} min"
    return f"{long} late: {100 * policy.lost(seconds):g} % off"
