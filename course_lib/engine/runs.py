"""One run: makes the jobs, has the launcher run them, and turns the outcomes into Results or an exception.

Why is a job a dict and not a dataclass? It is pickled and sent to a process that may be a grader's: graders add fields
of their own (limits, kinds) by `job | {...}`, and the fields differ by kind.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from course_lib.engine import failures
from course_lib.engine.outcome import Deadlocked, Outcome, Simulated
from course_lib.engine.processes import launcher
from course_lib.events import Event
from course_lib.results import Deadlock, Interrupted, RankFailed, Results, print_ranks

BYTES_PER_RANK = 40e6  # resident memory that one idle rank adds, measured with torch 2.13 on Linux
MOST_SIMULATED = 4096


def job(kind: str, **more: Any) -> dict[str, Any]:
    """Return a job: the fields that its `kind` needs, and the working directory, environment and sys.path to use."""
    return {
        "kind": kind,
        "folder": os.getcwd(),
        "environ": dict(os.environ),
        "path": list(sys.path),
        "argv": list(sys.argv),
        **more,
    }


def value(data: bytes, rank: int | None) -> Any:
    """Unpack what a rank returned. Raises RankFailed when that cannot be unpickled here."""
    try:
        return launcher.LAUNCHER.unpack(data)
    except Exception as error:
        who = "it" if rank is None else f"rank {rank}"
        raise RankFailed(f"{who} returned what cannot be used here: {error}", rank, type(error).__name__) from None


# On real ranks


def real(calls: list[bytes], ranks: int, on: str | None, timeout: float, debug: bool) -> Results:
    """Run packed calls, one for each rank or one for all, on processes with gloo or NCCL."""
    _check_room(ranks, on)
    one = job("real", ranks=ranks, backend=on or "gloo", timeout=timeout, debug=debug)
    jobs = [one | {"rank": rank, "call": calls[rank % len(calls)]} for rank in range(ranks)]
    show = _Live(ranks)
    try:
        children = launcher.LAUNCHER.run(jobs, timeout, meet=True, live=show)
    except Interrupted as stopped:
        print_ranks(stopped.printed, shown=show.text)
        raise
    print_ranks([child.text for child in children], shown=show.text)
    failures.raise_first_failure(children, timeout, debug=debug)
    outcomes = [child.outcome for child in children]
    launcher.LAUNCHER.prepare(outcomes)
    values = [value(outcome.value, rank) for rank, outcome in enumerate(outcomes)]
    begin = min(outcome.begin for outcome in outcomes)
    events = [
        event._replace(start=event.start + late, end=event.end + late, posted=event.posted + late)
        for outcome in outcomes
        for late in [outcome.begin - begin]
        for event in map(Event._make, outcome.events)
    ]
    return Results(values, max(outcome.end for outcome in outcomes) - begin, events, [child.text for child in children])


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
    """Return the memory that new processes may take: MemAvailable, within the container's (cgroup's) limit."""
    free = float("inf")
    with contextlib.suppress(OSError, TypeError, ValueError):
        free = int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024
        limit, used, parts = (Path(container, f"memory.{name}").read_text() for name in ("max", "current", "stat"))
        files = re.findall(r"^(?:in)?active_file (\d+)$", parts, re.MULTILINE)  # page cache: reclaimable
        free = min(free, int(limit) - int(used) + sum(map(int, files)))
    return free


class _Live:
    """Prints rank 0's lines as they arrive: they come first anyway, and a long run shows progress."""

    def __init__(self, ranks: int) -> None:
        self.text, self._width = "", len(str(ranks - 1))

    def __call__(self, text: str) -> None:
        self.text += text
        for line in text.splitlines():
            print(f"rank {0:>{self._width}} | {line}", flush=True)


# On simulated ranks


def simulated(calls: list[bytes], ranks: int, cluster: Any, timeout: float) -> Results:
    """Run packed calls on simulated ranks, all in one process."""
    if ranks > MOST_SIMULATED:
        raise ValueError(f"ranks={ranks}: the simulator takes at most {MOST_SIMULATED:,}")
    cluster.check(ranks)
    shown = os.environ.get("RANK", "0") == "0"  # under torchrun every rank simulates, and rank 0 shows it
    try:
        child = launcher.LAUNCHER.simulate(job("simulated", calls=calls, ranks=ranks, cluster=cluster), timeout)
    except Interrupted as stopped:
        print_ranks(stopped.printed if shown else [])
        raise
    ended = child.outcome
    printed = _printed(ended) or (child.where.printed if child.where else [""] * ranks)
    if shown:
        print_ranks(printed)
    if child.text.strip():  # what C code or a child process printed, past Python's sys.stdout
        print(child.text.rstrip())
    if isinstance(ended, Deadlocked):
        raise Deadlock(failures.deadlock(ended), error="deadlock")
    if child.where:
        said = failures.still_going(child.where.rank, child.where.frames, timeout)
        raise RankFailed(said, child.where.rank, "timeout")
    failures.raise_first_failure([child], timeout, simulated=True)
    launcher.LAUNCHER.prepare([ended])
    values = [value(data, rank) for rank, data in enumerate(ended.values)]
    return Results(values, ended.seconds, lambda: _events(ended), printed, True, shown)


def _printed(ended: Outcome | None) -> list[str]:
    return list(ended.printed) if ended is not None else []


def _events(ended: Simulated) -> list[Event]:
    """Return the events of a simulation: each message is one of its sender's and one of its receiver's."""
    events = [Event._make(event) for event in ended.events]
    for src, dst, asked, awaited, start, end, size in np.frombuffer(ended.transfers).reshape(-1, 7).tolist():
        src, dst, size = int(src), int(dst), int(size)
        events.append(Event(src, "send", start, end, asked, sent=size, messages=1, peer=dst))
        events.append(Event(dst, "recv", start, end, awaited, received=size, peer=src))
    return events
