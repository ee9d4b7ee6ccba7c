"""Reads what the processes of one run send (outcomes, output, stacks, deaths) until all are done or one fails.

Why one select loop, and not a thread for each child, or asyncio? A run has three descriptors a rank, the control
socket and Ctrl-C, and after a failure all of them are read a little longer, to find who failed first: in one loop that
is one more call, with threads it takes locks and a way to stop them. asyncio.run() fails in a notebook, whose own loop
is running already.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from course_lib.engine import outcome, packing, wire
from course_lib.engine.failures import is_victim
from course_lib.engine.outcome import Failed, Outcome, Simulated, Unfinished

MOST_PRINTED = 100_000  # bytes kept of what one rank prints


@dataclass
class Child:
    """One process of a run, and what has arrived from it."""

    index: int
    pid: int
    kind: str
    """Kind of its job: "real", "simulated", "alone", or a grader's "module:function"."""
    link: socket.socket
    out: int
    trace: int
    inbox: wire.Inbox
    printed: bytearray = field(default_factory=bytearray)
    unshown: int = 0
    """Bytes printed beyond MOST_PRINTED."""
    stack: bytearray = field(default_factory=bytearray)
    """What faulthandler dumped."""
    where: Unfinished | None = None
    """The reply of a simulation that was asked where it is."""
    outcome: Outcome | None = None
    """The outcome it reported, None before that."""
    status: int | None = None
    """The exit status of os.waitpid, once the process has been reaped."""
    died: bool = False
    """Whether it ended before the run killed it."""

    @property
    def simulated(self) -> bool:
        return self.kind == "simulated"

    @property
    def reusable(self) -> bool:
        """Whether its simulation left nothing behind, so that the process can run another one."""
        return self.status is None and isinstance(self.outcome, Simulated) and self.outcome.left == ""

    def renewed(self) -> Child:
        """Return the same process with empty buffers, for its next simulation."""
        inbox = wire.Inbox(self.inbox.most)
        return Child(self.index, self.pid, self.kind, self.link, self.out, self.trace, inbox)

    def close(self) -> None:
        """Close what leads to it."""
        with contextlib.suppress(OSError):
            self.link.shutdown(socket.SHUT_RDWR)
        self.link.close()
        os.close(self.out)
        os.close(self.trace)

    @property
    def text(self) -> str:
        text = self.printed.decode("utf-8", "replace")
        return text + (f"\n... {self.unshown:,} bytes more\n" if self.unshown else "")


class Unavailable(RuntimeError):
    """The process that starts ranks cannot be started."""


def note_death(children: list[Child], notice: dict[str, Any]) -> None:
    for child in children:
        if child.pid and child.pid == notice.get("dead"):
            child.status = notice["status"]


class Watch:
    """The select loop over the children of one run."""

    def __init__(self, launcher, children: list[Child], timeout: float, live: Any, broker: Any, interrupts) -> None:
        self.launcher = launcher
        self.children = children
        self.live = live
        self.broker = broker
        self.interrupts = interrupts
        self.deadline = time.monotonic() + timeout
        self.selector = selectors.DefaultSelector()
        self.shown = 0
        self.stopping = False
        """Set once Ctrl-C is being handled: the short loops that follow are not cut off by it."""

    def until_done(self, jobs: list[dict[str, Any]]) -> None:
        with self.selector:
            self.selector.register(self.launcher._control, selectors.EVENT_READ, (self._from_fork_server, None))
            if self.interrupts.bell is not None:
                self.selector.register(self.interrupts.bell, selectors.EVENT_READ, (lambda *_: None, None))
            for child in self.children:
                if self.broker is None:
                    self.selector.register(child.link, selectors.EVENT_READ, (self._from_link, child))
                self.selector.register(child.out, selectors.EVENT_READ, (self._from_out, child))
                self.selector.register(child.trace, selectors.EVENT_READ, (self._from_trace, child))
            if self.broker is not None:
                self.selector.register(self.broker.bell, selectors.EVENT_READ, (self._from_broker, None))
            for child, job in zip(self.children, jobs, strict=True):
                with contextlib.suppress(OSError):  # it died at once: its exit status will tell
                    wire.put(child.link, wire.JOB, packing.pack(job))
            if self.broker is not None:
                self.broker.begin(self.children)
            self._loop(self.deadline, until=self._over)
            if self.interrupts.noted:
                self.stopping = True
                self.selector.unregister(self.interrupts.bell)  # it stays readable
                self._ask_where(times=4)
            elif all(child.reusable for child in self.children):
                pass
            elif all(child.outcome is not None for child in self.children):
                for child in self.children:
                    with contextlib.suppress(OSError):
                        wire.put(child.link, wire.LEAVE)
                self._loop(time.monotonic() + 2, until=lambda: all(c.status is not None for c in self.children))
            elif self._failed():  # another may have failed earlier: read on a little
                self._loop(time.monotonic() + 0.1, until=lambda: False)
                if all(is_victim(child.outcome) for child in self.children if isinstance(child.outcome, Failed)):
                    self._loop(time.monotonic() + 1, until=self._died)  # their error can arrive before its cause
            elif self.broker is None or not self.broker.over:
                self._ask_where()
            self._loop(time.monotonic(), until=lambda: False)  # what is still in the pipes
        for child in self.children:
            child.died = child.status is not None

    def _loop(self, deadline: float, until: Any) -> None:
        while not until() and (self.stopping or not self.interrupts.noted):
            ready = self.selector.select(max(0.0, deadline - time.monotonic()))
            for key, _ in ready:
                handle, child = key.data
                handle(key.fileobj, child)
            if not ready and time.monotonic() >= deadline:
                return

    def _died(self) -> bool:
        return any(child.status is not None for child in self.children)

    def _failed(self) -> bool:
        return any(c.status is not None if c.outcome is None else isinstance(c.outcome, Failed) for c in self.children)

    def _over(self) -> bool:
        if time.monotonic() >= self.deadline or self.launcher.enough():
            return True
        if any(child.status is not None and child.outcome is None for child in self.children):
            return True
        if self.broker is not None:
            return self.broker.over
        return self._failed() or all(child.outcome is not None for child in self.children)

    def _ask_where(self, times: int = 20) -> None:
        """Ask each unfinished child for its stack; wait at most `times` tenths of a second for the replies."""
        waiting = [child for child in self.children if child.outcome is None]

        def silent() -> list[Child]:
            return [c for c in waiting if c.status is None and not (c.where if c.simulated else c.stack)]

        for child in waiting:
            with contextlib.suppress(OSError):
                wire.put(child.link, wire.WHERE)
        for _ in range(times):  # one that has only just been started does not listen yet
            if not silent():
                break
            with contextlib.suppress(Unavailable):
                self.launcher._ask({"where": [child.pid for child in silent() if not child.stack]})
            self._loop(time.monotonic() + 0.1, until=lambda: not silent())
        self._loop(time.monotonic() + 0.1, until=lambda: False)  # a stack arrives in several pieces

    def _from_fork_server(self, _: Any, __: Any) -> None:
        for notice in self.launcher._hear():
            note_death(self.children, notice)

    def _from_link(self, link: socket.socket, child: Child) -> None:
        try:
            piece = link.recv(1 << 20)
        except OSError:
            piece = b""
        if not piece:
            self.selector.unregister(link)
        try:
            for kind, body in child.inbox.add(piece):
                if kind == wire.DONE:
                    child.outcome = self.launcher.outcome(body, child)
                elif kind == wire.HERE:
                    child.where = outcome.unpack(body)
        except Exception as error:  # the learner's code wrote into the socket
            message = f"what it sent back is damaged ({type(error).__name__}: {error})"
            child.outcome = Failed("ValueError", message, [], child.index)

    def _from_broker(self, bell: int, _: Any) -> None:
        self.selector.unregister(bell)  # it woke us; `over` says the rest

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
        child.stack += piece[: MOST_PRINTED - len(child.stack)]
