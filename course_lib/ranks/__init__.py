"""Run a function on N real processes, from a notebook cell or a script."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.meter import Event
from course_lib.ranks import packing
from course_lib.ranks.launcher import LAUNCHER, Child, Unavailable
from course_lib.ranks.results import Deadlock, RankFailed, Results, duration, lines_of, print_ranks

__all__ = ["Deadlock", "RankFailed", "Results", "Unavailable", "each", "run", "work"]

BYTES_PER_RANK = 40e6  # resident memory that one idle rank adds, measured with torch 2.13 on Linux
MOST_SIMULATED = 4096
FLOPS = 1e12  # what `work(flops=...)` takes a device for, in FLOP/s, unless a Cluster says otherwise


def run(
    fn: Callable, *args: Any, ranks: int | None = None, on: Any = None, timeout: float = 60, debug: bool = False
) -> Results:
    """Call `fn(dist, *args)` on every rank and return what each returned, in rank order.

    `on=None` starts real processes that talk through gloo; `on="nccl"` gives each its own GPU; `on=Cluster(...)`
    simulates them with a virtual clock. Under torchrun the ranks are those that torchrun started. `ranks` is 4 unless
    given. Every rank gets its own copy of `fn`, of the globals that it uses, and of `args`.

    Raises RankFailed (Deadlock in the simulator) with the learner's own lines when a rank raises, dies, or has not
    returned after `timeout` seconds; ValueError or TypeError when the call itself makes no sense. Whatever happens,
    no process is left behind. `debug=True` turns on torch's own checking of collectives and names sends and receives
    that do not fit each other.
    """
    _check_call(fn, ranks, on, timeout)
    if "TORCHELASTIC_RUN_ID" in os.environ or ("RANK" in os.environ and "MASTER_ADDR" in os.environ):
        from course_lib.ranks import torchrun

        if on in (None, "nccl"):
            return torchrun.run(fn, args, ranks, on)
    ranks = 4 if ranks is None else ranks
    if on in (None, "nccl"):
        return _run_real(fn, args, ranks, on, timeout, debug)
    return _run_simulated(fn, args, ranks, on, timeout)


class each:  # noqa: N801 - reads as a word: run(fn, each(tensors))
    """An argument of `run` that differs from rank to rank: rank r gets `values[r]`, and nothing of the others'."""

    def __init__(self, values: Sequence) -> None:
        self.values = list(values)


def _calls(fn: Callable, args: tuple, ranks: int) -> list[bytes]:
    """Return the packed call of each rank; a single one where all are the same."""
    for argument in args:
        if isinstance(argument, each) and len(argument.values) != ranks:
            raise ValueError(f"each(...) holds {len(argument.values)} values for ranks={ranks}: it needs one for each rank")
    if not any(isinstance(argument, each) for argument in args):
        return [packing.pack_call(fn, args)]
    return [
        packing.pack_call(fn, tuple(a.values[rank] if isinstance(a, each) else a for a in args)) for rank in range(ranks)
    ]


def work(seconds: float | None = None, *, flops: float | None = None) -> None:
    """Spend time as if computing: virtual time on a simulated rank, sleep on a real one.

    Give seconds, or floating-point operations for a device of 1e12 FLOP/s (a Cluster can set its own `flops`).
    """
    if (seconds is None) == (flops is None):
        raise ValueError("work takes either seconds or flops=..., one of them")
    amount = seconds if seconds is not None else flops
    if not amount >= 0:
        raise ValueError(f"work was given {amount}: it takes a number that is not negative")
    world = sys.modules.get("course_lib.simulator.world")
    if world is not None and world.CURRENT is not None:
        world.CURRENT.work(seconds, flops)
        return
    time.sleep(seconds if seconds is not None else flops / FLOPS)


def _check_call(fn: Any, ranks: Any, on: Any, timeout: Any) -> None:
    if not callable(fn):
        raise TypeError(f"run takes a function first, not {fn!r}: run(my_function, ranks=4)")
    if "COURSE_RANK" in os.environ:
        raise RuntimeError(f"run() was called inside rank {os.environ['COURSE_RANK']}; call it from the notebook")
    if ranks is not None and (isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1):
        raise ValueError(f"ranks={ranks!r}: the number of ranks is a whole number from 1 on")
    if isinstance(on, str) and on != "nccl" or on is not None and not isinstance(on, str) and not hasattr(on, "link"):
        raise ValueError(f"on={on!r}: use None for real processes with gloo, 'nccl' for GPUs, or a Cluster(...)")
    if not isinstance(timeout, (int, float)) or not timeout > 0:
        raise ValueError(f"timeout={timeout!r}: give the seconds after which a run counts as hung, such as 60")


def _check_room(ranks: int, on: Any) -> None:
    if on == "nccl":
        import torch

        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if gpus < ranks:
            raise ValueError(
                f"ranks={ranks} on NCCL needs {ranks} GPUs, one a rank, and this machine has {gpus}; "
                "leave out on='nccl' to run on CPU processes with gloo"
            )
    free = _free_bytes()
    if ranks * BYTES_PER_RANK > free:
        raise ValueError(
            f"ranks={ranks}: so many processes need about {ranks * BYTES_PER_RANK / 1e9:,.1f} GB and {free / 1e9:,.1f} GB "
            f"are free; use at most {int(free // BYTES_PER_RANK)}, or simulate them with on=Cluster()"
        )


def _free_bytes() -> float:
    """Return the memory that new processes may take: what Linux calls available, within a container's limit."""
    free = float("inf")
    try:
        with open("/proc/meminfo") as file:
            free = int(re.search(r"MemAvailable:\s+(\d+)", file.read())[1]) * 1024
        with open("/sys/fs/cgroup/memory.max") as limit, open("/sys/fs/cgroup/memory.current") as used:
            free = min(free, int(limit.read()) - int(used.read()))
    except (OSError, TypeError, ValueError):
        pass
    return free


def _job(kind: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "folder": os.getcwd(),
        "environ": dict(os.environ),
        "path": list(sys.path),
        "argv": list(sys.argv),
        **more,
    }


def _run_real(fn: Callable, args: tuple, ranks: int, on: str | None, timeout: float, debug: bool) -> Results:
    _check_room(ranks, on)
    calls = _calls(fn, args, ranks)
    job = _job("real", ranks=ranks, backend=on or "gloo", timeout=timeout, debug=debug)
    jobs = [job | {"rank": rank, "call": calls[rank % len(calls)]} for rank in range(ranks)]
    show = _Live(ranks)
    children = LAUNCHER.run(jobs, timeout, meet=True, live=show)
    print_ranks([child.text for child in children], shown=show.text)
    _raise_first_failure(children, timeout)
    answers = [child.answer for child in children]
    values = [_value(answer["value"], rank) for rank, answer in enumerate(answers)]
    begin = min(answer["begin"] for answer in answers)
    shifts = [answer["begin"] - begin for answer in answers]
    events = [
        event._replace(start=event.start + shift, end=event.end + shift, posted=event.posted + shift)
        for answer, shift in zip(answers, shifts, strict=True)
        for event in map(Event._make, answer["events"])
    ]
    return Results(values, max(a["end"] for a in answers) - begin, events, [child.text for child in children])


def _run_simulated(fn: Callable, args: tuple, ranks: int, cluster: Any, timeout: float) -> Results:
    if ranks > MOST_SIMULATED:
        raise ValueError(f"ranks={ranks}: the simulator takes at most {MOST_SIMULATED:,}")
    cluster.check(ranks)
    job = _job("simulated", calls=_calls(fn, args, ranks), ranks=ranks, cluster=cluster.describe())
    child = LAUNCHER.simulate(job, timeout)
    answer = child.answer or {}
    printed = answer.get("printed") or (child.where or {}).get("printed") or [""] * ranks
    print_ranks(printed)
    if child.text.strip():  # what C code or a child process printed, past Python's sys.stdout
        print(child.text.rstrip())
    if answer.get("error") == "Deadlock":
        raise Deadlock(_deadlock(answer), error="deadlock")
    if child.where:
        raise RankFailed(
            f"the simulation was still going on after {duration(timeout)}: rank {child.where['rank']} was at"
            + lines_of(child.where["frames"]),
            child.where["rank"],
            "timeout",
        )
    _raise_first_failure([child], timeout, simulated=True)
    values = [_value(value, rank) for rank, value in enumerate(answer["values"])]

    return Results(values, answer["seconds"], lambda: _simulated_events(answer), printed, simulated=True)


def _simulated_events(answer: dict[str, Any]) -> list[Event]:
    """Return the events of a simulation: each message is one of its sender's and one of its receiver's."""
    import numpy as np

    events = [Event._make(event) for event in answer["events"]]
    for src, dst, asked, awaited, start, end, size in np.frombuffer(answer["transfers"]).reshape(-1, 7).tolist():
        src, dst, size = int(src), int(dst), int(size)
        events.append(Event(src, "send", start, end, asked, sent=size, messages=1, peer=dst))
        events.append(Event(dst, "recv", start, end, awaited, received=size, peer=src))
    return events


def _deadlock(answer: dict[str, Any], most: int = 8) -> str:
    """Tell a deadlock: who waits for what on which line, and the circle."""
    lines = ["no rank can go on, and none of them ever will:"]
    for rank, reason, frames in answer["waiting"][:most]:
        lines.append(f"  rank {rank} waits {reason}{lines_of(frames, most=1)}")
    if len(answer["waiting"]) > most:
        lines.append(f"  ... {len(answer['waiting']) - most} more ranks wait")
    if answer["cycle"]:
        lines.append(f"They wait in a circle: {' -> '.join(map(str, answer['cycle']))}.")
    elif answer["returned"]:
        returned = ", ".join(map(str, answer["returned"][:most])) + (", ..." if len(answer["returned"]) > most else "")
        lines.append(f"Already returned: rank {returned}.")
    return "\n".join(lines)


def _value(data: bytes, rank: int | None) -> Any:
    """Rebuild what a rank returned."""
    try:
        return LAUNCHER.unpack(data)
    except Exception as error:
        who = "it" if rank is None else f"rank {rank}"
        raise RankFailed(f"{who} returned what cannot be used here: {error}", rank, type(error).__name__) from None


class _Live:
    """Shows rank 0's lines as they come: they come first anyway, and a long run shows that it lives."""

    def __init__(self, ranks: int) -> None:
        self.text, self._width = "", len(str(ranks - 1))

    def __call__(self, text: str) -> None:
        self.text += text
        for line in text.splitlines():
            print(f"rank {0:>{self._width}} | {line}", flush=True)


def _raise_first_failure(
    children: list[Child], timeout: float, simulated: bool = False, alone: bool = False
) -> None:
    """Raise the failure that happened first, if any: an exception, a death, or a hang."""
    dead = [child for child in children if child.answer is None and child.died]
    raised = [child.answer for child in children if child.answer and "error" in child.answer]
    raised.sort(key=lambda answer: (_is_victim(answer), answer["when"]))
    if dead and (not raised or _is_victim(raised[0])):
        child = dead[0]
        who = "it" if alone else "a simulated rank" if simulated else f"rank {child.index}"
        raise RankFailed(f"{who} {_how_it_died(child)}", None if simulated else child.index, _kind_of_death(child))
    if raised:
        raise _failure_of(raised[0])
    stuck = [child for child in children if child.answer is None]
    if stuck:
        raise RankFailed(_hang(stuck, children, timeout, alone), stuck[0].index, "timeout")


def _is_victim(answer: dict[str, Any]) -> bool:
    """Return whether an exception says only that another rank went away."""
    text = answer["message"].lower()
    words = ("connection closed by peer", "connection reset by peer", "broken pipe", "connection refused", "socket")
    return answer["error"] in ("RuntimeError", "DistBackendError", "DistNetworkError") and any(w in text for w in words)


def _failure_of(answer: dict[str, Any]) -> RankFailed:
    rank, error, message, frames = answer["rank"], answer["error"], answer["message"], answer["frames"]
    if error == "NotImplementedError" and not message:
        name = frames[-1][2] if frames else "an exercise"
        return RankFailed(f"needs {name}: write it, or borrow it", rank, error, name)
    who = "" if rank is None else f"rank {rank} "
    said = f"{who}raised {error}" + (f": {message}" if message else "")
    return RankFailed(said + lines_of(frames), rank, error, message)


def _kind_of_death(child: Child) -> str:
    return "signal" if os.WIFSIGNALED(child.status) else "exit"


def _how_it_died(child: Child) -> str:
    last = [line for line in child.text.splitlines() if line.strip()][-3:]
    said = f"; the last it printed was: {' / '.join(last)}" if last else ""
    if os.WIFEXITED(child.status):
        code = os.WEXITSTATUS(child.status)
        return f"ended its process with exit code {code} (os._exit, or a crash below Python), so it returned nothing{said}"
    number = os.WTERMSIG(child.status)
    reasons = {
        signal.SIGKILL: "killed (SIGKILL): by the system for lack of memory, or by hand",
        signal.SIGABRT: "aborted in C++ (SIGABRT): a mismatch of shapes or dtypes between ranks does that",
        signal.SIGSEGV: "crashed in C code (SIGSEGV)",
    }
    return f"was {reasons.get(number, f'ended by signal {signal.Signals(number).name}')}{said}"


def _hang(stuck: list[Child], children: list[Child], timeout: float, alone: bool) -> str:
    lines = [f"still running after {duration(timeout)}, and ended:"]
    for child in children:
        frames = _stack(child)
        if alone:
            return f"still running after {duration(timeout)}, and ended; it was at{lines_of(frames, most=2)}"
        if child not in stuck:
            lines.append(f"  rank {child.index} had returned")
        elif frames:
            lines.append(f"  rank {child.index} was at{lines_of(frames, most=2)}")
        else:
            lines.append(f"  rank {child.index} was outside your function")
    return "\n".join(lines)


def _stack(child: Child) -> list[tuple[str, int, str]]:
    """Return the learner's frames in what faulthandler dumped, outermost first."""
    found = re.findall(r'File "(.*)", line (\d+) in (.*)', child.stack.decode("utf-8", "replace"))
    return [(file, int(line), name) for file, line, name in reversed(found) if not packing.is_library(file)]
