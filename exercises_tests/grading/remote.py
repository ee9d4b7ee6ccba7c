"""A simulated rank in a process of its own: it calls the answer with a `dist` that asks the judge for everything.

Every `dist` call is a question and its answer, both plain data (course_lib/engine/plain.py). So a rank can neither see
nor alter the clock, the counted bytes, or another rank's data; what it could break here is its own.
"""

from __future__ import annotations

import builtins
import time
from typing import Any

import torch
import torch.distributed as torch_dist

from course_lib.engine import current, outcome, packing, plain, wire
from course_lib.engine.meter import P2POp
from course_lib.engine.outcome import Outcome
from course_lib.engine.seeds import seed
from course_lib.engine.simulated.messages import NO_POLLING


def tensors_in(thing: Any) -> list[torch.Tensor]:
    """Return the tensors in nested lists, tuples and dicts, in an order that both sides share."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, dict):
        thing = list(thing.values())
    return [tensor for part in thing for tensor in tensors_in(part)] if isinstance(thing, (list, tuple)) else []


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
    return outcome.returned(value, rank, plain)


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
        wire.put(self._link, wire.CALL, plain.pack((name, self._encode(args), self._encode(kwargs))))
        kind, body = wire.get(self._link)
        while kind == wire.WHERE:  # time is up, and faulthandler will tell where it is
            kind, body = wire.get(self._link)
        reply = plain.unpack(body)
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
            return [self._encode(part) for part in thing]
        return thing
