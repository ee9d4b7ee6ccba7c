"""The virtual clock: when each message moves, and what a built-in collective costs. Scheduling of ranks: turns.py.

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
6. On a cluster whose switches add (`in_network`), an all-reduce, all-gather or reduce-scatter of ranks at one switch is
   one transfer of all of them: it starts when the last has come and all their ports are free, the sum streams back
   while the addends stream in, and each port is busy for latency + its own bytes / bandwidth.

Invariants: exactly one rank runs at any moment; it has the lowest clock of all that could run (among equals: the one
that runs goes on, then the lowest rank). So postings happen in order of virtual time, and the same program makes the
same events every time. When nobody can run and someone has not returned, that is a deadlock.

Why not SimPy, or another discrete-event library? Their processes are generators, which `yield` where they wait; a
learner's function is plain blocking code that must also run on gloo unchanged. Why not fair sharing of a link, as
fluid models have? Rule 2 moves whole messages, so each time can be checked by hand with a pencil.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable

from course_lib.algorithms import SWITCH, Round
from course_lib.engine.simulated.deadlock import frames_of
from course_lib.engine.simulated.messages import Channel, Posting, copy, snapshot
from course_lib.engine.simulated.turns import Agent, Turns
from course_lib.events import describe

NO_GROUP = -1  # in the place of a group's number: messages of a built-in collective, which no receive of a rank takes
_packed = struct.Struct("7d").pack


class Clock(Turns):
    """Matches sends with receives, gives each transfer its virtual start and end, and runs collectives."""

    def __init__(
        self,
        ranks: int,
        link: Callable[[int, int], tuple[float, float]],
        nics: Callable[[int, int], tuple[int, int] | None] | None = None,
    ) -> None:
        """`link` and `nics` are those of a Cluster: (latency, bandwidth) and ports from one rank to another."""
        super().__init__(ranks)
        self.link, self.nics = link, nics
        self.switch: Callable[[tuple[int, ...]], tuple[float, float] | None] | None = None
        """That of a Cluster whose switches add: (latency, bandwidth) for these ranks, None where no switch has all."""
        self.nic_out_free: dict[int, float] = {}
        self.nic_in_free: dict[int, float] = {}
        self.out_free = [0.0] * ranks
        self.in_free = [0.0] * ranks
        self.transfers = bytearray()
        """Of each message 7 doubles: source, destination, when each side posted, start, end, bytes."""
        self.places = {rank: rank for rank in range(ranks)}
        """Each rank's place in the world group: one dictionary for all ranks."""
        self.groups = 0
        """Number of groups made by new_group."""
        self._channels: dict[tuple, Channel] = {}
        self.hint = 0
        """Bytes that an empty message counts whose tag or whose sender tells something; the grader sets it."""
        self._any = False
        """Whether some rank has ever received from anyone."""
        self._queues: dict[tuple, deque[Agent]] = {}

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
        """Post one side of a transfer; if the other side is posted already, the transfer gets its start and end."""
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
        """Match a receive from any source: return its other side, if that is posted."""
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
        if self.hint and not nbytes and (channel.tag or recv.channel.src is None):
            nbytes = self.hint
        if send.tensor is not None:
            if send.nbytes != recv.nbytes or send.tensor.dtype is not recv.tensor.dtype:
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

    def _misfit(self, send: Posting, recv: Posting) -> ValueError:
        """Return the error for sides that do not match; `other` is where the earlier side blocks, if it does."""
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
        """Queue one rank's part in a collective behind its earlier ones on the same group."""
        waiting = self._queues.setdefault(queue, deque())
        waiting.append(agent)
        agent.queue = queue
        if len(waiting) == 1:
            self.push(agent)

    def step(self, agent: Agent) -> None:
        """Let an agent post rounds until it has to wait, or somebody has an earlier time."""
        channels = agent.meeting.channels
        if agent.begin is None:
            agent.begin = agent.now
        for messages in agent.rounds:
            now = agent.now
            if messages[0][1] == SWITCH:
                self._to_switch(agent, messages)
                return
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
                elif posting.end > agent.now:
                    agent.now = posting.end
            if agent.missing:
                return
            if self.before(agent.now):
                self.push(agent)
                return
        self._ended(agent)

    def _ended(self, agent: Agent) -> None:
        """Wake whoever waits for a collective that has ended, and let the next one of its queue begin."""
        agent.end = agent.now
        if agent.waiter is not None:
            self.notify(agent)
        waiting = self._queues[agent.queue]
        waiting.popleft()
        if waiting:
            waiting[0].now = max(waiting[0].now, agent.end)
            self.push(waiting[0])

    def _to_switch(self, agent: Agent, messages: Round) -> None:
        """Bring one rank's tensor to the switch; with the last one that comes, give all their end (rule 6)."""
        arrived = agent.meeting.at_switch
        arrived.append(agent)
        if len(arrived) < len(agent.ranks):
            return
        latency, bandwidth = self.switch(agent.ranks)
        (_, _, up), (_, _, down) = messages
        nics = [self.nics(agent.ranks[place - 1], one) for place, one in enumerate(agent.ranks)] if self.nics else []
        start = max(other.now for other in arrived)
        outs, ins = zip(*(nic for nic in nics if nic), strict=True) if any(nics) else ((), ())
        for ports, used in ((self.nic_out_free, outs), (self.nic_in_free, ins)):
            start = max(start, *(ports.get(port, 0.0) for port in used), 0.0)
        for ports in (self.out_free, self.in_free):
            start = max(start, *(ports[one] for one in agent.ranks))
        sent, received = (start + (latency + nbytes / bandwidth) for nbytes in (up, down))
        self.nic_out_free |= dict.fromkeys(outs, sent)
        self.nic_in_free |= dict.fromkeys(ins, received)
        for other in sorted(arrived, key=lambda one: one.index):
            self.out_free[other.index], self.in_free[other.index] = sent, received
            other.now = max(sent, received)
            self._ended(other)


def _deliver(send: Posting, recv: Posting) -> None:
    """Copy the data: into the buffer of a blocking recv, or aside until the wait() of an irecv."""
    if recv.blocking:
        copy(recv.tensor, send.tensor if send.blocking else send.before)
    else:
        recv.data = snapshot(send.tensor) if send.blocking else send.before
