"""Simulated ranks that live elsewhere: the clock, the links and the meter here, each rank's code in its own sandbox.

On the judge's side a `Broker` is a simulation whose every rank waits for what its process asks for: each `dist` call
arrives as a name and plain arguments, is carried out by the same SimulatedDist as in a notebook, and what it changed
goes back. So a rank can neither see nor alter the clock, the counted bytes, or another rank's data.
"""

from __future__ import annotations

import builtins
import contextlib
import itertools
import math
import os
import threading
import time
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as torch_dist

from course_lib import Cluster, Event, RankFailed
from course_lib.engine import current, failures, outcome, packing, wire
from course_lib.engine.meter import P2POp
from course_lib.engine.outcome import Failed, Outcome, Returned, Simulated
from course_lib.engine.processes.watch import Child
from course_lib.engine.seeds import seed
from course_lib.engine.simulated.dist import SimulatedDist
from course_lib.engine.simulated.groups import Group
from course_lib.engine.simulated.messages import NO_POLLING
from course_lib.engine.simulated.world import World
from course_lib.results import duration, lines_of

MOST_MESSAGE = 64 << 20  # bytes of one message from an answer
MOST_HANDLES = 100_000  # operations under way that one rank may have
MOST_HELD = 256 << 20  # bytes of tensors that all ranks of a run may have under way
MOST_PARTS = 1_000_000  # numbers, texts and containers in one thing that a rank sends
MOST_BITS = 12_000  # of a whole number: about 3,600 digits, which Python still writes out
CALLS = {
    "send", "recv", "isend", "irecv", "new_group", "all_reduce", "reduce", "broadcast", "all_gather", "gather",
    "scatter", "reduce_scatter", "all_to_all", "barrier", "all_gather_into_tensor", "all_gather_single",
    "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all_single", "is_initialized", "is_available",
    "get_backend", "get_rank", "get_world_size", "get_process_group_ranks", "get_global_rank", "get_group_rank",
}  # fmt: skip
"""What a rank may ask for: all of SimulatedDist but what handles objects, which would be unpickled here."""


def tensors_in(thing: Any) -> list[torch.Tensor]:
    """Return the tensors in nested lists, tuples and dicts, in an order that both sides share."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, dict):
        thing = list(thing.values())
    return [tensor for part in thing for tensor in tensors_in(part)] if isinstance(thing, (list, tuple)) else []


def check_size(thing: Any) -> Any:
    """Return plain data, if whoever walks through it comes to an end. Raises ValueError otherwise.

    A few bytes can stand for a list that holds itself, or for lists that hold each other twice, thirty deep.
    """
    parts, left = [thing], MOST_PARTS
    while parts:
        part, left = parts.pop(), left - 1
        if isinstance(part, int) and part.bit_length() > MOST_BITS:
            raise ValueError(f"a whole number of {part.bit_length():,} bits; at most {MOST_BITS:,} are taken")
        inner = [*part.keys(), *part.values()] if isinstance(part, dict) else part
        if isinstance(inner, (list, tuple, set, frozenset)):
            if len(parts) + len(inner) > left:
                raise ValueError(f"a list or dict of more than {MOST_PARTS:,} parts, or one that holds itself")
            parts += inner
    return thing


# On the judge's side


class Broker(World):
    """A simulation that does for ranks in other processes what they ask for."""

    def __init__(self, ranks: int, cluster: Cluster) -> None:
        super().__init__(ranks, cluster)
        self._numbers = itertools.count()
        self._closing = threading.Event()
        self._held = 0
        """Bytes of the tensors in all operations that are under way."""

    def begin(self, children: list[Child]) -> None:
        """Start serving the ranks, the one with the lowest clock at a time."""
        for rank, child in zip(self.clock.ranks, children, strict=True):
            rank.thread = threading.Thread(target=self._live, args=(rank, self._serve, (child,)), daemon=True)
            rank.thread.start()
        self.clock.begin()

    def outcome(self) -> Outcome:
        ended = super().outcome()
        if isinstance(ended, Simulated):  # what ranks return arrives packed, and was packed once more on the way
            ended.values = [packing.unpack_plain(value) for value in ended.values]
        return ended

    def close(self) -> None:
        """End the threads of ranks that will not go on."""
        self.clock.stopped = True
        self._closing.set()
        for rank in self.clock.ranks:
            with contextlib.suppress(RuntimeError):  # a rank in the middle of a call may have handed it the baton
                rank.gate.release()
        for rank in self.clock.ranks:
            if rank.thread is not None:
                rank.thread.join(5)
        os.close(self.bell)
        os.close(self._ring)

    def _serve(self, dist: SimulatedDist, child: Child) -> Any:
        """Be a rank for as long as its process runs; return what it returned, still packed."""
        handles: dict[int, tuple[Any, list[torch.Tensor]]] = {}
        groups: list[Any] = []
        try:
            while True:
                kind, body = wire.get(child.link, MOST_MESSAGE)
                if kind == wire.DONE:
                    child.outcome = believed(body, child.index)
                    if isinstance(child.outcome, Failed):
                        raise outcome.Told(child.outcome)
                    return child.outcome.value
                try:
                    reply = self._do(dist, handles, groups, *check_size(packing.unpack_plain(body)))
                except Exception as error:
                    reply = {"error": type(error).__name__, "message": str(error)}
                wire.put(child.link, wire.RETURN, packing.pack(reply))
        except (EOFError, OSError):  # the process is gone: whoever watches it says how, and then calls close()
            self._closing.wait()
            raise SystemExit from None

    def _do(self, dist: SimulatedDist, handles: dict, groups: list, name: str, args: tuple, kwargs: dict) -> dict:
        args, kwargs = _decode(args, groups), _decode(kwargs, groups)
        if name == "work":
            self.work(*args)
            return {"value": None}
        if name == "wait":
            number, contents = args
            handle, tensors = handles.pop(number)
            self._held -= _bytes_of(tensors)
            for tensor, content in zip(tensors, contents, strict=True):
                if not torch.equal(tensor.view(-1).view(torch.uint8), content.view(-1).view(torch.uint8)):
                    tensor.copy_(content)  # it was changed over there: the handle finds out
            return _changes(handle.wait, (), {}, tensors)
        if name not in CALLS:
            raise AttributeError(f"dist.{name} is not simulated")
        tensors = tensors_in((args, kwargs))
        size = _bytes_of(tensors)
        if len(handles) >= MOST_HANDLES or self._held + size > MOST_HELD:
            raise RuntimeError(
                f"more than {MOST_HANDLES:,} operations or {MOST_HELD >> 20} MiB are under way: wait for some"
            )
        self._held += size
        try:
            reply = _changes(getattr(dist, name), args, kwargs, tensors)
        except BaseException:
            self._held -= size
            raise
        value = reply["value"]
        if hasattr(value, "wait"):
            reply["value"], reply["handle"] = None, next(self._numbers)
            handles[reply["handle"]] = (value, tensors)
            return reply
        self._held -= size
        if isinstance(value, Group):
            groups.append(value)
            reply["value"], reply["group"] = value.ranks, len(groups) - 1
        elif value is torch_dist.GroupMember.NON_GROUP_MEMBER:
            reply["value"], reply["group"] = None, -1
        return reply


def _bytes_of(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def believed(body: bytes, index: int | None) -> Returned | Failed:
    """Return how a process says that it ended, with nothing in it but text and numbers of the right kind."""
    try:
        kind, fields = check_size(packing.unpack_plain(body))
        if kind == "Failed":
            return _told(fields, index)
        if not isinstance(fields["value"], bytes):
            raise TypeError("no value")
        begin, end = (float(fields.get(name, 0.0)) for name in ("begin", "end"))
        events = [Event(*event) for event in fields.get("events", ())]
        if not all(_is_an_event_of(index, event) for event in events) or not math.isfinite(end - begin):
            raise TypeError("no events")
        return Returned(fields["value"], begin, end, [tuple(event) for event in events])
    except Exception as error:  # code in the rank wrote into its link
        return Failed("ValueError", f"what it sent back is damaged ({error})"[:300], [], index)


def _is_an_event_of(index: int | None, event: Event) -> bool:
    times = (event.start, event.end, event.posted)
    known = event.rank == index and all(isinstance(value, (int, float, str, type(None))) for value in event)
    return known and all(isinstance(value, (int, float)) and math.isfinite(value) for value in times)


def _told(fields: dict[str, Any], index: int | None) -> Failed:
    frames = [(str(file), int(line), str(name)) for file, line, name in fields.get("frames", ())][:50]
    behind = [(str(error)[:200], str(message)[:2000]) for error, message in fields.get("behind", ())][:10]
    error, message, when = str(fields.get("error"))[:200], str(fields.get("message"))[:2000], fields.get("when")
    if error == "Deadlock":
        error = "RuntimeError"
    when = when if isinstance(when, float) and math.isfinite(when) else 0.0
    return Failed(error, message, frames, index, when, behind)


def _changes(call: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> dict[str, Any]:
    """Call, and return the value and the new contents of each tensor that changed (None for the others)."""
    before = [tensor._version for tensor in tensors]
    value = call(*args, **kwargs)
    changed = [t if t._version != version else None for t, version in zip(tensors, before, strict=True)]
    return {"value": value, "tensors": changed}


def _decode(thing: Any, groups: list) -> Any:
    """Turn the stand-ins for groups and operations back into what they stand for."""
    if isinstance(thing, dict):
        if thing.keys() == {"a group"}:
            number = thing["a group"]
            return groups[number] if number >= 0 else torch_dist.GroupMember.NON_GROUP_MEMBER
        if thing.keys() == {"an operation"}:
            return getattr(torch_dist.ReduceOp, thing["an operation"])
        return {key: _decode(value, groups) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return type(thing)(_decode(part, groups) for part in thing)
    return thing


def simulate(launcher: Any, job: dict[str, Any], timeout: float) -> Child:
    """Run a simulation with every rank in a process of its own; return it as `Launcher.simulate` does."""
    count, calls = job["ranks"], job["calls"]
    broker = Broker(count, job["cluster"])
    each = {**job, "kind": "exercises_tests.grading.remote:live", "calls": None, "cluster": None}
    jobs = [each | {"rank": rank, "call": calls[rank % len(calls)]} for rank in range(count)]
    try:
        children = launcher.run(jobs, timeout, broker=broker)
        if not broker.over or any(child.died and child.outcome is None for child in children):
            if not any(child.died for child in children):
                _raise_still_running(broker, children, launcher.lasted)
            failures.raise_first_failure(children, launcher.lasted)
        ended = broker.outcome()
    finally:
        broker.close()
    first = children[0]
    first.outcome = replace(ended, printed=[child.text for child in children])
    first.printed, first.unshown = bytearray(), 0
    return first


def _raise_still_running(broker: Broker, children: list[Child], timeout: float) -> None:
    rank = broker.clock.current.index
    frames = failures.stack(children[rank])
    raise RankFailed(
        f"the simulation was still going on after {duration(timeout)}: rank {rank} was at{lines_of(frames)}",
        rank,
        "timeout",
    )


# On the rank's side


def live(job: dict[str, Any], link: Any) -> Outcome:
    """Be one rank: call the learner's function with a `dist` that asks the judge for everything."""
    rank = job["rank"]
    try:
        seed(rank)
        dist = RemoteDist(link, rank)
        current.set_rank(dist)
        fn, args = packing.unpack(job["call"])
        value = fn(dist, *args)
    except BaseException as error:
        return outcome.failed(error, rank)
    return outcome.returned(value, rank)


class RemoteGroup:
    """A group as the rank's side knows it."""

    def __init__(self, number: int, members: tuple[int, ...], me: int) -> None:
        self.number, self.ranks, self._me = number, members, me

    def rank(self) -> int:
        return self.ranks.index(self._me) if self._me in self.ranks else -1

    def size(self) -> int:
        return len(self.ranks)


class RemoteHandle:
    """An operation under way at the judge's."""

    def __init__(self, dist: RemoteDist, number: int, tensors: list[torch.Tensor]) -> None:
        self._dist, self._number, self._tensors = dist, number, tensors

    def wait(self, timeout: Any = None) -> bool:
        if self._number is not None:
            contents = [tensor.detach().contiguous() for tensor in self._tensors]
            reply = self._dist._ask("wait", (self._number, contents), {})
            self._dist._fill(self._tensors, reply)
            self._number = None
        return True

    def is_completed(self) -> bool:
        raise RuntimeError(NO_POLLING)


class RemoteDist:
    """torch.distributed for a rank whose judge is elsewhere: every call is a question and its answer."""

    ReduceOp, P2POp, GroupMember = torch_dist.ReduceOp, P2POp, torch_dist.GroupMember

    def __init__(self, link: Any, rank: int) -> None:
        self._link = link
        self.group = type("group", (), {"WORLD": None})
        self._rank = rank

    simulated = True

    def now(self) -> float:
        """Return the time of the wall: the virtual one is the judge's."""
        return time.monotonic()

    def work(self, seconds: float | None, flops: float | None) -> None:
        self._ask("work", (seconds, flops), {})

    def batch_isend_irecv(self, p2p_op_list: list[P2POp]) -> list[RemoteHandle]:
        return [getattr(self, op.name)(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            tensors = tensors_in((args, kwargs))
            if not all(tensor.is_contiguous() for tensor in tensors):
                raise ValueError(f"{name} was given a tensor that is not contiguous (a slice?): use .contiguous()")
            reply = self._ask(name, args, kwargs)
            self._fill(tensors, reply)
            if "handle" in reply:
                return RemoteHandle(self, reply["handle"], tensors)
            if "group" in reply:
                if reply["group"] < 0:
                    return self.GroupMember.NON_GROUP_MEMBER
                return RemoteGroup(reply["group"], tuple(reply["value"]), self._rank)
            return reply["value"]

        call.__name__ = name
        return call

    def _ask(self, name: str, args: tuple, kwargs: dict) -> dict[str, Any]:
        wire.put(self._link, wire.CALL, packing.pack((name, self._encode(args), self._encode(kwargs))))
        kind, body = wire.get(self._link)
        while kind == wire.WHERE:  # time is up, and faulthandler will tell where it is
            kind, body = wire.get(self._link)
        reply = packing.unpack(body)
        if "error" in reply:
            kind = getattr(builtins, reply["error"], RuntimeError)
            raise (kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError)(reply["message"])
        return reply

    def _fill(self, tensors: list[torch.Tensor], reply: dict[str, Any]) -> None:
        for tensor, content in zip(tensors, reply.get("tensors", ()), strict=False):
            if content is not None:
                tensor.detach().view(-1).copy_(content.view(-1))

    def _encode(self, thing: Any) -> Any:
        if isinstance(thing, RemoteGroup):
            return {"a group": thing.number}
        if thing is self.GroupMember.NON_GROUP_MEMBER:
            return {"a group": -1}
        if isinstance(thing, (torch_dist.ReduceOp, torch_dist.ReduceOp.RedOpType)):
            return {"an operation": str(getattr(thing, "op", thing)).split(".")[-1]}
        if isinstance(thing, torch.Tensor):
            return thing.detach()
        if isinstance(thing, dict):
            return {key: self._encode(value) for key, value in thing.items()}
        if isinstance(thing, (list, tuple)):
            return type(thing)(self._encode(part) for part in thing)
        return thing
