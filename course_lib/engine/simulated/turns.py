"""The scheduler of simulated ranks: one thread each, of which exactly one runs, the one with the lowest virtual time.

Why not greenlets, which switch faster? torch keeps grad mode, autocast and the like per thread, so ranks that block
inside `no_grad` would change them for each other. Why not processes? Each send would be a round trip between processes,
and each rank would cost 40 MB. Why not asyncio or generators? A learner's function is plain blocking code. Why a lock
per rank and not one Condition? A Condition that all wait on was six times slower: 512 threads wake to let one run.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from course_lib.algorithms import Round


class Runner:
    """Something with its own virtual time that can wait: a rank, or one rank's part in a built-in collective."""

    def __init__(self, index: int, now: float = 0.0) -> None:
        self.index, self.now = index, now
        self.missing = 0
        """Number of operations it waits for that have no end yet."""


class Rank(Runner):
    """A rank: a thread that runs the learner's function when it is its turn."""

    def __init__(self, index: int, clock: Any) -> None:
        super().__init__(index)
        self.clock = clock
        self.open_handles: dict[Any, None] = {}
        """Handles it has not waited for, in order."""
        self.gate = threading.Lock()
        self.gate.acquire()
        self.thread: threading.Thread | None = None
        self.waits_for: Any = None
        self.finished = False
        self.state: torch.Tensor | None = None
        """The state of torch's generator at the end of this rank's last turn."""
        self.python: random.Random | None = None
        self.legacy: np.random.RandomState | None = None


class Agent(Runner):
    """One rank's part in one built-in collective: posts a round of messages, waits for them, posts the next."""

    def __init__(
        self, index: int, posted: float, name: str, rounds: Iterator[Round], ranks: tuple[int, ...], meeting: Any
    ) -> None:
        super().__init__(index, posted)
        self.posted, self.name, self.rounds = posted, name, rounds
        self.ranks, self.meeting = ranks, meeting
        self.queue: tuple = ()
        self.begin: float | None = None
        self.end: float | None = None
        self.waiter: Runner | None = None


class Turns:
    """A heap of ranks and agents by virtual time, and a lock per rank to wake it."""

    def __init__(self, ranks: int) -> None:
        self.ranks = [Rank(index, self) for index in range(ranks)]
        self.current = self.ranks[0]
        self.ready: list[tuple[float, int, int, Runner]] = []
        """The heap of all that can run."""
        self.on_deadlock: Callable[[], None] = lambda: None
        self.stopped = False
        """Set when the simulation is aborted: a thread that is woken then exits."""
        self.random: Any = None
        """RandomNumbers, switched with the ranks, if this process runs nothing but this simulation."""
        self._order = 0

    def step(self, agent: Agent) -> None:
        """Let an agent act until it has to wait, or somebody has an earlier time."""
        raise NotImplementedError

    def push(self, runner: Runner) -> None:
        """Mark `runner` as ready to run at its time."""
        self._order += 1
        heapq.heappush(self.ready, (runner.now, runner.index, self._order, runner))

    def turn(self, rank: Rank) -> None:
        """Yield to everyone whose time is earlier."""
        if self.before(rank.now):
            self.push(rank)
            self._switch(rank)

    def before(self, now: float) -> bool:
        """Return whether someone can run at an earlier time."""
        return bool(self.ready) and self.ready[0][0] < now

    def _next(self) -> Rank | None:
        """Run the agents that come first and return the next rank; None if nobody can run."""
        while self.ready:
            runner = heapq.heappop(self.ready)[3]
            if isinstance(runner, Rank):
                return runner
            self.step(runner)
        return None

    def _switch(self, rank: Rank) -> None:
        """Wake the next rank and block until it is this rank's turn again."""
        following = self._next()
        if following is rank:
            return
        if self.random:
            self.random.save(rank)
        if following is None:
            self.on_deadlock()
        else:
            self._hand_to(following)
        self.take(rank)

    def take(self, rank: Rank) -> None:
        """Block until it is `rank`'s turn."""
        rank.gate.acquire()
        if self.stopped:
            raise SystemExit
        if self.random:
            self.random.load(rank)

    def _hand_to(self, rank: Rank) -> None:
        self.current = rank
        rank.gate.release()

    def begin(self) -> None:
        """Start rank 0; all others are ready at time 0."""
        for rank in self.ranks[1:]:
            self.push(rank)
        self._hand_to(self.ranks[0])

    def finish(self, rank: Rank) -> bool:
        """Mark `rank` as finished and wake the next one; return whether it was the last."""
        rank.finished = True
        if self.random:
            self.random.save(rank)
        following = self._next()
        if following is not None:
            self._hand_to(following)
        elif all(other.finished for other in self.ranks):
            return True
        else:
            self.on_deadlock()
        return False

    def wait(self, rank: Rank, thing: Any) -> None:
        """Block a rank until a posting or an agent has ended; its time is then not before that end."""
        if thing.end is None:
            thing.waiter = rank
            rank.missing = 1
            rank.waits_for = thing
            self._switch(rank)
            rank.waits_for = None
        elif thing.end > rank.now:
            rank.now = thing.end

    def notify(self, thing: Any) -> None:
        """Wake whoever waits for `thing`, which has an end now."""
        waiter, thing.waiter = thing.waiter, None
        waiter.missing -= 1
        if thing.end > waiter.now:
            waiter.now = thing.end
        if not waiter.missing:
            self.push(waiter)
