"""The `dist` of a real rank: torch.distributed, with every send, receive and collective written down as an Event.

Why not a dispatch mode, as torch's CommDebugMode is? It does not see send and recv. Why not patch torch.distributed?
The patch would also record what DDP and FSDP call inside, and `P2POp` compares functions with torch's own. Why are
collectives *charged* by an algorithm and not measured? gloo and NCCL do not tell what they send. Signatures are written
out so that a wrong argument fails in a call that looks like torch's.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as torch_dist

from course_lib import algorithms
from course_lib.engine import current
from course_lib.engine.mismatch import MatchCheck
from course_lib.events import Event, describe, size_of

SUM = torch_dist.ReduceOp.SUM
# torch 2.13 renamed these two, and warns at their old names.
_gather_single = getattr(torch_dist, "all_gather_single", torch_dist.all_gather_into_tensor)
_scatter_single = getattr(torch_dist, "reduce_scatter_single", torch_dist.reduce_scatter_tensor)
FLOPS = 1e12  # of a device, in FLOP/s, for `work(flops=...)` on a real rank


class Handle:
    """Wraps torch's Work; its event ends when `wait` returns. A second wait() does nothing."""

    def __init__(self, work: Any, done: Any = None) -> None:
        self._work, self._done, self._waited = work, done, False

    def wait(self, *args: Any) -> bool:
        if not self._waited:  # gloo hangs at the second wait() on an irecv
            self._work.wait(*args)
            self._waited = True
            if self._done:
                self._done()
        return True

    def is_completed(self) -> bool:
        return self._waited or self._work.is_completed()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


class P2POp:
    """One isend or irecv for `batch_isend_irecv`, with the arguments of torch.distributed.P2POp."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None) -> None:
        self.name = getattr(op, "__name__", str(op))
        if self.name not in ("isend", "irecv"):
            raise ValueError(f"P2POp takes dist.isend or dist.irecv, not {self.name}")
        self.op, self.tensor = op, tensor
        self.peer, self.group, self.tag, self.group_peer = peer, group, tag, group_peer


class Meter:
    """torch.distributed under the same names; records an Event for every send, receive and collective.

    Names not defined here (get_rank, ReduceOp, new_group, ...) are torch.distributed's own.
    """

    P2POp = P2POp

    def __init__(self, debug: bool = False) -> None:
        self.events: list[Event] = []
        self.begin = time.monotonic()
        self._debug = MatchCheck() if debug else None

    def __getattr__(self, name: str) -> Any:
        return getattr(torch_dist, name)

    # What code asks that has no dist (engine/current.py)

    simulated = False

    def now(self) -> float:
        return time.monotonic() - self.begin

    def work(self, seconds: float | None, flops: float | None) -> None:
        """Sleep, and record an event of work."""
        begin = self.now()
        time.sleep(current.seconds_of(seconds, flops, FLOPS))
        self._record("work", begin)

    def _record(self, kind: str, posted: float, **what: Any) -> None:
        self.events.append(Event(torch_dist.get_rank(), kind, posted, self.now(), posted, **what))

    # Point-to-point: bytes are measured.

    def _peer(self, peer: int | None, group: Any, place: int | None, name: str) -> int | None:
        """Return the rank that `name=peer` or `group_<name>=place` means, None if neither is given.

        Raises ValueError, in the simulator's words, when there is none: gloo would wait for it, or crash.
        """
        if group is torch_dist.GroupMember.NON_GROUP_MEMBER:  # torch warns and does nothing
            return peer
        if group is not None and not isinstance(group, torch_dist.ProcessGroup):
            raise TypeError(f"group={group!r} is not a group: use what dist.new_group returned")
        ranks = torch_dist.get_process_group_ranks(group or torch_dist.group.WORLD)
        if place is not None:
            if place not in range(len(ranks)):
                raise ValueError(f"group_{name}={place!r}: places in this group go from 0 to {len(ranks) - 1}")
            return ranks[place]
        if peer is not None and peer not in ranks:
            everyone = group is None or group is torch_dist.group.WORLD
            known = f"0 to {len(ranks) - 1}" if everyone else ", ".join(map(str, ranks))
            raise ValueError(f"{name}={peer!r}: there is no such rank; ranks are {known}")
        return peer

    def _other(self, kind: str, peer: int | None, group: Any, place: int | None) -> int | None:
        """Return the other side of a message; None for a receive from anyone. Raises ValueError for this rank."""
        peer = self._peer(peer, group, place, "dst" if "send" in kind else "src")
        if peer is None and "send" in kind:
            raise ValueError("a send needs dst, the rank that receives")
        if peer == torch_dist.get_rank():
            raise ValueError(f"rank {peer} cannot send to or receive from itself")
        return peer

    def send(self, tensor, dst=None, group=None, tag=0, group_dst=None) -> None:
        posted, peer = self.now(), self._other("send", dst, group, group_dst)
        if self._debug:
            self._debug.sending(tensor, peer, tag)
        torch_dist.send(tensor, dst, group, tag, group_dst)
        self._record("send", posted, sent=size_of(tensor), messages=1, peer=peer)

    def recv(self, tensor, src=None, group=None, tag=0, group_src=None) -> int:
        posted, peer = self.now(), self._other("recv", src, group, group_src)
        if self._debug:
            self._debug.receiving(tensor, peer, tag)
        source = torch_dist.recv(tensor, src, group, tag, group_src)
        self._record("recv", posted, received=size_of(tensor), peer=source)
        return source

    def isend(self, tensor, dst=None, group=None, tag=0, group_dst=None) -> Handle:
        posted, peer = self.now(), self._other("isend", dst, group, group_dst)
        if self._debug:
            self._debug.sending(tensor, peer, tag)
        work = torch_dist.isend(tensor, dst, group, tag, group_dst)
        what = {"sent": size_of(tensor), "messages": 1, "peer": peer}
        return Handle(work, lambda: self._record("send", posted, **what))

    def irecv(self, tensor, src=None, group=None, tag=0, group_src=None) -> Handle:
        posted, peer = self.now(), self._other("irecv", src, group, group_src)
        if self._debug:
            self._debug.receiving(tensor, peer, tag)
        work = torch_dist.irecv(tensor, src, group, tag, group_src)

        def done() -> None:
            source = work._source_rank() if peer is None else peer
            self._record("recv", posted, received=size_of(tensor), peer=source)

        return Handle(work, done)

    def batch_isend_irecv(self, p2p_op_list: list[P2POp]) -> list[Handle]:
        if torch_dist.get_backend() == "nccl":  # NCCL must see the whole batch at once, or facing sends hang.
            return self._nccl_batch(p2p_op_list)
        return [getattr(self, op.name)(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]

    def _nccl_batch(self, ops: list[P2POp]) -> list[Handle]:
        posted = self.now()
        peers = [self._other(op.name, op.peer, op.group, op.group_peer) for op in ops]
        theirs = [
            torch_dist.P2POp(getattr(torch_dist, op.name), op.tensor, op.peer, op.group, op.tag, op.group_peer)
            for op in ops
        ]

        def done() -> None:
            for op, peer in zip(ops, peers, strict=True):
                size = size_of(op.tensor)
                if op.name == "isend":
                    self._record("send", posted, sent=size, messages=1, peer=peer)
                else:
                    self._record("recv", posted, received=size, peer=peer)

        works = torch_dist.batch_isend_irecv(theirs)
        return [Handle(work, done if work is works[-1] else None) for work in works]

    # Built-in collectives: bytes are charged by the algorithm in course_lib.algorithms.

    def _collective(
        self, kind: str, call: Any, like: Any, group: Any, async_op: bool, root: int | None = None, rounds: Any = None,
        op: Any = None,
    ) -> Any:  # fmt: skip
        """Do `call`, and record what the algorithm moves for a tensor `like` this, or the messages in `rounds`."""
        posted = self.now()
        if self._debug and torch_dist.get_rank(group) >= 0:
            tensor = [describe(like)] if isinstance(like, torch.Tensor) else []
            how = [] if op is None else [str(getattr(op, "op", op)).split(".")[-1]]
            at = [] if root is None else [f"{'src' if kind in ('broadcast', 'scatter') else 'dst'}={root}"]
            self._debug.calling(f"{kind}({', '.join(tensor + how + at)})", group or torch_dist.group.WORLD)
        work = call()
        ranks, me = torch_dist.get_world_size(group), torch_dist.get_rank(group)
        if me < 0:  # not a member: torch has warned and done nothing
            return work
        if rounds is None:
            elements, itemsize = (like.numel(), like.element_size()) if like is not None else (0, 1)
            place = 0 if root is None else torch_dist.get_group_rank(group or torch_dist.group.WORLD, root)
            spent = algorithms.charge(kind, me, ranks, elements, itemsize, place)
        else:
            spent = algorithms.total(rounds)
        what = dict(zip(("sent", "received", "messages"), spent, strict=True), peer=root, charged=True)
        if async_op and work is not None:
            return Handle(work, lambda: self._record(kind, posted, **what))
        self._record(kind, posted, **what)
        return work

    def _root(self, root: int | None, group: Any, place: int | None, name: str) -> int:
        return self._peer(0 if root is None and place is None else root, group, place, name)

    def all_reduce(self, tensor, op=SUM, group=None, async_op=False):
        call = lambda: torch_dist.all_reduce(tensor, op, group, async_op)  # noqa: E731
        return self._collective("all_reduce", call, tensor, group, async_op, op=op)

    def reduce(self, tensor, dst=None, op=SUM, group=None, async_op=False, group_dst=None):
        call = lambda: torch_dist.reduce(tensor, dst, op, group, async_op, group_dst)  # noqa: E731
        root = self._root(dst, group, group_dst, "dst")
        return self._collective("reduce", call, tensor, group, async_op, root, op=op)

    def broadcast(self, tensor, src=None, group=None, async_op=False, group_src=None):
        call = lambda: torch_dist.broadcast(tensor, src, group, async_op, group_src)  # noqa: E731
        return self._collective("broadcast", call, tensor, group, async_op, self._root(src, group, group_src, "src"))

    def all_gather(self, tensor_list, tensor, group=None, async_op=False):
        call = lambda: torch_dist.all_gather(tensor_list, tensor, group, async_op)  # noqa: E731
        return self._collective("all_gather", call, tensor, group, async_op)

    def all_gather_into_tensor(self, output_tensor, input_tensor, group=None, async_op=False):
        call = lambda: _gather_single(output_tensor, input_tensor, group, async_op)  # noqa: E731
        return self._collective("all_gather", call, input_tensor, group, async_op)

    all_gather_single = all_gather_into_tensor

    def gather(self, tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
        call = lambda: torch_dist.gather(tensor, gather_list, dst, group, async_op, group_dst)  # noqa: E731
        return self._collective("gather", call, tensor, group, async_op, self._root(dst, group, group_dst, "dst"))

    def scatter(self, tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
        call = lambda: torch_dist.scatter(tensor, scatter_list, src, group, async_op, group_src)  # noqa: E731
        return self._collective("scatter", call, tensor, group, async_op, self._root(src, group, group_src, "src"))

    def reduce_scatter(self, output, input_list, op=SUM, group=None, async_op=False):
        call = lambda: torch_dist.reduce_scatter(output, input_list, op, group, async_op)  # noqa: E731
        return self._collective("reduce_scatter", call, output, group, async_op, op=op)

    def reduce_scatter_tensor(self, output, input, op=SUM, group=None, async_op=False):
        call = lambda: _scatter_single(output, input, op, group, async_op)  # noqa: E731
        return self._collective("reduce_scatter", call, output, group, async_op, op=op)

    reduce_scatter_single = reduce_scatter_tensor

    def all_to_all(self, output_tensor_list, input_tensor_list, group=None, async_op=False):
        call = lambda: torch_dist.all_to_all(output_tensor_list, input_tensor_list, group, async_op)  # noqa: E731
        sizes = [size_of(t) for t in input_tensor_list], [size_of(t) for t in output_tensor_list]
        rounds = algorithms.all_to_all(torch_dist.get_rank(group), *sizes)
        return self._collective("all_to_all", call, None, group, async_op, rounds=rounds)

    def all_to_all_single(
        self, output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False
    ):  # fmt: skip
        call = lambda: torch_dist.all_to_all_single(  # noqa: E731
            output, input, output_split_sizes, input_split_sizes, group, async_op
        )
        ranks = torch_dist.get_world_size(group)
        sizes = [
            [len(piece) and size_of(piece) for piece in tensor.split(split or [len(tensor) // ranks] * ranks)]
            for tensor, split in ((input, input_split_sizes), (output, output_split_sizes))
        ]
        rounds = algorithms.all_to_all(torch_dist.get_rank(group), *sizes)
        return self._collective("all_to_all", call, None, group, async_op, rounds=rounds)

    def barrier(self, group=None, async_op=False, device_ids=None):
        call = lambda: torch_dist.barrier(group, async_op, device_ids)  # noqa: E731
        return self._collective("barrier", call, None, group, async_op)
