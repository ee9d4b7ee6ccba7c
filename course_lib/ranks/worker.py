"""What happens inside a rank: rebuild the learner's function, join the process group, call it, send back what came."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import random
import signal
import socket
import sys
import time
import traceback
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as torch_dist

from course_lib import meter
from course_lib.ranks import packing, wire, zygote

TORCH_SEED = 67280421310721  # torch's own default


def main(link: socket.socket, trace: int, port: int | None = None) -> int:
    """Serve jobs until the notebook wants no more, and return the exit code.

    `port` is the listening socket of rank 0's store. More than one job comes only to a simulation that has told that it
    leaves nothing behind.
    """
    faulthandler.register(signal.SIGUSR1, file=trace, all_threads=False)
    faulthandler.enable(file=trace, all_threads=True)  # a crash may come in a thread of gloo's, without Python
    kind, body = wire.get(link)
    while kind == wire.JOB:
        _serve(packing.unpack(body), link, port)
        kind = wire.LEAVE  # until then it stays: a rank that left early would break its peers' connections
        with contextlib.suppress(EOFError, OSError):
            kind, body = wire.get(link)
    return 0


def _serve(job: dict[str, Any], link: socket.socket, port: int | None) -> None:
    """Do one job and send its answer."""
    _settle(job)
    absent = [name for name in zygote.LATER if name not in sys.modules]
    if job["kind"] == "simulated":
        from course_lib.simulator import world

        answer = world.simulate(job, link)
    elif job["kind"] == "real":
        answer = _real(job, port)
    elif job["kind"] == "alone":
        answer = _alone(job)
    else:  # "module:function", of whoever runs ranks in yet another way
        module, name = job["kind"].split(":")
        answer = getattr(importlib.import_module(module), name)(job, link)
    answer["imported"] = [name for name in absent if name in sys.modules]
    sys.stdout.flush()
    sys.stderr.flush()
    wire.put(link, wire.FAILED if "error" in answer else wire.DONE, packing.pack(answer))


def _settle(job: dict[str, Any]) -> None:
    """Make this process look like the one that asked: folder, environment, module path."""
    with contextlib.suppress(OSError):
        os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environ"])
    sys.path[:] = job["path"]
    sys.argv[:] = job["argv"]
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)  # noqa: SIM115
    for limit, value in job.get("limits", ()):
        import resource

        resource.setrlimit(limit, (value, value))


def seed(rank: int) -> None:
    """Start random numbers as a fresh process has them, but repeatably: torch alike on all ranks, the others not.

    For a process just forked, in which no GPU has drawn a number yet; torch.manual_seed would take it milliseconds.
    """
    torch.default_generator.manual_seed(TORCH_SEED)
    np.random.seed(rank)
    random.seed(rank)


def _real(job: dict[str, Any], port: int | None) -> dict[str, Any]:
    rank, ranks, backend = job["rank"], job["ranks"], job["backend"]
    try:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), COURSE_RANK=str(rank))
        os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
        if job["debug"]:
            torch_dist.set_debug_level(torch_dist.DebugLevel.DETAIL)
        device = None
        if backend == "nccl":
            device = torch.device("cuda", rank)
            torch.cuda.set_device(device)
            torch.set_default_device(device)
        patience = timedelta(seconds=job["timeout"] + 60)  # the notebook ends a hang, with a better sentence
        store = torch_dist.TCPStore(
            "127.0.0.1", job["port"], ranks, rank == 0, patience, wait_for_workers=False, master_listen_fd=port
        )
        torch_dist.init_process_group(
            backend, store=store, rank=rank, world_size=ranks, timeout=patience, device_id=device
        )
        seed(rank)
        dist = meter.dist.CURRENT = meter.Meter(debug=job["debug"])
        fn, args = packing.unpack(job["call"])
        dist.begin = begin = time.monotonic()
        value = fn(dist, *args)
        if backend == "nccl":
            torch.cuda.synchronize()
        end = time.monotonic()
    except BaseException as error:
        return failure(error, rank)
    return give_back(value, rank) | {"events": [tuple(event) for event in dist.events], "begin": begin, "end": end}


def _alone(job: dict[str, Any]) -> dict[str, Any]:
    """Call a function that is not distributed, in a process of its own."""
    try:
        seed(0)
        fn, args = packing.unpack(job["call"])
        value = fn(*args)
    except BaseException as error:
        return failure(error, None)
    return give_back(value, None)


def give_back(value: Any, rank: int | None) -> dict[str, Any]:
    """Return a rank's value ready to travel, or the failure that says why it cannot."""
    try:
        return {"value": packing.pack(value)}
    except Exception as error:
        message = f"a returned {type(value).__name__} cannot be sent back ({type(error).__name__}: {error})"
        return failure(TypeError(f"{message}; return tensors, numbers, text, lists or dicts"), rank)


class Told(Exception):  # noqa: N818
    """A failure that another process has put into words already."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer["message"])
        self.answer = answer


def failure(error: BaseException, rank: int | None) -> dict[str, Any]:
    """Return what the notebook needs to show an exception: when, what, and the learner's own lines."""
    if isinstance(error, Told):
        return error.answer
    frames = [
        (frame.filename, frame.lineno, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
        if not packing.is_library(frame.filename)
    ]
    if isinstance(error, SyntaxError) and error.filename and not packing.is_library(error.filename):
        frames.append((error.filename, error.lineno or 0, ""))
    message = str(error).strip() or ""
    return {
        "error": type(error).__name__,
        "message": message,
        "frames": frames,
        "rank": rank,
        "when": time.monotonic(),
        "behind": _behind(error),
        "other": getattr(error, "other", None),
    }


def _behind(error: BaseException) -> list[tuple[str, str]]:
    """Return the class and message of each exception that this one was raised from or while handling."""
    behind: list[tuple[str, str]] = []
    while (error := error.__cause__ or error.__context__) is not None and len(behind) < 10:
        behind.append((type(error).__name__, str(error)))
    return behind
