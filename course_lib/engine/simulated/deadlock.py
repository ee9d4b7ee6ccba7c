"""Describes a deadlock: each waiting rank, what it waits for, on which line, and the cycle in the wait-for graph.

Why not a timeout, as on real ranks? The scheduler knows at once that nobody can run. Why is the cycle looked for among
first edges only? A rank in a collective waits for all that are absent; one cycle is enough for the sentence.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

from course_lib.engine import packing
from course_lib.engine.outcome import Deadlocked
from course_lib.engine.simulated.messages import Posting
from course_lib.engine.simulated.turns import Agent, Rank


def frames_of(rank: Rank) -> list[tuple[str, int, str]]:
    """Return the learner's frames of a rank's thread, outermost first."""
    frame = sys._current_frames().get(rank.thread.ident) if rank.thread else None
    stack = traceback.extract_stack(frame) if frame else []
    return [(f.filename, f.lineno, f.name) for f in stack if not packing.is_library(f.filename)]


def found(ranks: list[Rank]) -> Deadlocked:
    """Return the Deadlocked outcome of a simulation in which nobody can run."""
    waiting, edges, unreceived = [], {}, []
    for rank in ranks:
        if not rank.finished:
            reason, edges[rank.index] = _reason(rank.waits_for)
            waiting.append((rank.index, reason, frames_of(rank)))
            unreceived += [(rank.index, one.peer) for one in rank.open_handles if _unreceived(one, rank)]
    returned = [rank.index for rank in ranks if rank.finished]
    return Deadlocked(waiting, _cycle(edges), returned, unreceived)


def _reason(thing: Any) -> tuple[str, list[int]]:
    """Return what a rank waits for, in words, and the ranks it waits for."""
    if isinstance(thing, Posting):
        if thing.kind == "send":
            return f"to send {thing.nbytes:,} bytes to rank {thing.peer}", [thing.peer]
        if thing.peer is None:
            return "to receive from any rank", []
        return f"to receive from rank {thing.peer}", [thing.peer]
    absent = thing.meeting.absent()
    if isinstance(thing, Agent) and not absent:  # all are here, but an earlier collective of theirs is not over
        return f"in {thing.name}", []
    return f"in {thing.name} for {_ranks(absent)}", absent


def _unreceived(handle: Any, rank: Rank) -> bool:
    """Return whether a handle is of an isend that no rank has received, other than the one that its rank waits for."""
    return isinstance(handle, Posting) and handle.kind == "send" and handle.end is None and handle is not rank.waits_for


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def _cycle(edges: dict[int, list[int]]) -> list[int]:
    """Return a cycle of waiting ranks, the first one again at the end; empty if there is none."""
    done: set[int] = set()
    for begin in edges:
        path: list[int] = []
        node: int | None = begin
        while node in edges and node not in done and node not in path:
            path.append(node)
            following = [peer for peer in edges[node] if peer in edges]
            node = following[0] if following else None
        if node in path:
            return [*path[path.index(node) :], node]
        done.update(path)
    return []
