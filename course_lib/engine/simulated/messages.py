"""Point-to-point messages of simulated ranks: send, recv, isend, irecv. Each side is a Posting, and its own handle.

Why snapshots of the buffers, and not only torch's version counter? The counter of a view changes with every other view
of the same tensor, so a change counts only where the bits differ as well. Why `__slots__`, and one object that is both
posting and handle? A ring on 512 ranks makes a million of them, and this file is where the simulator spends its time.
"""

from __future__ import annotations

from typing import Any

import torch

from course_lib.engine.meter import P2POp

NO_POLLING = (
    "is_completed() is not simulated: asking takes no virtual time, so a loop that asks would never end; "
    "call wait(), or run on real ranks"
)


class Channel:
    """The FIFO queue between two ranks in one group and with one tag."""

    __slots__ = ("src", "dst", "tag", "group", "latency", "bandwidth", "nics", "waiting")

    def __init__(self, src, dst, tag, group, latency=0.0, bandwidth=1.0, nics=None) -> None:
        self.src = src
        """None where a rank receives from anyone."""
        self.dst = dst
        self.tag = tag
        self.group = group
        self.latency = latency
        self.bandwidth = bandwidth
        self.nics = nics
        self.waiting: list[Posting] = []
        """Unmatched postings: all sends, or all receives."""


class Posting:
    """One side of a transfer, and what isend and irecv return; `end` is None until the other side has posted too.

    Results appear at wait(), and the buffer must stay untouched until then.
    """

    __slots__ = (
        "rank", "kind", "channel", "nbytes", "time", "tensor", "blocking", "before", "data", "end", "waiter",
        "_version",
    )  # fmt: skip

    def __init__(self, rank, kind, channel, nbytes, time, tensor=None, blocking=True) -> None:
        self.rank = rank
        """`rank` is the Rank that posted it, or its Agent in a collective, whose tensors are in the Meeting."""
        self.kind = kind
        self.channel = channel
        self.nbytes = nbytes
        self.time = time
        self.tensor, self.blocking = tensor, blocking
        """The learner's tensor, None after `wait` and in a collective; False for isend and irecv."""
        self.end = self.waiter = self.data = None
        """`data` is what has arrived for an irecv."""
        if not blocking:
            self._version, self.before = version(tensor), snapshot(tensor)

    @property
    def peer(self) -> int | None:
        """The other side's rank; None while a receive from anyone waits."""
        return self.channel.dst if self.kind == "send" else self.channel.src

    @property
    def name(self) -> str:
        """The operation as a sentence names it."""
        if self.peer is None:
            return f"i{self.kind}"
        return f"i{self.kind} {'to' if self.kind == 'send' else 'from'} rank {self.peer}"

    def wait(self, timeout: Any = None) -> bool:
        """Block until the operation has ended; then its results are there."""
        tensor, rank = self.tensor, self.rank
        if tensor is None:  # waited for already
            return True
        rank.clock.wait(rank, self)
        if version(tensor) != self._version and not same_bits(tensor, self.before):
            raise RuntimeError(f"the buffer of {self.name} was changed before its wait(): wait first, then change it")
        del rank.open_handles[self]
        if self.data is not None:
            copy(tensor, self.data)
        self.tensor = self.before = self.data = None
        return True

    def is_completed(self) -> bool:
        raise RuntimeError(NO_POLLING)


def check_tensor(tensor: Any, name: str) -> int:
    """Return the bytes of a tensor. Raises TypeError or ValueError for one that cannot be sent."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} takes a tensor, not {type(tensor).__name__}: torch.tensor([...])")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} was given a tensor that is not contiguous (a slice of columns?): use .contiguous()")
    nbytes = tensor.nbytes
    held = tensor.untyped_storage().nbytes() if tensor.is_cpu else -1
    if nbytes and held < tensor.storage_offset() * tensor.itemsize + nbytes or held < 0:
        where = "was freed" if tensor.is_cpu else f"is on {tensor.device}: simulated ranks hold theirs on the CPU"
        raise ValueError(f"{name} was given a tensor whose memory {where}")
    return nbytes


def version(tensor: torch.Tensor) -> int:
    """Return torch's count of in-place changes, which all views of one tensor share."""
    try:
        return tensor._version
    except RuntimeError:  # made in inference mode
        return -1


def snapshot(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that autograd does not follow."""
    return (tensor.detach() if tensor.requires_grad else tensor).clone()


def copy(into: torch.Tensor, value: torch.Tensor) -> None:
    """Fill a tensor with the elements of another that has as many, whatever their shapes."""
    if into.requires_grad or value.requires_grad:
        into, value = into.detach(), value.detach()
    try:
        into.copy_(value)  # for as many elements, other shapes that torch takes here differ by dimensions of 1
    except RuntimeError:
        if into.shape == value.shape:
            raise
        into.view(-1).copy_(value.reshape(-1))


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors of one dtype and shape hold equal numbers, or the same bits."""
    if torch.equal(one, other):
        return True
    one, other = (tensor.detach().contiguous().view(-1).view(torch.uint8) for tensor in (one, other))
    return torch.equal(one, other)  # NaN equals itself here


class Messages:
    """The half of SimulatedDist that holds the point-to-point operations.

    Not a base class of it: attribute look-ups are slower on a class with `__getattr__`, and these are the hot ones.
    """

    def __init__(self, dist: Any, clock: Any, me: Any) -> None:
        self._dist = dist
        self._clock = clock
        self._me = me
        self._channels: dict[tuple, Channel] = {}
        """Cache: arguments that have been checked once, and their channel."""

    def send(self, tensor, dst=None, group=None, tag=0, group_dst=None) -> None:
        self._clock.wait(self._me, self._post("send", tensor, dst, group, tag, group_dst, True))

    def recv(self, tensor, src=None, group=None, tag=0, group_src=None) -> int:
        posting = self._post("recv", tensor, src, group, tag, group_src, True)
        self._clock.wait(self._me, posting)
        return posting.channel.src

    def isend(self, tensor, dst=None, group=None, tag=0, group_dst=None) -> Posting:
        return self._post("send", tensor, dst, group, tag, group_dst, False)

    def irecv(self, tensor, src=None, group=None, tag=0, group_src=None) -> Posting:
        return self._post("recv", tensor, src, group, tag, group_src, False)

    def batch_isend_irecv(self, p2p_op_list: list[P2POp]) -> list[Posting]:
        return [getattr(self._dist, op.name)(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]

    def _post(self, kind, tensor, peer, group, tag, place, blocking) -> Posting:
        """Post one side of a message."""
        me, clock = self._me, self._clock
        try:
            channel = self._channels[kind, type(peer), peer, group, type(tag), tag, place]
        except (KeyError, TypeError):  # not in the cache, or unhashable
            channel = self._channel(kind, peer, group, tag, place)
        nbytes = check_tensor(tensor, kind if blocking else "i" + kind)
        ready = clock.ready
        if ready and ready[0][0] < me.now:  # inlined from `turn`: nearly always False
            clock.turn(me)
        posting = Posting(me, kind, channel, nbytes, me.now, tensor, blocking)
        clock.post(posting)
        if not blocking:
            me.open_handles[posting] = None
        return posting

    def _channel(self, kind, peer, group, tag, place) -> Channel:
        """Return the channel for these arguments. Raises ValueError or TypeError for wrong ones."""
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
        channel = self._channels[asked] = self._clock.channel(src, dst, int(tag), group.number)
        return channel
