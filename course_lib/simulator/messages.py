"""Sending and receiving as one simulated rank does it: send, recv, isend, irecv, and batches of them."""

from __future__ import annotations

from typing import Any

from course_lib.meter import P2POp
from course_lib.simulator.engine import Engine
from course_lib.simulator.posting import Channel, Posting, check_tensor
from course_lib.simulator.runners import Rank


class Messages:
    """The half of SimulatedDist that holds the point-to-point operations.

    It is no base class of that, because a class with a `__getattr__` finds all its attributes more slowly.
    """

    def __init__(self, dist: Any, engine: Engine, me: Rank) -> None:
        self._dist, self._engine, self._me = dist, engine, me
        self._channels: dict[tuple, Channel] = {}
        """The channel that arguments mean, for all arguments that have been looked at once."""

    def send(self, tensor, dst=None, group=None, tag=0, group_dst=None) -> None:
        self._engine.wait(self._me, self._post("send", tensor, dst, group, tag, group_dst, True))

    def recv(self, tensor, src=None, group=None, tag=0, group_src=None) -> int:
        posting = self._post("recv", tensor, src, group, tag, group_src, True)
        self._engine.wait(self._me, posting)
        return posting.channel.src

    def isend(self, tensor, dst=None, group=None, tag=0, group_dst=None) -> Posting:
        return self._post("send", tensor, dst, group, tag, group_dst, False)

    def irecv(self, tensor, src=None, group=None, tag=0, group_src=None) -> Posting:
        return self._post("recv", tensor, src, group, tag, group_src, False)

    def batch_isend_irecv(self, p2p_op_list: list[P2POp]) -> list[Posting]:
        return [getattr(self._dist, op.name)(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]

    def _post(self, kind, tensor, peer, group, tag, place, blocking) -> Posting:
        """Post one side of a message."""
        me, engine = self._me, self._engine
        try:
            channel = self._channels[kind, type(peer), peer, group, type(tag), tag, place]
        except (KeyError, TypeError):  # not seen before, or something that cannot be right
            channel = self._channel(kind, peer, group, tag, place)
        nbytes = check_tensor(tensor, kind if blocking else "i" + kind)
        ready = engine.ready
        if ready and ready[0][0] < me.clock:  # `turn` asks the same; the call would be for nothing nearly always
            engine.turn(me)
        if me.asked:
            me.acts()
        posting = Posting(me, kind, channel, nbytes, me.clock, tensor, blocking)
        engine.post(posting)
        if not blocking:
            me.open_handles[posting] = None
        return posting

    def _channel(self, kind, peer, group, tag, place) -> Channel:
        """Return the channel that arguments mean. Raises ValueError or TypeError for those that mean none."""
        me, asked = self._me.index, (kind, type(peer), peer, group, type(tag), tag, place)
        group = self._dist._group(group)
        peer = self._dist._rank_in(group, peer, place, "dst" if kind == "send" else "src")
        if peer is None and kind == "send":
            raise ValueError("a send needs dst, the rank that receives")
        if peer == me:
            raise ValueError(f"rank {peer} cannot send to or receive from itself")
        if not hasattr(tag, "__index__"):
            raise TypeError(f"tag={tag!r}: a tag is a whole number")
        src, dst = (me, peer) if kind == "send" else (peer, me)
        channel = self._channels[asked] = self._engine.channel(src, dst, int(tag), group.number)
        return channel
