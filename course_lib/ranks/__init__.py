"""Run a function on N real processes, from a notebook cell or a script."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from course_lib.meter import Event, sleep
from course_lib.ranks import packing
from course_lib.ranks.failures import deadlock
from course_lib.ranks.failures import raise_first_failure as _raise_first_failure
from course_lib.ranks.failures import stack as _stack  # noqa: F401 - for those who run ranks elsewhere
from course_lib.ranks.launcher import LAUNCHER, Unavailable
from course_lib.ranks.results import (
    Deadlock,
    Interrupted,
    Misfit,
    RankFailed,
    Results,
    duration,
    in_a_sentence,
    lines_of,
    print_ranks,
    short,
)

__all__ = ["Deadlock", "RankFailed", "Results", "Unavailable", "each", "run", "work"]

BYTES_PER_RANK = 40e6  # resident memory that one idle rank adds, measured with torch 2.13 on Linux
MOST_SIMULATED = 4096
FLOPS = 1e12  # what `work(flops=...)` takes a device for, in FLOP/s, unless a Cluster says otherwise


def run(
    fn: Callable, *args: Any, ranks: int | None = None, on: Any = None, timeout: float = 60, debug: bool = False,
    **unknown: Any,
) -> Results:  # fmt: skip
    """Call `fn(dist, *args)` on every rank and return what each returned, in rank order.

    `on=None` starts real processes that talk through gloo; `on="nccl"` gives each its own GPU; `on=Cluster(...)`
    simulates them with a virtual clock. Under torchrun the ranks are those that torchrun started. `ranks` is 4 unless
    given. Every rank gets its own copy of `fn`, of the globals that it uses, and of `args`.

    Raises RankFailed (Deadlock in the simulator) with the learner's own lines when a rank raises, dies, or has not
    returned after `timeout` seconds; ValueError or TypeError when the call itself makes no sense. Whatever happens,
    no process is left behind.

    `debug=True` names both sides of messages and collectives that do not fit each other on real ranks. Without it gloo
    fills a buffer of another dtype, or the beginning of a longer one, and says nothing; or it hangs, or ends the rank.
    """
    with in_a_sentence():
        _check_call(fn, ranks, on, timeout)
        under_torchrun = on in (None, "nccl") and "RANK" in os.environ and "MASTER_ADDR" in os.environ
        _check_each(args, int(os.environ["WORLD_SIZE"]) if under_torchrun else 4 if ranks is None else ranks)
        _check_arguments(fn, args, ranks, unknown)
        if under_torchrun:
            from course_lib.ranks import torchrun

            args = tuple(_for_rank(argument, int(os.environ["RANK"])) for argument in args)
            return torchrun.run(fn, args, ranks, on, timeout, debug)
        ranks = 4 if ranks is None else ranks
        if on in (None, "nccl"):
            return _run_real(fn, args, ranks, on, timeout, debug)
        return _run_simulated(fn, args, ranks, on, timeout)


class each:  # noqa: N801 - reads as a word: run(fn, each(tensors))
    """An argument of `run` that differs from rank to rank: rank r gets `values[r]`, and nothing of the others'."""

    def __init__(self, values: Sequence) -> None:
        with in_a_sentence():
            if not isinstance(values, Iterable):
                raise TypeError(f"each({short(values)}): give one value for each rank, as in each([1, 2, 3, 4])")
            self.values = list(values)


def _check_each(args: tuple, ranks: int) -> None:
    for argument in args:
        if isinstance(argument, each) and len(argument.values) != ranks:
            raise ValueError(f"each(...) holds {len(argument.values)} values for ranks={ranks}: it needs one for each")


def _for_rank(argument: Any, rank: int) -> Any:
    return argument.values[rank] if isinstance(argument, each) else argument


def _calls(fn: Callable, args: tuple, ranks: int) -> list[bytes]:
    """Return the packed call of each rank; a single one where all are the same."""
    if not any(isinstance(argument, each) for argument in args):
        return [packing.pack_call(fn, args)]
    return [
        packing.pack_call(fn, tuple(_for_rank(argument, rank) for argument in args)) for rank in range(ranks)
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
    sleep(seconds if seconds is not None else flops / FLOPS)


def _check_call(fn: Any, ranks: Any, on: Any, timeout: Any) -> None:
    if not callable(fn):
        raise TypeError(f"run takes a function first, not {fn!r}: run(my_function, ranks=4)")
    if "COURSE_RANK" in os.environ:
        raise RuntimeError(f"run() was called inside rank {os.environ['COURSE_RANK']}; call it from the notebook")
    if ranks is not None and (isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1):
        raise ValueError(f"ranks={ranks!r}: the number of ranks is a whole number from 1 on")
    if isinstance(on, type):
        raise ValueError(f"on={on.__name__} is a class: write on={on.__name__}(), with parentheses")
    if isinstance(on, str) and on != "nccl" or on is not None and not isinstance(on, str) and not hasattr(on, "link"):
        raise ValueError(f"on={on!r}: use None for real processes with gloo, 'nccl' for GPUs, or a Cluster(...)")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e7:
        raise ValueError(f"timeout={timeout!r}: give the seconds after which a run counts as hung, such as 60")


def _check_arguments(fn: Callable, args: tuple, ranks: int | None, unknown: dict[str, Any]) -> None:
    """Refuse names that `run` does not know, and arguments that `fn` does not take, before anything starts."""
    try:
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):  # a function in C need not say what it takes
        signature = inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])
    name = getattr(fn, "__name__", "fn")
    for word, value in unknown.items():
        near = difflib.get_close_matches(word, ("ranks", "on", "timeout", "debug"), 1, 0.7)
        if word not in signature.parameters and not near and type(value) is int:
            near = ["ranks"]  # world_size, nprocs, n
        hint = f"did you mean {near[0]}={short(value)}?" if near else f"what {name} takes follows it, without names"
        raise TypeError(f"run takes ranks=, on=, timeout= and debug=, but not {word}=: {hint}")
    try:
        signature.bind(None, *args)
    except TypeError as error:
        hint = ""
        if args and type(args[-1]) is int and ranks is None and _takes(signature, len(args)):
            hint = f"; did you mean ranks={args[-1]}?"
        call = ", ".join(["dist", *(text if len(text := short(value)) < 30 else "..." for value in args)])
        raise Misfit(
            f"run calls fn(dist, *args), here {name}({call}), but {name} takes {signature}: {error}{hint}",
            None,
            "TypeError",
            str(error),
        ) from None


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


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
            f"ranks={ranks}: so many processes need about {ranks * BYTES_PER_RANK / 1e9:,.1f} GB, "
            f"and {free / 1e9:,.1f} GB are free; use at most {int(free // BYTES_PER_RANK)}, "
            "or simulate them with on=Cluster()"
        )


def _free_bytes(container: str = "/sys/fs/cgroup") -> float:
    """Return the memory that new processes may take: what Linux calls available, within a container's limit."""
    free = float("inf")
    with contextlib.suppress(OSError, TypeError, ValueError):
        free = int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024
        limit, used, parts = (Path(container, f"memory.{name}").read_text() for name in ("max", "current", "stat"))
        files = re.findall(r"^(?:in)?active_file (\d+)$", parts, re.MULTILINE)  # read from disk: given up when needed
        free = min(free, int(limit) - int(used) + sum(map(int, files)))
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
    try:
        children = LAUNCHER.run(jobs, timeout, meet=True, live=show)
    except Interrupted as stopped:
        print_ranks(stopped.printed, shown=show.text)
        raise
    print_ranks([child.text for child in children], shown=show.text)
    _raise_first_failure(children, timeout, debug=debug)
    answers = [child.answer for child in children]
    LAUNCHER.prepare(answers)
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
    shown = os.environ.get("RANK", "0") == "0"  # under torchrun every rank simulates, and rank 0 shows it
    if shown:
        print_ranks(printed)
    if child.text.strip():  # what C code or a child process printed, past Python's sys.stdout
        print(child.text.rstrip())
    if answer.get("error") == "Deadlock":
        raise Deadlock(deadlock(answer), error="deadlock")
    if child.where:
        raise RankFailed(
            f"the simulation was still going on after {duration(timeout)}: rank {child.where['rank']} was at"
            + lines_of(child.where["frames"]),
            child.where["rank"],
            "timeout",
        )
    _raise_first_failure([child], timeout, simulated=True)
    LAUNCHER.prepare([answer])
    values = [_value(value, rank) for rank, value in enumerate(answer["values"])]

    return Results(values, answer["seconds"], lambda: _simulated_events(answer), printed, True, shown)


def _simulated_events(answer: dict[str, Any]) -> list[Event]:
    """Return the events of a simulation: each message is one of its sender's and one of its receiver's."""
    import numpy as np

    events = [Event._make(event) for event in answer["events"]]
    for src, dst, asked, awaited, start, end, size in np.frombuffer(answer["transfers"]).reshape(-1, 7).tolist():
        src, dst, size = int(src), int(dst), int(size)
        events.append(Event(src, "send", start, end, asked, sent=size, messages=1, peer=dst))
        events.append(Event(dst, "recv", start, end, awaited, received=size, peer=src))
    return events


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
