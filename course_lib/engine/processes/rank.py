"""The main program of a rank: unpack the learner's function, join the process group, call it, send back the outcome.

Why not torch.multiprocessing or torchrun's agents? They start Python anew for every rank, which imports torch for two
seconds (bench/bench_ranks.py compares them). Why does a rank end by os._exit, without destroying its process group? At
interpreter shutdown gloo's threads still hold work, and C++ aborts; so the notebook collects all outcomes, then sends
LEAVE, and no rank closes a connection that another one still reads.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as torch_dist

from course_lib.engine import current, meter, outcome, packing, plain, wire
from course_lib.engine.outcome import Failed, Outcome, Returned
from course_lib.engine.seeds import seed
from course_lib.engine.simulated import world


def main(link: socket.socket, trace: int, port: int | None, slow: Sequence[str]) -> int:
    """Run jobs until the notebook sends LEAVE or is gone, and return the exit code.

    `port` is the listening socket of rank 0's store, `slow` are modules and packages whose import is reported. Only a
    simulation that has left nothing behind gets more than one job.
    """
    faulthandler.register(signal.SIGUSR1, file=trace, all_threads=False)
    faulthandler.enable(file=trace, all_threads=True)  # a crash may come in a thread of gloo's, without Python
    kind, body = wire.get(link)
    while kind == wire.JOB:
        _serve(packing.unpack(body), link, port, slow)
        kind = wire.LEAVE  # until then it stays: a rank that left early would break its peers' connections
        with contextlib.suppress(EOFError, OSError):
            kind, body = wire.get(link)
    return 0


def _serve(job: dict[str, Any], link: socket.socket, port: int | None, slow: Sequence[str]) -> None:
    """Run one job and send its outcome."""
    _settle(job)
    before = set(sys.modules)
    packs = plain if job.get("plain") else packing  # whoever grades takes nothing else
    if job["kind"] == "simulated":
        ended = world.simulate(job, link)
    elif job["kind"] == "real":
        ended = _real(job, port, packs)
    elif job["kind"] == "alone":
        ended = _alone(job, packs)
    else:  # "module:function": the grader's
        module, name = job["kind"].split(":")
        ended = getattr(importlib.import_module(module), name)(job, link)
    new = [name for name in sys.modules if name not in before]
    ended.imported = [name for name in new if name in slow or name.partition(".")[0] in slow]
    sys.stdout.flush()
    sys.stderr.flush()
    wire.put(link, wire.DONE, outcome.pack(ended, packs))


def _settle(job: dict[str, Any]) -> None:
    """Take over the notebook's working directory, environment, sys.path, sys.argv and, if given, resource limits."""
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


def _real(job: dict[str, Any], port: int | None, packs: Any) -> Outcome:
    rank, ranks, backend = job["rank"], job["ranks"], job["backend"]
    # SCHED_BATCH: a rank that a message wakes does not preempt the one that runs, so on two cores an all-reduce of four
    # ranks takes half the time. Not every system knows it, or allows it.
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
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
        patience = timedelta(seconds=job["timeout"] + 60)  # the notebook's timeout comes first, and says more
        store = torch_dist.TCPStore(
            "127.0.0.1", job["port"], ranks, rank == 0, patience, wait_for_workers=False, master_listen_fd=port
        )
        torch_dist.init_process_group(
            backend, store=store, rank=rank, world_size=ranks, timeout=patience, device_id=device
        )
        seed(rank)
        return call(job["call"], rank, backend, job["debug"], packs)
    except BaseException as error:
        return outcome.failed(error, rank)


def call(packed: bytes, rank: int, backend: str, debug: bool, packs: Any = packing) -> Returned | Failed:
    """Call the learner's function with a Meter as `dist`, in an initialized process group. Raises what it raises."""
    dist = meter.Meter(debug=debug)
    current.set_rank(dist)
    fn, args = packing.unpack(packed)
    dist.begin = begin = time.monotonic()
    value = fn(dist, *args)
    if backend == "nccl":
        torch.cuda.synchronize()
    end = time.monotonic()
    ended = outcome.returned(value, rank, packs)
    if isinstance(ended, Returned):
        ended.begin, ended.end, ended.events = begin, end, [tuple(event) for event in dist.events]
    return ended


def _alone(job: dict[str, Any], packs: Any) -> Outcome:
    """Call a function that is not distributed, in its own process."""
    try:
        seed(0)
        fn, args = packing.unpack(job["call"])
        return outcome.returned(fn(*args), None, packs)
    except BaseException as error:
        return outcome.failed(error, None)
