"""What each rank sent, received and held, written down as the same `Event`s on real and on simulated ranks."""

from __future__ import annotations

import gc
import time
from typing import Any, NamedTuple

import torch
import torch.distributed as torch_dist

from course_lib import algorithms

COLLECTIVES = (
    "all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all", "barrier",
)  # fmt: skip


class Event(NamedTuple):
    """One thing one rank did. Times are seconds since the run began: measured, or virtual on a simulated cluster."""

    rank: int
    kind: str
    """"send", "recv", "work", or the name of a built-in collective."""
    start: float
    end: float
    posted: float
    """When the rank asked for it: between `posted` and `start` it waited for the other side or for a busy link."""
    sent: int = 0
    """Bytes this rank sent: measured for "send", charged by the documented algorithm for a built-in collective."""
    received: int = 0
    messages: int = 0
    """Messages this rank sent."""
    peer: int | None = None
    charged: bool = False
    """True where `sent`, `received` and `messages` follow from the algorithm and were not counted on the way."""
    label: str = ""


def size_of(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements."""
    return tensor.numel() * tensor.element_size()


def bytes_held(*things: Any) -> int:
    """Return the bytes of storage that `things` keep alive; without arguments, that all tensors of this process do.

    Things are tensors, modules, optimizers, and lists, tuples, sets or dicts of them. A storage that several views
    share counts once and in full, one that was resized counts as it is now, and a freed one counts nothing.
    """
    if not things:
        things = tuple(thing for thing in gc.get_objects() if isinstance(thing, torch.Tensor))
    storages: dict[int, int] = {}
    seen: set[int] = set()

    def visit(thing: Any) -> None:
        if id(thing) in seen:
            return
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            if thing.layout is torch.strided and thing.device.type != "meta":
                storage = thing.untyped_storage()
                storages[storage._cdata] = storage.nbytes()
            if thing.grad_fn is None and thing.grad is not None:
                visit(thing.grad)
        elif isinstance(thing, torch.nn.Module):
            for child in (*thing.parameters(), *thing.buffers()):
                visit(child)
        elif isinstance(thing, torch.optim.Optimizer):
            visit(dict(thing.state))
        elif isinstance(thing, dict):
            for child in thing.values():
                visit(child)
        elif isinstance(thing, (list, tuple, set, frozenset)):
            for child in thing:
                visit(child)

    for thing in things:
        visit(thing)
    return sum(storages.values())


class _Handle:
    """torch's handle of an operation under way; its event ends when `wait` returns."""

    def __init__(self, work: Any, done: Any) -> None:
        self._work, self._done = work, done

    def wait(self, *args: Any) -> Any:
        result = self._work.wait(*args)
        done, self._done = self._done, None
        if done:
            done()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


class P2POp:
    """One isend or irecv for `batch_isend_irecv`, with the arguments of torch.distributed.P2POp."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None) -> None:
        self.name = getattr(op, "__name__", str(op))
        if self.name not in ("isend", "irecv"):
            raise ValueError(f"P2POp takes dist.isend or dist.irecv, not {self.name}")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


class Meter:
    """torch.distributed with the same names, in front of which every send, receive and collective is written down.

    Whatever is not listed here (get_rank, ReduceOp, new_group, ...) is torch.distributed's own.
    """

    P2POp = P2POp

    def __init__(self, debug: bool = False) -> None:
        self.events: list[Event] = []
        self.begin = time.perf_counter()
        self._debug = _MatchCheck() if debug else None

    def __getattr__(self, name: str) -> Any:
        return getattr(torch_dist, name)

    def _record(self, kind: str, posted: float, **what: Any) -> None:
        end = time.perf_counter() - self.begin
        self.events.append(Event(torch_dist.get_rank(), kind, posted, end, posted, **what))

    def _now(self) -> float:
        return time.perf_counter() - self.begin

    # Point-to-point: bytes are measured.

    def _peer(self, peer: int | None, group: Any, group_peer: int | None) -> int | None:
        if peer is None and group_peer is not None:
            return torch_dist.get_global_rank(group or torch_dist.group.WORLD, group_peer)
        return peer

    def send(self, tensor, dst=None, group=None, tag=0, group_dst=None) -> None:
        posted, peer = self._now(), self._peer(dst, group, group_dst)
        if self._debug:
            self._debug.sending(tensor, peer, tag)
        torch_dist.send(tensor, dst, group, tag, group_dst)
        self._record("send", posted, sent=size_of(tensor), messages=1, peer=peer)

    def recv(self, tensor, src=None, group=None, tag=0, group_src=None) -> int:
        posted, peer = self._now(), self._peer(src, group, group_src)
        if self._debug:
            self._debug.receiving(tensor, peer, tag)
        source = torch_dist.recv(tensor, src, group, tag, group_src)
        self._record("recv", posted, received=size_of(tensor), peer=source)
        return source

    def isend(self, tensor, dst=None, group=None, tag=0, group_dst=None) -> _Handle:
        posted, peer = self._now(), self._peer(dst, group, group_dst)
        if self._debug:
            self._debug.sending(tensor, peer, tag)
        work = torch_dist.isend(tensor, dst, group, tag, group_dst)
        what = {"sent": size_of(tensor), "messages": 1, "peer": peer}
        return _Handle(work, lambda: self._record("send", posted, **what))

    def irecv(self, tensor, src=None, group=None, tag=0, group_src=None) -> _Handle:
        posted, peer = self._now(), self._peer(src, group, group_src)
        work = torch_dist.irecv(tensor, src, group, tag, group_src)
        what = {"received": size_of(tensor), "peer": peer}

        def done() -> None:
            if self._debug:
                self._debug.receiving(tensor, peer, tag)
            self._record("recv", posted, **what)

        return _Handle(work, done)

    def batch_isend_irecv(self, p2p_op_list: list[P2POp]) -> list[_Handle]:
        if torch_dist.get_backend() == "nccl":  # NCCL must see the whole batch at once, or facing sends hang.
            return self._nccl_batch(p2p_op_list)
        return [
            getattr(self, op.name)(op.tensor, op.peer, op.group, op.tag, op.group_peer)
            for op in p2p_op_list
        ]  # fmt: skip

    def _nccl_batch(self, ops: list[P2POp]) -> list[_Handle]:
        posted = self._now()
        theirs = [
            torch_dist.P2POp(getattr(torch_dist, op.name), op.tensor, op.peer, op.group, op.tag, op.group_peer)
            for op in ops
        ]

        def done() -> None:
            for op in ops:
                peer, size = self._peer(op.peer, op.group, op.group_peer), size_of(op.tensor)
                if op.name == "isend":
                    self._record("send", posted, sent=size, messages=1, peer=peer)
                else:
                    self._record("recv", posted, received=size, peer=peer)

        works = torch_dist.batch_isend_irecv(theirs)
        return [_Handle(work, done if work is works[-1] else None) for work in works]

    # Built-in collectives: bytes are charged by the algorithm in course_lib.algorithms.

    def _collective(self, kind: str, tensor: Any, group: Any, async_op: bool, root: int | None, call: Any) -> Any:
        ranks = torch_dist.get_world_size(group)
        me = torch_dist.get_rank(group)
        posted = self._now()
        work = call()
        if me < 0:
            return work
        elements, itemsize = (tensor.numel(), tensor.element_size()) if tensor is not None else (0, 1)
        in_group = 0 if root is None else torch_dist.get_group_rank(group or torch_dist.group.WORLD, root)
        sent, received, messages = algorithms.charge(kind, me, ranks, elements, itemsize, in_group)
        what = {"sent": sent, "received": received, "messages": messages, "peer": root, "charged": True}
        if async_op and work is not None:
            return _Handle(work, lambda: self._record(kind, posted, **what))
        self._record(kind, posted, **what)
        return work

    def _root(self, root: int | None, group: Any, group_root: int | None) -> int:
        peer = self._peer(root, group, group_root)
        return 0 if peer is None else peer

    def all_reduce(self, tensor, op=torch_dist.ReduceOp.SUM, group=None, async_op=False):
        call = lambda: torch_dist.all_reduce(tensor, op, group, async_op)  # noqa: E731
        return self._collective("all_reduce", tensor, group, async_op, None, call)

    def reduce(self, tensor, dst=None, op=torch_dist.ReduceOp.SUM, group=None, async_op=False, group_dst=None):
        call = lambda: torch_dist.reduce(tensor, dst, op, group, async_op, group_dst)  # noqa: E731
        return self._collective("reduce", tensor, group, async_op, self._root(dst, group, group_dst), call)

    def broadcast(self, tensor, src=None, group=None, async_op=False, group_src=None):
        call = lambda: torch_dist.broadcast(tensor, src, group, async_op, group_src)  # noqa: E731
        return self._collective("broadcast", tensor, group, async_op, self._root(src, group, group_src), call)

    def all_gather(self, tensor_list, tensor, group=None, async_op=False):
        call = lambda: torch_dist.all_gather(tensor_list, tensor, group, async_op)  # noqa: E731
        return self._collective("all_gather", tensor, group, async_op, None, call)

    def gather(self, tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
        call = lambda: torch_dist.gather(tensor, gather_list, dst, group, async_op, group_dst)  # noqa: E731
        return self._collective("gather", tensor, group, async_op, self._root(dst, group, group_dst), call)

    def scatter(self, tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
        call = lambda: torch_dist.scatter(tensor, scatter_list, src, group, async_op, group_src)  # noqa: E731
        return self._collective("scatter", tensor, group, async_op, self._root(src, group, group_src), call)

    def reduce_scatter(self, output, input_list, op=torch_dist.ReduceOp.SUM, group=None, async_op=False):
        call = lambda: torch_dist.reduce_scatter(output, input_list, op, group, async_op)  # noqa: E731
        return self._collective("reduce_scatter", output, group, async_op, None, call)

    def all_to_all(self, output_tensor_list, input_tensor_list, group=None, async_op=False):
        call = lambda: torch_dist.all_to_all(output_tensor_list, input_tensor_list, group, async_op)  # noqa: E731
        posted, me = self._now(), torch_dist.get_rank(group)
        rounds = algorithms.all_to_all(
            me, [size_of(t) for t in input_tensor_list], [size_of(t) for t in output_tensor_list]
        )
        sent, received, messages = algorithms.total(rounds)
        what = {"sent": sent, "received": received, "messages": messages, "charged": True}
        work = call()
        if async_op and work is not None:
            return _Handle(work, lambda: self._record("all_to_all", posted, **what))
        self._record("all_to_all", posted, **what)
        return work

    def barrier(self, group=None, async_op=False):
        call = lambda: torch_dist.barrier(group, async_op)  # noqa: E731
        return self._collective("barrier", None, group, async_op, None, call)


class _MatchCheck:
    """With debug=True: each send says through the store what it brings, and the receiver compares before it takes it."""

    def __init__(self) -> None:
        self._count: dict[tuple, int] = {}
        self._store = torch_dist.distributed_c10d._get_default_store()

    def _key(self, src: int, dst: int, tag: int) -> str:
        count = self._count[src, dst, tag] = self._count.get((src, dst, tag), 0) + 1
        return f"course/{src}/{dst}/{tag}/{count}"

    def sending(self, tensor: torch.Tensor, dst: int, tag: int) -> None:
        self._store.set(self._key(torch_dist.get_rank(), dst, tag), describe(tensor))

    def receiving(self, tensor: torch.Tensor, src: int | None, tag: int) -> None:
        if src is None:
            return
        me = torch_dist.get_rank()
        sent = self._store.get(self._key(src, me, tag)).decode()
        if sent != describe(tensor):
            raise ValueError(f"rank {src} sent {sent}, but rank {me} receives into {describe(tensor)}")


def describe(tensor: torch.Tensor) -> str:
    """Return a tensor's dtype and shape as people write them: float32[4, 2]."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
