"""The notebook's side of a run: start the zygote once, start one process a rank, collect what they send, end them all."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from course_lib.ranks import packing, wire

MOST_PRINTED = 100_000  # bytes kept of what one rank prints


@dataclass
class Child:
    """One process of a run, and what has arrived from it."""

    index: int
    pid: int
    link: socket.socket
    out: int
    trace: int
    inbox: wire.Inbox = field(default_factory=wire.Inbox)
    printed: bytearray = field(default_factory=bytearray)
    unshown: int = 0
    """Bytes printed beyond MOST_PRINTED."""
    stack: bytearray = field(default_factory=bytearray)
    """What faulthandler dumped when time was up."""
    where: dict[str, Any] | None = None
    """What a simulation said when time was up."""
    answer: dict[str, Any] | None = None
    status: int | None = None
    """The exit status as os.waitpid gives it, once the process is gone."""
    died: bool = False
    """Whether it was gone before the run ended it."""

    @property
    def text(self) -> str:
        text = self.printed.decode("utf-8", "replace")
        return text + (f"\n... {self.unshown:,} bytes more\n" if self.unshown else "")


class Unavailable(RuntimeError):
    """The process that starts ranks cannot be started."""


class Launcher:
    """Owns the zygote. One run at a time; every way out of `children` leaves no process behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zygote: subprocess.Popen | None = None
        self._control: socket.socket | None = None
        self._owner = 0
        self._heard = b""
        self._runs = 0

    # The zygote

    def _start(self) -> None:
        if self._zygote is not None and self._owner == os.getpid() and self._zygote.poll() is None:
            return
        self.stop()
        ours, theirs = socket.socketpair()
        environ = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._zygote = subprocess.Popen(
            self.command(str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            env=environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        self._control, self._owner, self._heard = ours, os.getpid(), b""

    def command(self, fd: str) -> list[str]:
        """Return the command that starts the zygote, which hears its requests on `fd`."""
        return [sys.executable, "-m", "course_lib.ranks.zygote", fd]

    def stop(self) -> None:
        """End the zygote and all it started; the next run starts a new one."""
        zygote, control, self._zygote, self._control = self._zygote, self._control, None, None
        if control is not None:
            control.close()
        if zygote is not None and self._owner == os.getpid():
            try:
                zygote.wait(5)
            except subprocess.TimeoutExpired:
                zygote.kill()
                zygote.wait()

    def _ask(self, request: dict[str, Any], fds: list[int] | None = None) -> None:
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], fds or [])
        except OSError:
            raise self._gone() from None

    def _gone(self) -> Unavailable:
        self.stop()
        return Unavailable("the process that starts ranks is gone; run the cell again to start a new one")

    def _hear(self) -> list[dict[str, Any]]:
        """Return the zygote's next notices; blocks until there is one."""
        while b"\n" not in self._heard:
            piece = self._control.recv(65536)
            if not piece:
                raise self._gone()
            self._heard += piece
        *lines, self._heard = self._heard.split(b"\n")
        return [json.loads(line) for line in lines]

    # A run

    def run(self, jobs: list[dict[str, Any]], timeout: float, meet: bool = False, live=None) -> list[Child]:
        """Run one job a process and return the children, each with its answer or its exit status.

        With `meet` they find each other at a port on loopback, which each job gets as "port".

        Ends early when one fails, after `timeout` seconds (then `where` says what each was doing), or on an interrupt,
        which is raised again once every process is gone. `live(text)` is called with whole lines that child 0 prints.
        """
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("another run() of this notebook is still going on; wait for it or interrupt it")
        children: list[Child] = []
        try:
            self._start()
            self._runs += 1
            if meet:
                port = self._listen(len(jobs))
                jobs = [job | {"port": port} for job in jobs]
            for index in range(len(jobs)):
                self._fork(index, children)
            _Watch(self, children, timeout, live).until_done(jobs)
        finally:
            try:
                self._end(children)
            finally:
                self._lock.release()
        return children

    def simulate(self, job: dict[str, Any], timeout: float) -> Child:
        """Run a whole simulation in one process and return that child."""
        (child,) = self.run([job], timeout)
        return child

    def unpack(self, data: bytes) -> Any:
        """Rebuild what a rank returned."""
        return packing.unpack(data)

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

    def _fork(self, index: int, children: list[Child]) -> None:
        link, theirs = socket.socketpair()
        out, out_write = os.pipe()
        trace, trace_write = os.pipe()
        child = Child(index, 0, link, out, trace)
        children.append(child)
        fds = [theirs.fileno(), out_write, trace_write]
        try:
            self._ask({"run": self._runs}, fds)
            while not child.pid:
                for notice in self._hear():
                    self._check(notice, f"rank {index} could not be started")
                    child.pid = notice.get("pid", child.pid)
                    _note_death(children, notice)
        finally:
            theirs.close()
            os.close(out_write)
            os.close(trace_write)

    def _end(self, children: list[Child]) -> None:
        """Make sure that every child is gone, and close what led to it."""
        interrupted = None
        while any(child.status is None and child.pid for child in children) and self._control is not None:
            try:
                self._ask({"run": self._runs, "kill": [child.pid for child in children if child.status is None]})
                while any(child.status is None and child.pid for child in children):
                    for notice in self._hear():
                        _note_death(children, notice)
            except KeyboardInterrupt as again:  # a second Ctrl-C must not leave processes behind
                interrupted = again
            except Unavailable:
                break  # the zygote takes its ranks with it
        if any(not child.pid for child in children):
            self.stop()  # interrupted while starting: which process belongs to whom is unknown
        for child in children:
            child.link.close()
            os.close(child.out)
            os.close(child.trace)
        if interrupted:
            raise interrupted


def _note_death(children: list[Child], notice: dict[str, Any]) -> None:
    for child in children:
        if child.pid and child.pid == notice.get("dead"):
            child.status = notice["status"]


class _Watch:
    """Reads everything that the children of one run send until they are done, one fails, or time is up."""

    def __init__(self, launcher: Launcher, children: list[Child], timeout: float, live: Any) -> None:
        self.launcher, self.children, self.live = launcher, children, live
        self.deadline = time.monotonic() + timeout
        self.selector = selectors.DefaultSelector()
        self.shown = 0

    def until_done(self, jobs: list[dict[str, Any]]) -> None:
        with self.selector:
            self.selector.register(self.launcher._control, selectors.EVENT_READ, (self._from_zygote, None))
            for child in self.children:
                self.selector.register(child.link, selectors.EVENT_READ, (self._from_link, child))
                self.selector.register(child.out, selectors.EVENT_READ, (self._from_out, child))
                self.selector.register(child.trace, selectors.EVENT_READ, (self._from_trace, child))
            for child, job in zip(self.children, jobs, strict=True):
                with contextlib.suppress(OSError):  # it died at once: its exit status will tell
                    wire.put(child.link, wire.JOB, packing.pack(job))
            self._loop(self.deadline, until=self._over)
            if all(child.answer is not None for child in self.children):
                for child in self.children:
                    with contextlib.suppress(OSError):
                        wire.put(child.link, wire.LEAVE)
                self._loop(time.monotonic() + 2, until=lambda: all(c.status is not None for c in self.children))
            elif self._failed():  # others may have failed before: hear them out
                self._loop(time.monotonic() + 0.1, until=lambda: False)
            else:
                self._ask_where()
            self._loop(time.monotonic(), until=lambda: False)  # what is still in the pipes
        for child in self.children:
            child.died = child.status is not None

    def _loop(self, deadline: float, until: Any) -> None:
        while not until():
            ready = self.selector.select(max(0.0, deadline - time.monotonic()))
            for key, _ in ready:
                handle, child = key.data
                handle(key.fileobj, child)
            if not ready and time.monotonic() >= deadline:
                return

    def _failed(self) -> bool:
        return any(c.status is not None if c.answer is None else "error" in c.answer for c in self.children)

    def _over(self) -> bool:
        done = all(child.answer is not None for child in self.children)
        return done or self._failed() or time.monotonic() >= self.deadline

    def _ask_where(self) -> None:
        """Time is up: ask each child that has not answered what it is doing."""
        waiting = [child for child in self.children if child.answer is None]
        with contextlib.suppress(Unavailable):
            self.launcher._ask({"where": [child.pid for child in waiting]})
        for child in waiting:
            with contextlib.suppress(OSError):
                wire.put(child.link, wire.WHERE)
        self._loop(time.monotonic() + 1.0, until=lambda: all(c.stack for c in waiting))
        self._loop(time.monotonic() + 0.1, until=lambda: False)  # a stack arrives in several pieces

    def _from_zygote(self, _: Any, __: Any) -> None:
        for notice in self.launcher._hear():
            _note_death(self.children, notice)

    def _from_link(self, link: socket.socket, child: Child) -> None:
        try:
            piece = link.recv(1 << 20)
        except OSError:
            piece = b""
        if not piece:
            self.selector.unregister(link)
        try:
            for kind, body in child.inbox.add(piece):
                if kind in (wire.DONE, wire.FAILED):
                    child.answer = packing.unpack_plain(body)
                elif kind == wire.HERE:
                    child.where = packing.unpack_plain(body)
        except Exception as error:  # code in the rank wrote into its link
            message = f"what it sent back is damaged ({type(error).__name__}: {error})"
            child.answer = {"error": "ValueError", "message": message, "frames": [], "rank": child.index, "when": 0.0}

    def _from_out(self, out: int, child: Child) -> None:
        piece = os.read(out, 1 << 16)
        if not piece:
            self.selector.unregister(out)
        room = MOST_PRINTED - len(child.printed)
        child.printed += piece[:room]
        child.unshown += len(piece[room:])
        if child.index == 0 and self.live:
            whole = child.printed.rfind(b"\n") + 1
            if whole > self.shown:
                text = child.printed[self.shown : whole].decode("utf-8", "replace")
                self.shown = whole
                self.live(text)

    def _from_trace(self, trace: int, child: Child) -> None:
        piece = os.read(trace, 1 << 16)
        if not piece:
            self.selector.unregister(trace)
        child.stack += piece


LAUNCHER = Launcher()
