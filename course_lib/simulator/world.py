"""The process in which a simulation runs: one thread a rank, exactly one at work, and a main thread that watches."""

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
from typing import Any

from course_lib.meter import Event
from course_lib.ranks import packing, wire, worker
from course_lib.simulator import Cluster, report
from course_lib.simulator.dist import SimulatedDist
from course_lib.simulator.engine import Engine
from course_lib.simulator.leftovers import Baseline
from course_lib.simulator.meeting import Meeting
from course_lib.simulator.runners import Rank

M_ARENA_MAX = -8  # glibc's number for it
CURRENT: World | None = None
"""The simulation that this process is, if it is one."""
BASELINE = Baseline()
"""How this process was before its first simulation, if it may have several."""
MOST_PRINTED = 100_000  # characters kept of what one rank prints


class World:
    """One simulation: its ranks, what they printed and returned, and how it ended."""

    def __init__(self, ranks: int, cluster: Cluster) -> None:
        self.cluster = cluster
        self.engine = Engine(ranks, cluster.link, cluster.nics_between if cluster.nodes else None)
        self.engine.on_deadlock = lambda: self._end(report.deadlock(self.engine.ranks))
        self.events: list[Event] = []
        self.values: list[Any] = [None] * ranks
        self._printed = [""] * ranks
        self._unkept = [0] * ranks
        self.outcome: dict[str, Any] | None = None
        """None while it runs; then empty, or how it failed."""
        self._meetings: dict[tuple, Meeting] = {}
        self.bell, self._ring = os.pipe()

    # While it runs

    def write(self, text: str) -> int:
        """Stand in for sys.stdout and sys.stderr: text belongs to the rank that holds the baton."""
        rank = self.engine.current.index
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

    def work(self, seconds: float | None, flops: float | None) -> None:
        """Move the clock of the rank that holds the baton."""
        rank = self.engine.current
        begin = rank.clock
        rank.acts()
        rank.clock += seconds if seconds is not None else flops / self.cluster.flops
        self.events.append(Event(rank.index, "work", begin, rank.clock, begin))

    def run(self, calls: list[tuple[Any, tuple]], link: socket.socket) -> None:
        """Run every rank to its end; answer the notebook when it asks where they are."""
        for rank, (fn, args) in zip(self.engine.ranks, calls, strict=True):
            rank.thread = threading.Thread(target=self._live, args=(rank, fn, args), daemon=True)
            rank.thread.start()
        self.engine.begin()
        while self.bell not in (ready := select.select([self.bell, link], [], [])[0]):
            if link in ready and wire.get(link)[0] == wire.WHERE:
                wire.put(link, wire.HERE, packing.pack(self._where()))

    def _live(self, rank: Rank, fn: Any, args: tuple) -> None:
        self.engine.take(rank)
        dist = SimulatedDist(self.engine, rank, self._meetings, self.events)
        try:
            value = fn(dist, *args)
            if rank.open_handles:
                names = _names(rank.open_handles)
                raise RuntimeError(f"returned without wait() on {names}: keep the handle and wait for it")
            answer = self.values[rank.index] = worker.give_back(value, rank.index)
        except BaseException as error:
            answer = worker.failure(error, rank.index)
        if "error" in answer:
            self._end(answer)
        elif self.engine.finish(rank):
            self._end({})

    def _end(self, outcome: dict[str, Any]) -> None:
        if self.outcome is None:
            self.outcome = outcome
            os.write(self._ring, b"!")

    def _where(self) -> dict[str, Any]:
        rank = self.engine.current
        return {"rank": rank.index, "frames": report.frames_of(rank), "printed": self.printed}

    def answer(self) -> dict[str, Any]:
        """Return what the notebook gets once the simulation is over."""
        if self.outcome:
            return self.outcome | {"printed": self.printed}
        return {
            "values": [value["value"] for value in self.values],
            "seconds": max(rank.clock for rank in self.engine.ranks),
            "events": [tuple(event) for event in self.events],
            "transfers": bytes(self.engine.transfers),
            "printed": self.printed,
        }


    def close(self) -> None:
        """After a simulation that ended well: take back what it has changed in this process."""
        for rank in self.engine.ranks:
            rank.thread.join()
        self.engine.take_back_random_numbers()
        os.close(self.bell)
        os.close(self._ring)


def _names(handles: Iterable[Any]) -> str:
    """Return the operations that were not waited for, equal ones counted: 3 isends to rank 2."""
    counts = Counter(tuple(handle.name.partition(" ")) for handle in handles)
    return ", ".join("".join(name) if n == 1 else f"{n} {name[0]}s{name[1]}{name[2]}" for name, n in counts.items())


def simulate(job: dict[str, Any], link: socket.socket) -> dict[str, Any]:
    """Run a simulation in this process and return what the notebook gets."""
    global CURRENT
    os.environ["COURSE_RANK"] = "(simulated)"
    if not BASELINE.taken:
        _settle_on_one_core()
    if job["shared"] and not BASELINE.taken:
        BASELINE.take()
    worker.seed(0)
    stdout, stderr = sys.stdout, sys.stderr
    try:
        CURRENT = World(job["ranks"], Cluster(**job["cluster"]))
        calls = [_own_copy(job["calls"][rank % len(job["calls"])]) for rank in range(job["ranks"])]
        CURRENT.engine.share_out_random_numbers()
        sys.stdout = sys.stderr = CURRENT
        CURRENT.run(calls, link)
    except BaseException as error:
        return worker.failure(error, 0)
    finally:
        sys.stdout, sys.stderr = stdout, stderr
    answer = CURRENT.answer()
    if "error" not in answer and BASELINE.taken:
        CURRENT.close()
        CURRENT = None
        answer["left"] = BASELINE.changed()
    return answer


def _settle_on_one_core() -> None:
    """One rank runs at a time: passing the baton is fastest within one core, one heap, and without preemption."""
    if hasattr(os, "sched_setscheduler"):
        os.sched_setaffinity(0, {random.choice(list(os.sched_getaffinity(0)))})
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    gc.freeze()
    gc.set_threshold(100_000)


def _own_copy(call: bytes) -> tuple[Any, tuple]:
    """Rebuild a call with globals, closures and classes that no other rank shares."""
    import cloudpickle.cloudpickle as internals

    for tracker in ("_DYNAMIC_CLASS_TRACKER_BY_ID", "_DYNAMIC_CLASS_TRACKER_BY_CLASS"):
        getattr(internals, tracker).clear()
    return packing.unpack(call)
