"""The notebook's side of a run: start the fork server, have it fork a process a rank, watch them, end them all.

Why not multiprocessing.Process with spawn? It starts Python anew for each rank and an importable `__main__`, which a
notebook does not have. Why not a pool of ranks that stay, as ipyparallel's engines do? A rank interrupted in the
middle of a collective cannot be used again (the next cell blocked for 55 s when we tried), and state that survives a
cell makes results depend on what ran before. A fresh fork costs tens of milliseconds.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from course_lib.engine import outcome, packing, wire
from course_lib.engine.failures import interrupted
from course_lib.engine.outcome import Outcome, Simulated
from course_lib.engine.processes.interrupts import Interrupts
from course_lib.engine.processes.watch import Child, Unavailable, Watch, note_death

SOON = 5.0  # seconds after which a simulation in a shared process is given up and run again in its own
ENVIRON = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # or else, without a network, a warning that the loopback has no name
"""Defaults for the ranks' environment; the notebook's variables win."""
if os.path.exists("/sys/kernel/mm/transparent_hugepage"):
    # torch's own switch: memory of new tensors comes 2 MiB at a time, not 4 KiB, so a fresh buffer costs fewer page
    # faults. It buys a quarter: a ring of 64 MiB on 2 ranks moves 1.12 to 1.20 GB/s, without it 0.90 (make bench).
    ENVIRON["THP_MEM_ALLOC_ENABLE"] = "1"
TRAINS = re.compile(rb"train|optim|DistributedDataParallel|fully_shard")
"""What the code of a call names when torch will import torch._dynamo: over 1 s of processor time, on every rank."""
MOST_NAMES = 100_000  # bytes at the beginning of a call, in which its code is: tensors come after it


class Launcher:
    """Owns the fork server. One run at a time; no way out of `run` leaves a process behind.

    The seam for a grader: subclass it and assign launcher.LAUNCHER. `command`, `simulate`, `outcome`, `unpack`, `run`
    and `most_bytes` are meant to be overridden (engine/README.md).
    """

    most_bytes = wire.MOST_BYTES
    """Of one message from a rank; a larger one counts as damaged."""
    trail: Sequence = ()
    """What the ranks of the last run did, if it was simulated. Only a grader keeps it, for its pages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fork_server: subprocess.Popen | None = None
        self._control: socket.socket | None = None
        self._owner = 0
        self._ready = False
        self._heard = b""
        self._foreseen = False
        """Whether this fork server was asked to import what training needs."""
        self._runs = 0
        self._sharing = 0
        """Depth of nested `sharing` blocks."""
        self._kept: Child | None = None
        """The process of a simulation that can run the next one."""
        atexit.register(self.stop)

    # The fork server

    def _start(self, interrupts: Interrupts) -> None:
        if self._fork_server is None or self._owner != os.getpid() or self._fork_server.poll() is not None:
            self._start_fork_server()
        while not self._ready:  # importing torch takes seconds: Ctrl-C ends this wait, not the fork server
            select.select([fd for fd in (self._control, interrupts.bell) if fd is not None], [], [])
            if interrupts.noted:
                interrupts.words = "interrupted while torch was being imported for the ranks; the next run can use it"
                raise KeyboardInterrupt
            for notice in self._hear():
                self._check(notice, "ranks cannot be started")
                self._ready = self._ready or "ready" in notice

    def _start_fork_server(self) -> None:
        self.stop()
        ours, theirs = socket.socketpair()
        environ = ENVIRON | os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._fork_server = subprocess.Popen(
            self.command(str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            env=environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        self._control, self._owner, self._heard = ours, os.getpid(), b""
        self._ready = self._foreseen = False

    def command(self, fd: str) -> list[str]:
        """Return the command that starts the fork server; it reads its requests from descriptor `fd`."""
        return [sys.executable, "-m", "course_lib.engine.processes.fork_server", fd]

    def stop(self) -> None:
        """End the fork server and every rank of it; the next run starts a new one."""
        fork_server, control, self._fork_server, self._control = self._fork_server, self._control, None, None
        if self._kept is not None:
            self._kept.close()
            self._kept = None
        if control is not None:
            control.close()
        if fork_server is not None and self._owner == os.getpid():
            try:
                fork_server.wait(5)
            except subprocess.TimeoutExpired:
                fork_server.kill()
                fork_server.wait()

    def _ask(self, request: dict[str, Any], fds: list[int] | None = None) -> None:
        try:
            socket.send_fds(self._control, [json.dumps(request).encode() + b"\n"], fds or [])
        except OSError:
            raise self._gone() from None

    def _gone(self) -> Unavailable:
        self.stop()
        return Unavailable("the process that starts ranks is gone; run the cell again to start a new one")

    def _hear(self) -> list[dict[str, Any]]:
        """Block until the fork server sends something; return its notices."""
        while b"\n" not in self._heard:
            try:
                piece = self._control.recv(65536)
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise self._gone()
            self._heard += piece
        *lines, self._heard = self._heard.split(b"\n")
        notices = [json.loads(line) for line in lines]
        if self._kept is not None and any(notice.get("dead") == self._kept.pid for notice in notices):
            self._kept.close()
            self._kept = None
        return notices

    # A run

    def run(
        self, jobs: list[dict[str, Any]], timeout: float, meet: bool = False, live: Any = None, broker: Any = None
    ) -> list[Child]:
        """Run one job per process and return the children, each with its outcome or its exit status.

        With `meet` the first child hosts a TCPStore on loopback, whose port each job gets as "port".

        Ends early when a child fails, after `timeout` seconds (then each child has a stack or `where`), or on Ctrl-C,
        which is raised again once every process is gone. `live(text)` is called with whole lines that child 0 prints.
        A `broker` reads the children's links itself from `begin(children)` on, and says when it is `over`.
        """
        with Interrupts() as interrupts:
            if not self._lock.acquire(blocking=False):
                raise RuntimeError("another run() of this notebook is still going on; wait for it or interrupt it")
            try:
                return self._run(jobs, timeout, meet, live, broker, interrupts)
            finally:
                self._lock.release()

    def _run(self, jobs: list, timeout: float, meet: bool, live: Any, broker: Any, interrupts: Interrupts) -> list:
        children: list[Child] = []
        begin = time.monotonic()
        try:
            self._start(interrupts)  # first: a new fork server knows nothing of a process that an earlier one has kept
            if self._kept and jobs[0].get("shared"):
                children, self._kept = [self._kept.renewed()], None
            else:
                self._foresee(jobs[0])
            self._runs += 1
            if meet:
                port = self._listen(len(jobs))
                jobs = [job | {"port": port} for job in jobs]
            for index, job in enumerate(jobs[len(children) :], len(children)):
                self._fork(index, children, job["kind"])
            Watch(self, children, timeout, live, broker, interrupts).until_done(jobs)
            if interrupts.noted:
                interrupts.words = interrupted(children, time.monotonic() - begin)
                where = children[0].where  # a simulation has kept what its ranks printed
                interrupts.printed = where.printed if where else [child.text for child in children]
            if children[0].reusable:
                self._kept = children[0]  # real ranks in between leave it where it is
        finally:
            self._end([child for child in children if child is not self._kept])
        return children

    def simulate(self, job: dict[str, Any], timeout: float) -> Child:
        """Run a whole simulation in one process and return that child.

        Within `sharing` that may be the process of an earlier one. If it fails or hangs there, it is run again in a
        fresh process, so that what is reported does not depend on what ran before.
        """
        job = job | {"shared": self._sharing > 0}
        if self._kept is not None:
            (child,) = self.run([job], min(timeout, SOON))
            if isinstance(child.outcome, Simulated):
                return child
        (child,) = self.run([job], timeout)
        return child

    @contextlib.contextmanager
    def sharing(self) -> Iterator[None]:
        """Let the simulations under `with` run one after the other in one process, if they leave nothing behind."""
        self._sharing += 1
        try:
            yield
        finally:
            self._sharing -= 1
            if not self._sharing and self._kept is not None:
                kept, self._kept = self._kept, None
                self._end([kept])

    def enough(self) -> bool:
        """Return whether a run is to end before its time is up; whoever grades looks at processor time."""
        return False

    def outcome(self, body: bytes, child: Child) -> Outcome:
        """Unpack the outcome that a child reports. Raises any exception for malformed bytes."""
        return outcome.unpack(body)

    def unpack(self, data: bytes) -> Any:
        """Unpack a value that a rank returned."""
        return packing.unpack(data)

    def prepare(self, outcomes: list[Outcome]) -> None:
        """Have the fork server import the slow modules that these ranks had to import, for the next ranks."""
        wanted = sorted({name for one in outcomes for name in one.imported})
        if wanted:
            with contextlib.suppress(Unavailable):
                self._ask({"import": wanted})

    def _foresee(self, job: dict[str, Any]) -> None:
        """Before ranks that will train are forked, have the fork server import what each of them would import."""
        call = job.get("call") or job.get("calls", [b""])[0]
        if not self._foreseen and TRAINS.search(call, 0, MOST_NAMES):
            self._foreseen = True
            self._ask({"import": ["torch._dynamo"]})

    def _listen(self, ranks: int) -> int:
        self._ask({"listen": ranks})
        while True:
            for notice in self._hear():
                self._check(notice, "the port at which ranks meet could not be opened")
                if "port" in notice:
                    return notice["port"]

    def _check(self, notice: dict[str, Any], what: str) -> None:
        if "broken" in notice:
            self.stop()
            raise Unavailable(f"ranks cannot be started here: {notice['broken']}")
        if "failed" in notice:
            raise Unavailable(f"{what}: {os.strerror(notice['failed'])}")

    def _fork(self, index: int, children: list[Child], kind: str) -> None:
        link, theirs = socket.socketpair()
        out, out_write = os.pipe()
        trace, trace_write = os.pipe()
        child = Child(index, 0, kind, link, out, trace, wire.Inbox(self.most_bytes))
        children.append(child)
        fds = [theirs.fileno(), out_write, trace_write]
        try:
            self._ask({"run": self._runs, "kind": kind}, fds)
            while not child.pid:
                for notice in self._hear():
                    self._check(notice, f"rank {index} could not be started")
                    child.pid = notice.get("pid", child.pid)
                    note_death(children, notice)
        finally:
            theirs.close()
            os.close(out_write)
            os.close(trace_write)

    def _end(self, children: list[Child]) -> None:
        """Kill children that are still alive, wait until all are reaped, and close their descriptors."""
        try:
            if self._control is not None and any(child.pid and child.status is None for child in children):
                self._ask({"run": self._runs, "kill": [child.pid for child in children if child.status is None]})
                while any(child.pid and child.status is None for child in children):
                    for notice in self._hear():
                        note_death(children, notice)
            if any(not child.pid for child in children):
                self.stop()  # a fork was asked for and its pid never arrived
        except Unavailable:
            pass  # the fork server is gone, and its ranks die with it
        except BaseException:  # a second Ctrl-C, perhaps in the middle of a notice
            self.stop()
            raise
        finally:
            for child in children:
                child.close()


LAUNCHER = Launcher()
"""Starts all ranks of this process. The grader assigns its own subclass."""
