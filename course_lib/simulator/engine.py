"""The virtual clock: who runs next, when a message moves, and who waits for whom.

The cost model, all of it:

1. A transfer starts when both sides have posted it (rendezvous, as gloo does at every size) and the sender's out-port
   and the receiver's in-port are free. It lasts latency + bytes / bandwidth, and both ports are busy meanwhile.
2. A port serves transfers in the order in which they became ready (both sides posted): first come, first served.
   A transfer that waits for the port at its other end keeps its place. In and out are apart: links are full duplex.
3. A built-in collective is the messages of `course_lib.algorithms`, on the same ports. A round of a rank ends when all
   its messages have ended. Work of one rank on one group is in order.
4. `work` spends time of one rank and nothing else; Python itself costs no virtual time.

Invariants: exactly one rank runs at any moment; it has the lowest clock of all that could run (among equals: the one
that runs goes on, then the lowest rank). So postings happen in order of virtual time, and the same program makes the
same events every time. When nobody can run and someone has not returned, that is a deadlock.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from course_lib.algorithms import Round
from course_lib.meter import describe


class Posting:
    """One side of a point-to-point transfer; `end` is None until the other side has posted too."""

    __slots__ = ("kind", "rank", "peer", "tag", "group", "nbytes", "tensor", "time", "end", "waiter", "stash", "blocking")

    def __init__(self, kind, rank, peer, tag, group, nbytes, tensor, time, blocking=False) -> None:
        self.kind, self.rank, self.peer, self.tag, self.group = kind, rank, peer, tag, group
        self.nbytes, self.tensor, self.time, self.blocking = nbytes, tensor, time, blocking
        self.end = self.waiter = self.stash = None


class Runner:
    """Something with a clock that can wait: a rank, or one rank's part in a built-in collective."""

    def __init__(self, index: int, clock: float = 0.0) -> None:
        self.index, self.clock = index, clock
        self.missing = 0
        """How many of the things it waits for have no end yet."""


class Rank(Runner):
    """A rank: a thread that runs the learner's function while it holds the baton."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.gate = threading.Lock()
        self.gate.acquire()
        self.thread: threading.Thread | None = None
        self.waits_for: list[Any] = []
        self.finished = False
        self.state: torch.Tensor | None = None
        """The state of torch's generator when this rank last gave the baton away."""
        self.python: random.Random | None = None
        self.legacy: np.random.RandomState | None = None


class Agent(Runner):
    """One rank's part in one built-in collective: posts a round of messages, waits for them, posts the next."""

    def __init__(self, index: int, posted: float, name: str, rounds: Iterator[Round], to_global: list[int], key: Any):
        super().__init__(index, posted)
        self.posted, self.name, self.rounds, self.to_global, self.key = posted, name, rounds, to_global, key
        self.queue: tuple = ()
        self.begin: float | None = None
        self.end: float | None = None
        self.waiter: Runner | None = None
        self.postings: list[Posting] = []
        self.meeting: Any = None


class Engine:
    """Moves messages between ranks on a virtual clock and passes the baton."""

    def __init__(self, ranks: int, link: Callable[[int, int], tuple[float, float]]) -> None:
        self.ranks = [Rank(index) for index in range(ranks)]
        self.link = link
        self.current = self.ranks[0]
        self.out_free = [0.0] * ranks
        self.in_free = [0.0] * ranks
        self.transfers: list[tuple] = []
        """(source, destination, when each posted, start, end, bytes) of each point-to-point transfer of the learner's."""
        self._ready: list[tuple[float, int, int, Runner]] = []
        self._order = 0
        self._sends: dict[tuple, deque[Posting]] = {}
        self._recvs: dict[tuple, deque[Posting]] = {}
        self._from_any: dict[int, list[Posting]] = {}
        self._queues: dict[tuple, deque[Agent]] = {}
        self.on_deadlock: Callable[[], None] = lambda: None

    # Turns

    def _push(self, runner: Runner) -> None:
        self._order += 1
        heapq.heappush(self._ready, (runner.clock, runner.index, self._order, runner))

    def turn(self, rank: Rank) -> None:
        """Let everyone with a lower clock go first."""
        if self._ready and self._ready[0][0] < rank.clock:
            self._push(rank)
            self._switch(rank)

    def _next(self) -> Rank | None:
        """Return the rank that runs next, after the parts of collectives that come before it; None if nobody can."""
        while self._ready:
            runner = heapq.heappop(self._ready)[3]
            if isinstance(runner, Rank):
                return runner
            self._step(runner)
        return None

    def _switch(self, rank: Rank) -> None:
        """Give the baton away; return when `rank` has it again."""
        following = self._next()
        if following is rank:
            return
        rank.state = torch.default_generator.get_state()
        if following is None:
            self.on_deadlock()
        else:
            self._hand_to(following)
        self.take(rank)

    def take(self, rank: Rank) -> None:
        """Block until `rank` gets the baton."""
        rank.gate.acquire()
        torch.default_generator.set_state(rank.state)

    def _hand_to(self, rank: Rank) -> None:
        self.current = rank
        rank.gate.release()

    def begin(self) -> None:
        """Hand the baton to rank 0; all others are ready at time 0."""
        for rank in self.ranks[1:]:
            self._push(rank)
        self._hand_to(self.ranks[0])

    def finish(self, rank: Rank) -> bool:
        """Take `rank` out for good; return whether it was the last."""
        rank.finished = True
        following = self._next()
        if following is not None:
            self._hand_to(following)
        elif all(other.finished for other in self.ranks):
            return True
        else:
            self.on_deadlock()
        return False

    # Waiting

    def wait(self, rank: Rank, things: list[Any]) -> None:
        """Block a rank until all postings and agents in `things` have ended; its clock is then at the last end."""
        for thing in things:
            if thing.end is None:
                thing.waiter = rank
                rank.missing += 1
            elif thing.end > rank.clock:
                rank.clock = thing.end
        if rank.missing:
            rank.waits_for = things
            self._switch(rank)
            rank.waits_for = []

    def notify(self, thing: Any) -> None:
        """Tell whoever waits for `thing` that it has an end now."""
        waiter, thing.waiter = thing.waiter, None
        if waiter is not None:
            waiter.missing -= 1
            if thing.end > waiter.clock:
                waiter.clock = thing.end
            if not waiter.missing:
                self._push(waiter)

    def poll(self, rank: Rank, thing: Any) -> bool:
        """Return whether `thing` has ended by now; asking lets time pass up to the next thing that happens."""
        self.turn(rank)
        if thing.end is not None and thing.end <= rank.clock:
            return True
        if self._ready:
            rank.clock = max(rank.clock, self._ready[0][0])
            self._push(rank)
            self._switch(rank)
        elif thing.end is not None:
            rank.clock = thing.end
        else:
            self.wait(rank, [thing])  # nobody else can run: this reports the deadlock
        return thing.end is not None and thing.end <= rank.clock

    # Point-to-point

    def post(self, posting: Posting) -> Posting:
        """Post one side of a transfer; where the other side is there, the transfer gets its start and end."""
        if posting.kind == "send":
            key = (posting.rank, posting.peer, posting.tag, posting.group)
            other = self._take(self._recvs, key) or self._take_any(posting)
            mine = self._sends
        elif posting.peer is None:
            other, mine = self._earliest_for(posting), None
            if other is None:
                self._from_any.setdefault(posting.rank, []).append(posting)
        else:
            key = (posting.peer, posting.rank, posting.tag, posting.group)
            other, mine = self._take(self._sends, key), self._recvs
        if other is not None:
            send, recv = (posting, other) if posting.kind == "send" else (other, posting)
            self._transfer(send, recv)
        elif mine is not None:
            if key not in mine:
                mine[key] = deque()
            mine[key].append(posting)
        return posting

    @staticmethod
    def _take(queues: dict[tuple, deque[Posting]], key: tuple) -> Posting | None:
        queue = queues.get(key)
        return queue.popleft() if queue else None

    def _take_any(self, send: Posting) -> Posting | None:
        waiting = self._from_any.get(send.peer, ())
        for recv in waiting:
            if (recv.tag, recv.group) == (send.tag, send.group):
                waiting.remove(recv)
                return recv
        return None

    def _earliest_for(self, recv: Posting) -> Posting | None:
        fitting = [
            queue for (_, dst, tag, group), queue in self._sends.items()
            if queue and (dst, tag, group) == (recv.rank, recv.tag, recv.group)
        ]  # fmt: skip
        return min(fitting, key=lambda queue: (queue[0].time, queue[0].rank)).popleft() if fitting else None

    def _transfer(self, send: Posting, recv: Posting) -> None:
        src, dst = send.rank, recv.rank
        now = send.time if send.time > recv.time else recv.time
        brought = send.tensor
        if brought is not None:
            into = recv.tensor
            if brought.dtype != into.dtype or brought.numel() != into.numel():
                raise _misfit(send, recv)
            if not recv.blocking:
                recv.stash = brought.detach().clone()
            elif into.shape == brought.shape:
                into.detach().copy_(brought.detach())
            else:
                into.detach().view(-1).copy_(brought.detach().view(-1))
        latency, bandwidth = self.link(src, dst)
        start = max(now, self.out_free[src], self.in_free[dst])
        end = start + (latency + send.nbytes / bandwidth)
        self.out_free[src] = self.in_free[dst] = end
        send.end = recv.end = end
        recv.peer = src
        if brought is not None:
            self.transfers.append((src, dst, send.time, recv.time, start, end, send.nbytes))
        self.notify(send)
        self.notify(recv)

    # Built-in collectives

    def start(self, agent: Agent, queue: tuple) -> None:
        """Start one rank's part in a collective, after its earlier ones on the same group."""
        waiting = self._queues.setdefault(queue, deque())
        waiting.append(agent)
        agent.queue = queue
        if len(waiting) == 1:
            self._push(agent)

    def _step(self, agent: Agent) -> None:
        if agent.begin is None:
            agent.begin = agent.clock
        for messages in agent.rounds:
            agent.postings = [
                self.post(Posting(kind, agent.index, agent.to_global[peer], agent.key, None, nbytes, None, agent.clock))
                for kind, peer, nbytes in messages
            ]
            for posting in agent.postings:
                if posting.end is None:
                    posting.waiter = agent
                    agent.missing += 1
                elif posting.end > agent.clock:
                    agent.clock = posting.end
            if agent.missing:
                return
            if self._ready and self._ready[0][0] < agent.clock:
                self._push(agent)
                return
        agent.end = agent.clock
        self.notify(agent)
        waiting = self._queues[agent.queue]
        waiting.popleft()
        if waiting:
            waiting[0].clock = max(waiting[0].clock, agent.end)
            self._push(waiting[0])


def _misfit(send: Posting, recv: Posting) -> ValueError:
    return ValueError(
        f"rank {send.rank} sends {describe(send.tensor)}, but rank {recv.rank} receives into {describe(recv.tensor)}: "
        "both sides need the same dtype and number of elements"
    )


# What a process has of its own and threads share: random numbers. torch's one generator is saved and restored as the
# baton passes; the functions of `random` and `numpy.random` ask, at each call, the generator of the rank that has it.


def share_out_random_numbers(engine: Engine) -> None:
    """Give each rank of this process's simulation its own `random`, `numpy.random` and torch generator, seeded."""
    first = torch.default_generator.get_state()
    for rank in engine.ranks:
        rank.state = first
        rank.python, rank.legacy = random.Random(rank.index), np.random.RandomState(rank.index)
    _forward(random, random._inst, lambda: engine.current.python)
    _forward(np.random, np.random.mtrand._rand, lambda: engine.current.legacy)


def _forward(module: Any, owner: Any, generator: Callable[[], Any]) -> None:
    for name, value in list(vars(module).items()):
        if getattr(value, "__self__", None) is owner:
            setattr(module, name, _ask(generator, name))


def _ask(generator: Callable[[], Any], name: str) -> Callable:
    def draw(*args: Any, **kwargs: Any) -> Any:
        return getattr(generator(), name)(*args, **kwargs)

    return draw
