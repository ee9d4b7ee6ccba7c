"""`run` under torchrun: the ranks are the processes that torchrun started, and all of them call `run` together.

Each run has its own process group. Every rank publishes its outcome in torchrun's store and reads the others', so all
raise the same RankFailed; a failing rank destroys its process group, which unblocks those that wait for it.

Two promises are weaker than in a notebook: a rank that dies (a signal, os._exit) is reported by torchrun in its own
words; a rank that hangs is reported by the others up to 30 s later, and killed by torchrun once these have exited.

Why not one process group for the whole script, as scripts have? After a failure gloo's connections are broken for good,
and the next `run` would fail because of the last one. Why not an elastic agent of our own? The launch line must be the
one that clusters use.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as torch_dist

from course_lib.engine import current, outcome, packing, seeds
from course_lib.engine.failures import first, hang, raise_raised
from course_lib.engine.outcome import Failed, Returned
from course_lib.engine.processes.rank import call
from course_lib.events import Event
from course_lib.results import RankFailed, Results, print_ranks

MOST_PRINTED = 100_000  # characters kept of what one rank prints
SLACK = 30.0  # seconds by which a rank may be late after its timeout
_RUNS = 0
_STORE: Any = None


def run(
    fn: Callable, args: tuple, ranks: int | None, on: str | None, timeout: float = 60, debug: bool = False
) -> Results:
    """Call `fn(dist, *args)` on this rank and return the results of all. Raises as `ranks.run` does, on every rank."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if ranks is not None and ranks != world:
        raise ValueError(
            f"ranks={ranks}, but torchrun started {world}: leave ranks out, or start torchrun with {ranks} processes"
        )
    if torch_dist.is_initialized():
        raise RuntimeError("run() makes the process group itself under torchrun: leave out your init_process_group")
    backend = on or "gloo"
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if backend == "nccl" and torch.cuda.device_count() <= local:
        gpus = torch.cuda.device_count()
        raise ValueError(f"rank {rank} has no GPU of its own: this machine has {gpus}; leave out on='nccl' to use gloo")
    store, patience = _next_store(timeout), timedelta(seconds=timeout + 1)  # by then a rank has noted where it is
    with _group(backend, store, rank, world, patience, local):
        deadline = time.monotonic() + timeout + SLACK
        with _kept_print() as text, _noted_where(store, rank, timeout):
            ended = _call(fn, args, rank, backend, debug)
        if isinstance(ended, Failed):
            torch_dist.destroy_process_group()  # frees the ranks that wait for this one
        _tell(store, rank, world, ended, timeout, deadline)
        ended.printed = text.kept()
        carrier = torch_dist.new_group(backend="gloo") if backend == "nccl" else None
        everything: list = [None] * world
        torch_dist.all_gather_object(everything, outcome.pack(ended), carrier)
    outcomes = [outcome.unpack(data) for data in everything]
    texts = [one.printed for one in outcomes]
    if rank == 0:
        print_ranks(texts)
    events = [Event._make(event) for one in outcomes for event in one.events]
    values = [packing.unpack(one.value) for one in outcomes]
    seconds = max(one.end - one.begin for one in outcomes)
    return Results(values, seconds, events, texts, shown=rank == 0)


def _next_store(timeout: float) -> Any:
    """Return the store of this run: torchrun's, with a prefix that all ranks agree on."""
    global _RUNS, _STORE
    if _STORE is None:
        _STORE, _, _ = next(torch_dist.rendezvous("env://"))
    _STORE.set_timeout(timedelta(seconds=timeout + SLACK))
    _RUNS += 1
    return torch_dist.PrefixStore(f"course/{_RUNS}", _STORE)


@contextlib.contextmanager
def _group(backend: str, store: Any, rank: int, world: int, patience: timedelta, local: int) -> Iterator[None]:
    """Initialize the process group of one run, and destroy it afterwards."""
    device = None
    if backend == "nccl":
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
        torch.set_default_device(device)
    elif os.environ.get("LOCAL_WORLD_SIZE") == str(world):  # one machine: a VPN must not matter
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    torch_dist.init_process_group(
        backend, store=store, rank=rank, world_size=world, timeout=patience, device_id=device
    )
    try:
        torch_dist.barrier()  # the clocks of all ranks begin here
        yield
    finally:
        if torch_dist.is_initialized():
            torch_dist.destroy_process_group()
        if device is not None:
            torch.set_default_device(None)


class _Text(io.TextIOBase):
    """A text file in memory that keeps the first MOST_PRINTED characters."""

    def __init__(self) -> None:
        self._text, self._more = "", 0

    def write(self, text: str) -> int:
        kept = text[: max(0, MOST_PRINTED - len(self._text))]
        self._text += kept
        self._more += len(text) - len(kept)
        return len(text)

    def kept(self) -> str:
        return self._text + (f"\n... {self._more:,} characters more\n" if self._more else "")


@contextlib.contextmanager
def _kept_print() -> Iterator[_Text]:
    text = _Text()
    with contextlib.redirect_stdout(text):
        yield text


@contextlib.contextmanager
def _noted_where(store: Any, rank: int, timeout: float) -> Iterator[None]:
    """On timeout, publish this rank's stack in the store, from a timer thread."""
    thread = threading.get_ident()

    def note() -> None:
        stack = traceback.extract_stack(sys._current_frames()[thread])
        ours = max(place for place, frame in enumerate(stack) if frame.filename == __file__)
        frames = [(frame.filename, frame.lineno, frame.name) for frame in stack[ours:]]
        theirs = [frame for frame in frames if not packing.is_library(frame[0])]
        with contextlib.suppress(Exception):  # the store may be gone
            store.set(f"where {rank}", packing.pack(theirs))

    timer = threading.Timer(timeout, note)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _call(fn: Callable, args: tuple, rank: int, backend: str, debug: bool) -> Returned | Failed:
    """Call the function as a rank of `run` does: with its own copy of all it uses."""
    os.environ["COURSE_RANK"] = str(rank)
    try:
        packed = packing.pack_call(fn, args)
        torch.manual_seed(seeds.TORCH_SEED)  # GPUs too, since this process lives on from run to run
        seeds.seed(rank)
        return call(packed, rank, backend, debug)
    except Exception as error:
        return outcome.failed(error, rank)
    finally:
        del os.environ["COURSE_RANK"]
        current.set_rank(None)


def _tell(store: Any, rank: int, world: int, ended: Returned | Failed, timeout: float, deadline: float) -> None:
    """Publish this rank's outcome and wait for the others'. Raises the first failure, the same on every rank."""
    overdue = time.monotonic() > deadline  # the others no longer wait for this one
    order = store.add("ended", 1)
    failed = isinstance(ended, Failed)
    told = replace(ended, when=order, message=ended.message[:10_000]) if failed else Returned(b"")
    store.set(f"rank {rank}", outcome.pack(told))
    heard, late = {}, []
    for other in range(world):
        try:
            store.wait([f"rank {other}"], timedelta(seconds=max(0.1, deadline - time.monotonic())))
            heard[other] = outcome.unpack(store.get(f"rank {other}"))
        except torch_dist.DistStoreError:
            late.append(other)
    raised = [one for one in heard.values() if isinstance(one, Failed)]
    if raised and "Timed out waiting" not in first(raised).message:  # gloo's words for a hang
        raise_raised(raised)
    if raised or late or overdue:
        places = {other: _where(store, other, heard) for other in range(world)}
        stuck = [other for other, frames in places.items() if frames is not None] or late or [rank]
        raise RankFailed(hang(places, timeout), stuck[0], "timeout")


def _where(store: Any, rank: int, heard: dict[int, Any]) -> list | None:
    """Return a rank's frames at its timeout; None for one that had returned."""
    if store.check([f"where {rank}"]):
        return packing.unpack(store.get(f"where {rank}"))
    return None if isinstance(heard.get(rank), Returned) else []
