"""The sentence of a failed run: which rank failed first, how, and on which lines of the learner's.

Why not re-raise the rank's exception here? Its class may be the learner's own, its traceback cannot be pickled, and of
four ranks three raise "connection closed by peer" because the fourth died: raised in rank order, a victim would be
blamed. So outcomes are sorted by time, those that only say that a peer is gone last, and all is told in one sentence.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import signal
from typing import TYPE_CHECKING

from course_lib.engine import packing
from course_lib.engine.outcome import Deadlocked, Failed
from course_lib.results import RankFailed, duration, instead, lines_of

if TYPE_CHECKING:
    from course_lib.engine.processes.watch import Child


def raise_first_failure(
    children: list[Child], timeout: float, simulated: bool = False, alone: bool = False, debug: bool = False
) -> None:
    """Raise the failure that happened first, if any: an exception, a death, or a hang."""
    dead = [child for child in children if child.outcome is None and child.died]
    raised = [child.outcome for child in children if isinstance(child.outcome, Failed)]
    if dead and all(map(is_victim, raised)):
        child = dead[0]
        who = "it" if alone else "a simulated rank" if simulated else f"rank {child.index}"
        said = _how_it_died(child, may_differ=not (simulated or alone), debug=debug)
        raise RankFailed(f"{who} {said}", None if simulated else child.index, _kind_of_death(child))
    raise_raised(raised)
    stuck = [child for child in children if child.outcome is None]
    if stuck:
        places = {child.index: stack(child) if child in stuck else None for child in children}
        raise RankFailed(hang(places, timeout, alone), stuck[0].index, "timeout")


def raise_raised(raised: list[Failed]) -> None:
    """Raise the exception that came first, if any."""
    if raised:
        raise _failure_of(first(raised))


def first(raised: list[Failed]) -> Failed:
    """Return the earliest exception; those that only say that a peer is gone come last."""
    return min(raised, key=lambda failure: (is_victim(failure), failure.when))


def is_victim(failure: Failed) -> bool:
    """Return whether an exception, or one it was raised from, only says that a peer is gone."""
    words = ("connection closed by peer", "connection reset by peer", "broken pipe", "connection refused", "socket")
    kinds = ("RuntimeError", "DistBackendError", "DistNetworkError")
    raised = [(failure.error, failure.message), *failure.behind]
    return any(kind in kinds and any(word in text.lower() for word in words) for kind, text in raised)


def _failure_of(failure: Failed) -> RankFailed:
    rank, error, message, frames = failure.rank, failure.error, failure.message, failure.frames
    if error == "NotImplementedError" and not message:
        name = frames[-1][2] if frames else "an exercise"
        return RankFailed(f"needs {name}: write it, or borrow it", rank, error, name)
    who = "" if rank is None else f"rank {rank} "
    said = f"{who}raised {error}" + (f": {message}" if message else "")
    said += instead(message, frames) + lines_of(frames)
    if failure.other:  # a message has two sides, and the other one is waiting on a line of its own
        other, waits, lines = failure.other
        said += f"\n  rank {other} {waits}{lines_of(lines, most=2)}" if lines else ""
    return RankFailed(said, rank, error, message)


def _kind_of_death(child: Child) -> str:
    return "signal" if os.WIFSIGNALED(child.status) else "exit"


def _how_it_died(child: Child, may_differ: bool, debug: bool) -> str:
    last = [line for line in child.text.splitlines() if line.strip()][-3:]
    said = f"; the last it printed was: {' / '.join(last)}" if last else ""
    if os.WIFEXITED(child.status):
        code = os.WEXITSTATUS(child.status)
        return f"ended its process with exit code {code} (os._exit, or a crash below Python){said}"
    number = os.WTERMSIG(child.status)
    if number == signal.SIGABRT and "bad_alloc" in child.text:
        return f"ran out of memory in C++ (std::bad_alloc){said}"
    reasons = {
        signal.SIGKILL: "was killed (SIGKILL): by the system for lack of memory, or by hand",
        signal.SIGABRT: "aborted in C++ (SIGABRT)",
        signal.SIGSEGV: "crashed in C code (SIGSEGV)",
    }
    reason = reasons.get(number) or f"was ended by signal {signal.Signals(number).name}"
    if number == signal.SIGABRT and may_differ:
        said += "; shapes or dtypes that differ between ranks do that"
        said += "" if debug else ": run(..., debug=True) names both sides"
    return reason + said + lines_of(stack(child))


def still_going(rank: int, frames: list, timeout: float) -> str:
    """Describe a simulation that was ended at its timeout; its last line tells a learner on a busy machine to retry."""
    said = f"the simulation was still going on after {duration(timeout)}: rank {rank} was at{lines_of(frames)}"
    if frames and endless(*frames[-1][:2]):
        return f"{said}\nThis loop never ends: nothing in it sends, receives or returns"
    return f"{said}\nThe limit counts seconds of the clock: if other programs keep this machine busy, run it again"


def endless(filename: str, number: int) -> bool:
    """Return whether a line is in a `while` that nothing ends: no call, no way out, no change of its condition."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return False
    return any(isinstance(loop, ast.While) and loop.lineno <= number <= (loop.end_lineno or 0) and not _changes(loop)
               for loop in ast.walk(tree))


def _changes(loop: ast.While) -> bool:
    asked = {node.id for node in ast.walk(loop.test) if isinstance(node, ast.Name)}
    return any(isinstance(node, ast.Call | ast.Return | ast.Break | ast.Raise | ast.Yield | ast.YieldFrom | ast.Await)
               or isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in asked
               or isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store)
               for part in (loop.test, *loop.body) for node in ast.walk(part))


def hang(places: dict[int, list | None], timeout: float, alone: bool = False) -> str:
    """Describe a timeout: `places` are each rank's frames, None for one that had returned."""
    if alone:
        (frames,) = places.values()
        return f"still running after {duration(timeout)}, and ended; it was at{lines_of(frames, most=2)}"
    return "\n".join([f"still running after {duration(timeout)}, and ended:", *_places(places)])


def _places(places: dict[int, list | None]) -> list[str]:
    lines = []
    for rank, frames in places.items():
        if frames is None:
            lines.append(f"  rank {rank} had returned")
        elif frames:
            lines.append(f"  rank {rank} was at{lines_of(frames, most=2)}")
        else:
            lines.append(f"  rank {rank} was outside your function")
    return lines


def interrupted(children: list[Child], seconds: float) -> str:
    """Describe where each rank was when the run was interrupted."""
    head = f"interrupted after {duration(seconds)}, and ended"
    if children and children[0].simulated:
        where = children[0].where
        return f"{head}: rank {where.rank} was at{lines_of(where.frames, most=2)}" if where else head
    return "\n".join([f"{head}:", *_places({c.index: stack(c) if c.outcome is None else None for c in children})])


def stack(child: Child) -> list[tuple[str, int, str]]:
    """Return the learner's frames in what faulthandler dumped, outermost first.

    From the thread that crashed, or from the main thread if that was not a Python thread.
    """
    dumped = child.stack.decode("utf-8", "replace")
    _, *threads = re.split(r"^(.*) \(most recent call first\):$", dumped, flags=re.MULTILINE)
    bodies = dict(zip(threads[::2], threads[1::2], strict=True))  # the main thread, the oldest, comes last
    at_fault = [body for head, body in bodies.items() if not head.startswith("Thread")] or list(bodies.values()) or [""]
    found = re.findall(r'File "([^\0\n]*)", line (\d{1,9}) in (.*)', at_fault[-1])
    return [(file, int(line), name) for file, line, name in reversed(found) if not packing.is_library(file)]


def deadlock(found: Deadlocked, most: int = 8) -> str:
    """Describe a deadlock: who waits for what on which line, and the cycle."""
    lines = ["no rank can go on, and none of them ever will:"]
    for place, waiting in _by_line(found.waiting).items():
        ranks, shown = [rank for rank, _, _ in waiting], waiting[:most]
        where = lines_of([place]) if place else ""
        if len(ranks) > 1 and place:
            lines.append(f"  {_named(ranks)} wait in the same line:{where}")
            where = ""
        lines += [f"  rank {rank} waits {reason}{where}" for rank, reason, _ in shown]
        if len(waiting) > most:
            lines.append(f"  ... {len(waiting) - most} more ranks wait")
    if found.unreceived:
        arrows = [f"{sender} -> {receiver}" for sender, receiver in found.unreceived]
        more = f", and {len(arrows) - most} more" if len(arrows) > most else ""
        lines.append(f"Started by isend, but no rank receives: {', '.join(arrows[:most])}{more}.")
    if found.cycle:
        lines.append(f"They wait in a circle: {' -> '.join(map(str, found.cycle))}.")
    elif found.returned:
        returned = ", ".join(map(str, found.returned[:most])) + (", ..." if len(found.returned) > most else "")
        lines.append(f"Already returned: rank{'s' if len(found.returned) > 1 else ''} {returned}.")
    return "\n".join(lines)


def _by_line(waiting: list) -> dict[tuple | None, list]:
    """Return the waiting ranks by the learner's line in which they wait, in the order of the first ranks."""
    found: dict[tuple | None, list] = {}
    for one in waiting:
        found.setdefault(tuple(one[2][-1]) if one[2] else None, []).append(one)
    return found


def _named(ranks: list[int]) -> str:
    """Return ranks in words: "ranks 0 to 3 all", "ranks 0 and 2 both", "ranks 0, 2 and 5 all"."""
    if len(ranks) == 2:
        return f"ranks {ranks[0]} and {ranks[1]} both"
    if ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]} all"
    if len(ranks) > 8:
        return f"{len(ranks)} ranks all"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]} all"
