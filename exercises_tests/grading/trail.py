"""What the ranks of a simulated run did, short enough to go with a verdict: the material of the picture on a page.

Read from the judge's own clock, not from what ranks say, and also after a run that failed: a deadlock is most worth a
picture. Why not the Results? A run that fails has none.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np

from course_lib.engine.outcome import Deadlocked
from exercises_tests.grading.verdicts import MOST_EVENTS, MOST_LABEL

DIGITS = 9  # of a time


def of(world: Any) -> list[list]:
    """Return [rank, kind, begin, end, label] of what the ranks of a `World` did, in order of time, in virtual seconds.

    At most MOST_EVENTS: the earliest, and whoever waits for ever. A rank that waits does so until the run's end.
    """
    for_ever = list(_waiting(world))[:MOST_EVENTS]
    room = MOST_EVENTS - len(for_ever)
    done = heapq.nsmallest(room, _done(world, room), key=lambda event: (event[2], event[3], event[0]))
    end = max([0.0, *(event[3] for event in done), *(event[2] for event in for_ever)])
    found = done + [[rank, kind, begin, end, label] for rank, kind, begin, label in for_ever]
    return [[rank, kind, _short(begin), _short(end), label[:MOST_LABEL]] for rank, kind, begin, end, label in found]


def _waiting(world: Any) -> Iterator[tuple[int, str, float, str]]:
    if isinstance(world.failure, Deadlocked):
        for rank, words, _ in world.failure.waiting:
            yield rank, "wait", world.clock.ranks[rank].now, words


def _done(world: Any, most: int) -> Iterator[list]:
    """Yield at least the `most` earliest things that were done."""
    for event in list(world.events):
        yield [event.rank, event.kind, event.start, event.end, ""]
    moved = np.frombuffer(bytes(world.clock.transfers)).reshape(-1, 7)
    for src, dst, _, _, start, end, size in moved[np.argsort(moved[:, 4], kind="stable")[:most]].tolist():
        yield [int(src), "send", start, end, f"to {int(dst)} · {int(size):,} B"]
        yield [int(dst), "recv", start, end, f"from {int(src)} · {int(size):,} B"]


def _short(seconds: float) -> float:
    return float(f"{seconds:.{DIGITS}g}")
