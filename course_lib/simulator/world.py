"""The process in which a simulation runs: one thread a rank, exactly one of them at work, and a main thread that watches."""

from __future__ import annotations

import gc
import os
import random
import select
import socket
import sys
import threading
import traceback
from typing import Any

import numpy as np

from course_lib.meter import Event
from course_lib.ranks import packing, wire, worker
from course_lib.simulator import Cluster
from course_lib.simulator.dist import SimulatedDist
from course_lib.simulator.engine import Agent, Engine, Posting, Rank, share_out_random_numbers
from course_lib.simulator.meeting import Meeting

CURRENT: World | None = None
"""The simulation that this process is, if it is one."""
MOST_PRINTED = 100_000  # characters kept of what one rank prints


class World:
    """One simulation: its ranks, what they printed and returned, and how it ended."""

    def __init__(self, ranks: int, cluster: Cluster) -> None:
        self.cluster = cluster
        self.engine = Engine(ranks, cluster.link)
        self.engine.on_deadlock = lambda: self._end(self._deadlock())
        self.events: list[Event] = []
        self.values: list[Any] = [None] * ranks
        self.printed = [""] * ranks
        self.outcome: dict[str, Any] | None = None
        self._meetings: dict[tuple, Meeting] = {}
        self._bell, self._ring = os.pipe()

    # While it runs

    def write(self, text: str) -> int:
        """Stand in for sys.stdout: text belongs to the rank that holds the baton."""
        rank = self.engine.current.index
        self.printed[rank] += text[: max(0, MOST_PRINTED - len(self.printed[rank]))]
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def work(self, seconds: float | None, flops: float | None) -> None:
        """Move the clock of the rank that holds the baton."""
        rank = self.engine.current
        begin = rank.clock
        rank.clock += seconds if seconds is not None else flops / self.cluster.flops
        self.events.append(Event(rank.index, "work", begin, rank.clock, begin))

    def run(self, calls: list[tuple[Any, tuple]], link: socket.socket) -> None:
        """Run every rank to its end; answer the notebook when it asks where they are."""
        share_out_random_numbers(self.engine)
        for rank, (fn, args) in zip(self.engine.ranks, calls, strict=True):
            rank.thread = threading.Thread(target=self._live, args=(rank, fn, args), daemon=True)
            rank.thread.start()
        self.engine.begin()
        while self._bell not in (ready := select.select([self._bell, link], [], [])[0]):
            if link in ready and wire.get(link)[0] == wire.WHERE:
                wire.put(link, wire.HERE, packing.pack(self._where()))

    def _live(self, rank: Rank, fn: Any, args: tuple) -> None:
        self.engine.take(rank)
        dist = SimulatedDist(self.engine, rank, self._meetings, self.events)
        try:
            value = fn(dist, *args)
            if dist._open:
                names = ", ".join(handle.name for handle in dist._open.values())
                raise RuntimeError(f"returned without wait() on {names}: keep the handle and wait for it")
            self.values[rank.index] = worker.give_back(value, rank.index)
            failed = self.values[rank.index] if "error" in self.values[rank.index] else None
        except BaseException as error:
            failed = worker.failure(error, rank.index)
        if failed is not None:
            self._end(failed)
        elif self.engine.finish(rank):
            self._end({})

    def _end(self, outcome: dict[str, Any]) -> None:
        self.outcome = outcome
        os.write(self._ring, b"!")

    # What it says

    def _frames(self, rank: Rank) -> list[tuple[str, int, str]]:
        """Return the learner's frames of a rank's thread, outermost first."""
        frame = sys._current_frames().get(rank.thread.ident)
        stack = traceback.extract_stack(frame) if frame else []
        return [(f.filename, f.lineno, f.name) for f in stack if not packing.is_library(f.filename)]

    def _where(self) -> dict[str, Any]:
        rank = self.engine.current
        return {"rank": rank.index, "frames": self._frames(rank), "printed": self.printed}

    def _deadlock(self) -> dict[str, Any]:
        """Return each waiting rank, what it waits for, and the cycle, for the notebook to show."""
        waiting, edges = [], {}
        for rank in self.engine.ranks:
            if rank.finished:
                continue
            reasons, edges[rank.index] = _reasons(rank.waits_for)
            waiting.append((rank.index, reasons, self._frames(rank)))
        returned = [rank.index for rank in self.engine.ranks if rank.finished]
        return {"error": "Deadlock", "waiting": waiting, "cycle": _cycle(edges), "returned": returned}


def _reasons(things: list[Any]) -> tuple[str, list[int]]:
    """Return in words what a rank waits for, and for which ranks."""
    words, ranks = [], []
    for thing in things:
        if thing.end is not None:
            continue
        if isinstance(thing, Posting) and thing.kind == "send":
            words.append(f"to send {thing.nbytes:,} bytes to rank {thing.peer}")
            ranks.append(thing.peer)
        elif isinstance(thing, Posting):
            words.append("to receive from " + ("any rank" if thing.peer is None else f"rank {thing.peer}"))
            ranks += [] if thing.peer is None else [thing.peer]
        else:
            first = thing
            absent = first.meeting.absent()
            if isinstance(thing, Agent) and not absent:  # all are here, but an earlier collective of theirs is not over
                words.append(f"in {thing.name}")
            else:
                words.append(f"in {thing.name} for {_ranks(absent)}")
                ranks += absent
    return " and ".join(words), ranks


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def _cycle(edges: dict[int, list[int]]) -> list[int]:
    """Return ranks that wait for each other in a circle, the first one again at the end; empty if there is none."""
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


def simulate(job: dict[str, Any], link: socket.socket) -> dict[str, Any]:
    """Run a simulation in this process and return what the notebook gets."""
    global CURRENT
    os.environ["COURSE_RANK"] = "(simulated)"
    _settle_on_one_core()
    worker.seed(0)
    try:
        world = World(job["ranks"], Cluster(**job["cluster"]))
        calls = [_own_copy(job["calls"][rank % len(job["calls"])]) for rank in range(job["ranks"])]
    except BaseException as error:
        return worker.failure(error, 0)
    CURRENT = world
    out, sys.stdout = sys.stdout, world
    try:
        world.run(calls, link)
    finally:
        sys.stdout = out
    if world.outcome:
        return world.outcome | {"printed": world.printed}
    return {
        "values": [value["value"] for value in world.values],
        "seconds": max(rank.clock for rank in world.engine.ranks),
        "events": [tuple(event) for event in world.events],
        "transfers": np.array(world.engine.transfers, dtype=np.float64).reshape(-1, 7).tobytes(),
        "printed": world.printed,
    }


def _settle_on_one_core() -> None:
    """One rank runs at a time, so passing the baton is fastest within one core and without preemption on wake-up."""
    if hasattr(os, "sched_setscheduler"):
        os.sched_setaffinity(0, {random.choice(list(os.sched_getaffinity(0)))})
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    gc.freeze()
    gc.set_threshold(100_000)


def _own_copy(call: bytes) -> tuple[Any, tuple]:
    """Rebuild a call with globals, closures and classes that no other rank shares."""
    import cloudpickle.cloudpickle as internals

    for tracker in ("_DYNAMIC_CLASS_TRACKER_BY_ID", "_DYNAMIC_CLASS_TRACKER_BY_CLASS"):
        getattr(internals, tracker).clear()
    return packing.unpack(call)
