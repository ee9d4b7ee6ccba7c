"""The virtual clock: who runs next, when a message moves, and who waits for whom.

The cost model, all of it:

1. A transfer starts when both sides have posted it (rendezvous, as gloo does at every size) and the sender's out-port
   and the receiver's in-port are free. It lasts latency + bytes / bandwidth, and both ports are busy meanwhile.
2. A port serves transfers in the order in which they became ready (both sides posted): first come, first served.
   A transfer that waits for the port at its other end keeps its place. In and out are apart: links are full duplex.
3. A built-in collective is the messages of `course_lib.algorithms`, on the same ports. A round of a rank ends when all
   its messages have ended. Work of one rank on one group is in order.
4. `work` spends time of one rank and nothing else; Python itself costs no virtual time.
5. On a cluster of nodes a message from one node to another also needs an out-port of the sender's node and an in-port
   of the receiver's (their NICs), and moves at the NIC's latency and bandwidth. GPUs that share a NIC take turns on it
   by rule 2: a message has the whole port while it lasts, so k GPUs that send at once each get a k-th of it on average.

Invariants: exactly one rank runs at any moment; it has the lowest clock of all that could run (among equals: the one
that runs goes on, then the lowest rank). So postings happen in order of virtual time, and the same program makes the
same events every time. When nobody can run and someone has not returned, that is a deadlock; who only asks
`is_completed`, again and again, cannot run for ever on that.
"""

from __future__ import annotations

import heapq
import math
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from course_lib.meter import describe
from course_lib.simulator.posting import Channel, Posting, copy, snapshot
from course_lib.simulator.randomness import RandomNumbers
from course_lib.simulator.report import frames_of
from course_lib.simulator.runners import Agent, Rank, Runner

NO_GROUP = -1  # in the place of a group's number: messages of a built-in collective, which no receive of a rank takes
PATIENCE = 1_000  # answers of no: at one time, before time passes; while nobody can run, before that is a deadlock
_packed = struct.Struct("7d").pack


class Engine:
    """Moves messages between ranks on a virtual clock and passes the baton."""

    def __init__(
        self,
        ranks: int,
        link: Callable[[int, int], tuple[float, float]],
        nics: Callable[[int, int], tuple[int, int] | None] | None = None,
    ) -> None:
        self.ranks = [Rank(index, self) for index in range(ranks)]
        self.link, self.nics = link, nics
        self.nic_out_free: dict[int, float] = {}
        self.nic_in_free: dict[int, float] = {}
        self.current = self.ranks[0]
        self.out_free = [0.0] * ranks
        self.in_free = [0.0] * ranks
        self.transfers = bytearray()
        """Source, destination, when each posted, start, end and bytes of each message,
        as doubles, one message after another."""
        self.on_deadlock: Callable[[], None] = lambda: None
        self.places = {rank: rank for rank in range(ranks)}
        """Each rank's place in the world, for all its groups to share."""
        self.groups = 0
        """How many groups have been made beside the world."""
        self.stopped = False
        """Set when the simulation is given up: a rank that then gets the baton ends its thread."""
        self._random: RandomNumbers | None = None
        self.ready: list[tuple[float, int, int, Runner]] = []
        """A heap of all that could run now."""
        self._order = 0
        self._channels: dict[tuple, Channel] = {}
        self._asking: dict[Rank, None] = {}
        """The ranks that ask whether something has ended and have let go of the baton, in the order of their asking."""
        self._any = False
        """Whether some rank has ever received from anyone."""
        self._queues: dict[tuple, deque[Agent]] = {}

    # Turns

    def _push(self, runner: Runner, at: float | None = None) -> None:
        """Let `runner` go on at its clock, or at a later time; what was pushed for it before counts no longer."""
        self._order = runner.entry = self._order + 1
        heapq.heappush(self.ready, (runner.clock if at is None else at, runner.index, self._order, runner))

    def turn(self, rank: Rank) -> None:
        """Let everyone with a lower clock go first."""
        if self._before(rank.clock):
            self._push(rank)
            self._switch(rank)

    def _before(self, clock: float) -> bool:
        """Return whether someone can run at an earlier time."""
        ready = self.ready
        while ready and ready[0][2] != ready[0][3].entry:
            heapq.heappop(ready)
        return bool(ready) and ready[0][0] < clock

    def _next(self) -> Rank | None:
        """Return the rank that runs next, after the parts of collectives that come before it; None if nobody can."""
        while self.ready:
            at, _, entry, runner = heapq.heappop(self.ready)
            if entry != runner.entry:
                continue
            if self._asking and runner in self._asking:
                del self._asking[runner]
                runner.clock = at
            if isinstance(runner, Rank):
                return runner
            self._step(runner)
        for rank in self._asking:  # nobody else can run: perhaps it does something else after so many answers of no
            if rank.vain < PATIENCE:
                del self._asking[rank]
                rank.vain += 1
                rank.clock = max(other.clock for other in self.ranks)  # what they have done is past
                return rank
        return None

    def _switch(self, rank: Rank) -> None:
        """Give the baton away; return when `rank` has it again."""
        following = self._next()
        if following is rank:
            return
        if self._random:
            self._random.save(rank)
        if following is None:
            self.on_deadlock()
        else:
            self._hand_to(following)
        self.take(rank)

    def take(self, rank: Rank) -> None:
        """Block until `rank` gets the baton."""
        rank.gate.acquire()
        if self.stopped:
            raise SystemExit
        if self._random:
            self._random.load(rank)

    def _hand_to(self, rank: Rank) -> None:
        self.current = rank
        rank.gate.release()

    def share_out_random_numbers(self) -> None:
        """Give each rank random numbers of its own; for a process that does nothing but this simulation."""
        self._random = RandomNumbers(self.ranks, lambda: self.current)

    def take_back_random_numbers(self) -> None:
        """Let `random` and `numpy.random` be what they were before."""
        self._random.close()

    def begin(self) -> None:
        """Hand the baton to rank 0; all others are ready at time 0."""
        for rank in self.ranks[1:]:
            self._push(rank)
        self._hand_to(self.ranks[0])

    def finish(self, rank: Rank) -> bool:
        """Take `rank` out for good; return whether it was the last."""
        rank.finished = True
        if self._random:
            self._random.save(rank)
        following = self._next()
        if following is not None:
            self._hand_to(following)
        elif all(other.finished for other in self.ranks):
            return True
        else:
            self.on_deadlock()
        return False

    # Waiting

    def wait(self, rank: Rank, thing: Any) -> None:
        """Block a rank until a posting or an agent has ended; its clock is then not before that end."""
        if rank.asked:
            rank.acts()
        if thing.end is None:
            thing.waiter = rank
            rank.missing = 1
            rank.waits_for = thing
            self._switch(rank)
            rank.waits_for = None
        elif thing.end > rank.clock:
            rank.clock = thing.end

    def notify(self, thing: Any) -> None:
        """Tell the one that waits for `thing` that it has an end now."""
        waiter, thing.waiter = thing.waiter, None
        waiter.missing -= 1
        if thing.end > waiter.clock:
            waiter.clock = thing.end
        if not waiter.missing:
            self._push(waiter)

    def poll(self, rank: Rank, thing: Any) -> bool:
        """Return whether `thing` has ended by now.

        Who asks again, with nothing done in between, lets time pass until one of its own operations ends: before that
        no answer to it can be another.
        """
        self.turn(rank)
        if thing.end is not None and thing.end <= rank.clock:
            return True
        rank.noes = rank.noes + 1 if rank.clock == rank.noes_at else 1
        rank.noes_at = rank.clock
        if thing not in rank.asked and rank.noes < PATIENCE:  # what takes no time must not keep others waiting for ever
            rank.asked.add(thing)
            return False
        rank.waits_for, rank.alarm = thing, math.inf
        self._asking[rank] = None
        for handle in rank.open_handles:
            if handle.end is not None and handle.end > rank.clock:
                self._wake(rank, handle.end)
        self._switch(rank)
        rank.waits_for = None
        return thing.end is not None and thing.end <= rank.clock

    def _wake(self, runner: Runner, at: float) -> None:
        """One of the operations of `runner` ends at this time: if it is asking about such things, wake it then."""
        if runner in self._asking and at < runner.alarm:
            runner.alarm = at
            self._push(runner, at)

    # Messages

    def channel(self, src: int | None, dst: int, tag: int, group: int) -> Channel:
        """Return the channel from one rank to another; from anyone, if `src` is None."""
        key = (src, dst, tag, group)
        if key not in self._channels:
            self._channels[key] = self._new_channel(*key)
            self._any |= src is None
        return self._channels[key]

    def _new_channel(self, src: int | None, dst: int, tag: int, group: int) -> Channel:
        if src is None:
            return Channel(src, dst, tag, group)
        return Channel(src, dst, tag, group, *self.link(src, dst), self.nics(src, dst) if self.nics else None)

    def post(self, posting: Posting) -> None:
        """Post one side of a transfer; where the other side is there, the transfer gets its start and end."""
        channel = posting.channel
        waiting = channel.waiting
        sends = posting.kind == "send"
        if waiting and waiting[0].kind != posting.kind:
            other = waiting.pop(0)
        else:
            other = self._anyone(channel, sends) if self._any else None
        if other is None:
            waiting.append(posting)
        elif sends:
            self._transfer(posting, other)
        else:
            self._transfer(other, posting)

    def _anyone(self, channel: Channel, sends: bool) -> Posting | None:
        """Return the other side of a message where the receiver takes it from anyone, if it is there."""
        to = (channel.dst, channel.tag, channel.group)
        if sends:
            waiting = self._channels[None, *to].waiting if (None, *to) in self._channels else []
        elif channel.src is None:
            sending = [
                other.waiting for (src, *its), other in self._channels.items()
                if src is not None and tuple(its) == to and other.waiting and other.waiting[0].kind == "send"
            ]  # fmt: skip
            waiting = min(sending, key=lambda waiting: (waiting[0].time, waiting[0].channel.src), default=[])
        else:
            waiting = []
        return waiting.pop(0) if waiting else None

    def _transfer(self, send: Posting, recv: Posting) -> None:
        channel, nbytes = send.channel, send.nbytes
        src, dst, nics = channel.src, channel.dst, channel.nics
        if send.tensor is not None:
            if nbytes != recv.nbytes or send.tensor.dtype is not recv.tensor.dtype:
                raise self._misfit(send, recv)
            _deliver(send, recv)
        start = max(send.time, recv.time, self.out_free[src], self.in_free[dst])
        if nics is not None:
            start = max(start, self.nic_out_free.get(nics[0], 0.0), self.nic_in_free.get(nics[1], 0.0))
        end = start + (channel.latency + nbytes / channel.bandwidth)
        self.out_free[src] = self.in_free[dst] = send.end = recv.end = end
        if nics is not None:
            self.nic_out_free[nics[0]] = self.nic_in_free[nics[1]] = end
        recv.channel = channel
        if send.tensor is not None:
            self.transfers += _packed(src, dst, send.time, recv.time, start, end, nbytes)
        if send.waiter is not None:
            self.notify(send)
        if recv.waiter is not None:
            self.notify(recv)
        if self._asking:
            self._wake(send.rank, end)
            self._wake(recv.rank, end)

    def _misfit(self, send: Posting, recv: Posting) -> ValueError:
        """Return the refusal of a message; it has the line at which the side that came first waits, if it waits."""
        error = ValueError(
            f"rank {send.channel.src} sends {describe(send.tensor)}, but rank {send.channel.dst} receives into "
            f"{describe(recv.tensor)}: both sides need the same dtype and number of elements"
        )
        first = send if self.current is recv.rank else recv
        if first.blocking and first.rank.waits_for is first:
            what = "waits to send" if first is send else "waits to receive"
            error.other = (first.rank.index, what, frames_of(first.rank))
        return error

    # Built-in collectives

    def start(self, agent: Agent, queue: tuple) -> None:
        """Start one rank's part in a collective, after its earlier ones on the same group."""
        waiting = self._queues.setdefault(queue, deque())
        waiting.append(agent)
        agent.queue = queue
        if len(waiting) == 1:
            self._push(agent)

    def _step(self, agent: Agent) -> None:
        """Let an agent post rounds until it has to wait or others come before it."""
        channels = agent.meeting.channels
        if agent.begin is None:
            agent.begin = agent.clock
        for messages in agent.rounds:
            now = agent.clock
            for kind, peer, nbytes in messages:
                there = agent.ranks[peer]
                way = (agent.index, there) if kind == "send" else (there, agent.index)
                if way not in channels:
                    channels[way] = self._new_channel(*way, 0, NO_GROUP)
                posting = Posting(agent, kind, channels[way], nbytes, now)
                self.post(posting)
                if posting.end is None:
                    posting.waiter = agent
                    agent.missing += 1
                elif posting.end > agent.clock:
                    agent.clock = posting.end
            if agent.missing:
                return
            if self._before(agent.clock):
                self._push(agent)
                return
        agent.end = agent.clock
        if agent.waiter is not None:
            self.notify(agent)
        self._wake(self.ranks[agent.index], agent.end)
        waiting = self._queues[agent.queue]
        waiting.popleft()
        if waiting:
            waiting[0].clock = max(waiting[0].clock, agent.end)
            self._push(waiting[0])


def _deliver(send: Posting, recv: Posting) -> None:
    """Bring the bytes over: into the buffer of a receiver that is blocked, or to where its wait() will find them."""
    if recv.blocking:
        copy(recv.tensor, send.tensor if send.blocking else send.before)
    else:
        recv.data = snapshot(send.tensor) if send.blocking else send.before
