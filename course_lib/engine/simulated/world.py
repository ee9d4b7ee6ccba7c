"""One simulation in one process: a thread per rank, of which exactly one runs, and a main thread that waits.

Why not run the simulation in the notebook's own process? A rank that loops for ever could not be ended there (Python
cannot kill a thread), a crash in C would end the kernel, and globals would be shared with the notebook instead of
copied. Why is the main thread idle? It sleeps in select() and wakes only to tell the notebook, at a timeout, where the
running rank is.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
import select
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from course_lib.engine import current, outcome, packing, wire
from course_lib.engine.outcome import Deadlocked, Failed, Outcome, Simulated, Unfinished
from course_lib.engine.seeds import seed
from course_lib.engine.simulated import deadlock
from course_lib.engine.simulated.clock import Clock
from course_lib.engine.simulated.dist import SimulatedDist
from course_lib.engine.simulated.groups import Meeting
from course_lib.engine.simulated.leftovers import Baseline
from course_lib.engine.simulated.randomness import RandomNumbers
from course_lib.engine.simulated.turns import Rank
from course_lib.events import Event

M_ARENA_MAX = -8  # glibc's number for it
BASELINE = Baseline()
"""The state of this process before its first simulation, recorded if it may run several."""
MOST_PRINTED = 100_000  # characters kept of what one rank prints


class World:
    """One simulation: its ranks, what they printed and returned, and how it ended."""

    def __init__(self, ranks: int, cluster: Any) -> None:
        self.cluster = cluster
        self.clock = Clock(ranks, cluster.link, cluster.nics_between if cluster.nodes else None)
        self.clock.switch = cluster.switch if cluster.in_network else None
        self.clock.on_deadlock = lambda: self._end(deadlock.found(self.clock.ranks))
        self.events: list[Event] = []
        self.values: list[bytes] = [b""] * ranks
        """What each rank returned, packed."""
        self._printed = [""] * ranks
        self._unkept = [0] * ranks
        self.over = False
        self.failure: Failed | Deadlocked | None = None
        self._meetings: dict[tuple, Meeting] = {}
        self.bell, self._ring = os.pipe()

    # While it runs

    def write(self, text: str) -> int:
        """Act as sys.stdout and sys.stderr: text belongs to the rank whose turn it is."""
        rank = self.clock.current.index
        kept = text[: max(0, MOST_PRINTED - len(self._printed[rank]))]
        self._printed[rank] += kept
        self._unkept[rank] += len(text) - len(kept)
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    @property
    def printed(self) -> list[str]:
        """What each rank printed."""
        return [
            text + (f"\n... {unkept:,} characters more\n" if unkept else "")
            for text, unkept in zip(self._printed, self._unkept, strict=True)
        ]

    # What code asks that has no dist (engine/current.py)

    simulated = True

    def now(self) -> float:
        return self.clock.current.now

    def work(self, seconds: float | None, flops: float | None) -> None:
        """Advance the virtual time of the rank whose turn it is."""
        rank = self.clock.current
        begin = rank.now
        rank.now += current.seconds_of(seconds, flops, self.cluster.flops)
        self.events.append(Event(rank.index, "work", begin, rank.now, begin))

    def run(self, calls: list[tuple[Any, tuple]], link: socket.socket) -> None:
        """Run all ranks until the simulation is over; answer the notebook when it asks where they are."""
        for rank, (fn, args) in zip(self.clock.ranks, calls, strict=True):
            rank.thread = threading.Thread(target=self._live, args=(rank, fn, args), daemon=True)
            rank.thread.start()
        self.clock.begin()
        while self.bell not in (ready := select.select([self.bell, link], [], [])[0]):
            if link in ready and wire.get(link)[0] == wire.WHERE:
                wire.put(link, wire.HERE, outcome.pack(self._where()))

    def _live(self, rank: Rank, fn: Any, args: tuple) -> None:
        self.clock.take(rank)
        dist = SimulatedDist(self.clock, rank, self._meetings, self.events)
        try:
            value = fn(dist, *args)
            if rank.open_handles:
                names = _names(rank.open_handles)
                raise RuntimeError(f"returned without wait() on {names}: keep the handle and wait for it")
            ended = self.returned(value, rank.index)
        except BaseException as error:
            ended = outcome.failed(error, rank.index)
        if isinstance(ended, Failed):
            self._end(ended)
            return
        self.values[rank.index] = ended.value
        if self.clock.finish(rank):
            self._end(None)

    def returned(self, value: Any, rank: int) -> outcome.Returned | Failed:
        """Return the outcome of a rank that returned; the grader overrides this, whose ranks return bytes."""
        return outcome.returned(value, rank)

    def _end(self, failure: Failed | Deadlocked | None) -> None:
        if not self.over:
            self.over, self.failure = True, failure
            os.write(self._ring, b"!")

    def _where(self) -> Unfinished:
        rank = self.clock.current
        return Unfinished(rank.index, deadlock.frames_of(rank), self.printed)

    def outcome(self) -> Outcome:
        """Return how the simulation ended, once it is over."""
        if self.failure is not None:
            return replace(self.failure, printed=self.printed)
        seconds = max(rank.now for rank in self.clock.ranks)
        events = [tuple(event) for event in self.events]
        return Simulated(self.values, seconds, events, bytes(self.clock.transfers), self.printed)

    def close(self) -> None:
        """After a simulation that ended well: join its threads and undo its patches of this process."""
        for rank in self.clock.ranks:
            rank.thread.join()
        self.clock.random.close()
        os.close(self.bell)
        os.close(self._ring)


def _names(handles: Iterable[Any]) -> str:
    """Return the operations that were not waited for, equal ones counted: 3 isends to rank 2."""
    counts = Counter(tuple(handle.name.partition(" ")) for handle in handles)
    return ", ".join("".join(name) if n == 1 else f"{n} {name[0]}s{name[1]}{name[2]}" for name, n in counts.items())


def simulate(job: dict[str, Any], link: socket.socket) -> Outcome:
    """Run a simulation in this process and return how it ended."""
    os.environ["COURSE_RANK"] = "(simulated)"
    if not BASELINE.taken:
        _settle_on_one_core()
    if job["shared"] and not BASELINE.taken:
        BASELINE.take()
    seed(0)
    stdout, stderr = sys.stdout, sys.stderr
    try:
        world = World(job["ranks"], job["cluster"])
        current.set_rank(world)
        calls = [_own_copy(job["calls"][rank % len(job["calls"])]) for rank in range(job["ranks"])]
        world.clock.random = RandomNumbers(world.clock.ranks, lambda: world.clock.current)
        sys.stdout = sys.stderr = world
        world.run(calls, link)
    except BaseException as error:
        return outcome.failed(error, 0)
    finally:
        sys.stdout, sys.stderr = stdout, stderr
    ended = world.outcome()
    if isinstance(ended, Simulated) and BASELINE.taken:
        world.close()
        current.set_rank(None)
        ended.left = BASELINE.changed()
    return ended


def _settle_on_one_core() -> None:
    """Pin to one core, without preemption, with one malloc arena: one thread runs at a time, and switches are fast."""
    if hasattr(os, "sched_setscheduler"):
        os.sched_setaffinity(0, {random.choice(list(os.sched_getaffinity(0)))})
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    gc.freeze()
    gc.set_threshold(100_000)


def _own_copy(call: bytes) -> tuple[Any, tuple]:
    """Unpack a call with its own globals, closures and classes (cloudpickle caches classes, so clear its caches)."""
    import cloudpickle.cloudpickle as internals

    for tracker in ("_DYNAMIC_CLASS_TRACKER_BY_ID", "_DYNAMIC_CLASS_TRACKER_BY_CLASS"):
        getattr(internals, tracker).clear()
    return packing.unpack(call)
