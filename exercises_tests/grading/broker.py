"""The judge's side of a simulation: the clock, the links and the meter, while each rank's code is a process elsewhere.

Every rank of a `Broker` waits for what its process (remote.py) asks for: each `dist` call arrives as a name and plain
arguments, is carried out by the same SimulatedDist as in a notebook, and what it changed goes back. A refusal goes back
if it says nothing but what the asker did itself; one that tells of another rank ends the run.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as torch_dist

from course_lib import Cluster, Event, RankFailed
from course_lib.engine import failures, outcome, plain, wire
from course_lib.engine.outcome import Failed, Returned
from course_lib.engine.processes.watch import Child
from course_lib.engine.simulated import clock, groups, turns
from course_lib.engine.simulated.dist import SimulatedDist
from course_lib.engine.simulated.groups import Group
from course_lib.engine.simulated.world import World
from exercises_tests.grading import trail
from exercises_tests.grading.remote import tensors_in

MOST_WORDS = 4000  # characters of a refusal
MOST_MESSAGE = 64 << 20  # bytes of one message from an answer
MOST_HANDLES = 100_000  # operations under way that one rank may have
MOST_HELD = 256 << 20  # bytes of tensors that all ranks of a run may have under way
HINT = 8  # bytes that an empty message counts whose tag or whose sender tells the receiver something
OVER = "this run is over: what this rank and another one do does not fit together"
CALLS = {
    "send", "recv", "isend", "irecv", "new_group", "all_reduce", "reduce", "broadcast", "all_gather", "gather",
    "scatter", "reduce_scatter", "all_to_all", "barrier", "all_gather_into_tensor", "all_gather_single",
    "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all_single", "is_initialized", "is_available",
    "get_backend", "get_rank", "get_world_size", "get_process_group_ranks", "get_global_rank", "get_group_rank",
}  # fmt: skip
"""What a rank may ask for: all of SimulatedDist but what handles objects, which would be unpickled here."""


class Broker(World):
    """A simulation that does for ranks in other processes what they ask for."""

    def __init__(self, ranks: int, cluster: Cluster) -> None:
        super().__init__(ranks, cluster)
        self.clock.hint = HINT
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

    def returned(self, value: Any, rank: int) -> Returned:
        return Returned(value)  # which arrived packed

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
                    reply = self._do(dist, handles, groups, *asked(body))
                except Exception as error:
                    if tells_of_others(error):
                        raise outcome.Told(self._last_words(error, child)) from None
                    reply = {"error": type(error).__name__, "message": str(error)[:MOST_WORDS]}
                wire.put(child.link, wire.RETURN, plain.pack(reply))
        except (EOFError, OSError):  # the process is gone: whoever watches it says how, and then calls close()
            self._closing.wait()
            raise SystemExit from None

    def _last_words(self, error: Exception, child: Child) -> Failed:
        """End a rank that does not fit another one; return what is wrong, with the lines that it was on."""
        wire.put(child.link, wire.RETURN, plain.pack({"error": type(error).__name__, "message": OVER}))
        kind, body = wire.get(child.link, MOST_MESSAGE)
        child.outcome = believed(body, child.index) if kind == wire.DONE else None
        frames = child.outcome.frames if isinstance(child.outcome, Failed) else []
        other = getattr(error, "other", None)
        child.outcome = Failed(type(error).__name__, str(error), frames, child.index, other=other)
        return child.outcome

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
            raise TooMuch(
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


class TooMuch(RuntimeError):
    """All ranks of a run have more under way than a judge holds."""


def tells_of_others(error: Exception) -> bool:
    """Return whether a refusal may depend on what another rank did, and not on the arguments of the asker alone.

    Arguments are checked before a call comes to the clock, to a meeting of ranks, or to the end of an operation. A rank
    that could catch what is raised there, and go on, would learn something without a message.
    """
    place = error.__traceback__
    while place is not None:
        code = place.tb_frame.f_code
        if code.co_filename in WHERE_RANKS_MEET or code.co_name in ("wait", "finish", "fill"):
            return True
        place = place.tb_next
    return isinstance(error, TooMuch)


WHERE_RANKS_MEET = {module.__file__ for module in (clock, groups, turns)}


def asked(body: bytes) -> tuple[str, list, dict]:
    """Return what a rank asks for. Raises ValueError for anything but a name and arguments."""
    name, args, kwargs = plain.unpack(body)
    if not (type(name) is str and type(args) is list and type(kwargs) is dict and all(map(_is_text, kwargs))):
        raise plain.NotPlain("no call of dist")
    return name, args, kwargs


def _is_text(thing: Any) -> bool:
    return type(thing) is str


def _bytes_of(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def believed(body: bytes, index: int | None) -> Returned | Failed:
    """Return how a process says that it ended, with nothing in it but text and numbers of the right kind."""
    try:
        kind, fields = plain.unpack(body)
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
        return [_decode(part, groups) for part in thing]
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
        launcher.trail = trail.of(broker)
    first = children[0]
    first.outcome = replace(ended, printed=[child.text for child in children])
    first.printed, first.unshown = bytearray(), 0
    return first


def _raise_still_running(broker: Broker, children: list[Child], timeout: float) -> None:
    rank = broker.clock.current.index
    frames = failures.stack(children[rank])
    raise RankFailed(failures.still_going(rank, frames, timeout), rank, "timeout")
