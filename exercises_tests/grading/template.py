"""The warm process of a sandbox: each submission's judge is forked from it, so torch is imported once for a class.

It never sees a byte of a submission: the file with the answers is handed on unread. What it forks for one, the judge
and all that the judge starts, lives in namespaces of its own (namespaces.py) and is gone before the next one begins.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import select
import shutil
import signal
import socket
import sys
import tempfile
import traceback

from course_lib.engine.processes import fork_server
from exercises_tests.grading import namespaces

LOOK_EVERY = 0.25  # seconds: what can be had beyond the limit is what can be filled in that time
PAGE = os.sysconf("SC_PAGE_SIZE")
WARM = ("exercises_tests.grading.judge", "exercises_tests.grading.answer", "exercises_tests.grading.remote")


class Keeper(fork_server.ForkServer):
    """The first process of a place: forks the judge, and for the judge each process of an answer."""

    later = on_demand = ()
    small_forks = math.inf  # main() has made the pages huge

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control)
        self._told = 0.0
        """Seconds of processor time of the processes now alive that the judge has been told of."""
        self._full = False
        signal.signal(signal.SIGUSR2, self._note)

    def _note(self, *_: object) -> None:
        self._full = True

    def reap(self) -> None:
        """Report deaths, each further second that the living have spun, and memory of which they hold too much."""
        super().reap()
        spent = sum(map(namespaces.processor_seconds, self.alive))
        self._told = min(self._told, spent)
        if spent >= self._told + 1.0:
            self._told = spent
            self.say(spent=spent)
        if self._full:
            self._full = False
            self.say(overfull=1)
            for pid in self.alive:
                self.kill(pid)


class Apart(Keeper):
    """A Keeper whose every process has namespaces of its own."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control)
        self._itself = os.pidfd_open(os.getpid())

    def new_process(self) -> int:
        return namespaces.fork_first(self._itself)

    def confine(self, kind: str) -> None:
        namespaces.alone(kind)


class Template:
    """Opens a place for a submission and closes it, as the grader asks on `control`; one at a time."""

    def __init__(self, control: socket.socket, apart: bool) -> None:
        self.control, self.apart = control, apart
        self.place = 0
        """The process that waits for the first one of the place; 0 if none is open."""
        self.folder = namespaces.SCRATCH if apart else ""

    def serve(self) -> None:
        while True:
            while not select.select([self.control], [], [], LOOK_EVERY if self.place and self.apart else None)[0]:
                if memory_held() > namespaces.MOST_TOGETHER:
                    for pid in fork_server.children(self.place):  # the Keeper, the first process within
                        os.kill(pid, signal.SIGUSR2)
            data, fds, _, _ = socket.recv_fds(self.control, 65536, 2)
            self.close()
            if not data:
                return
            request = json.loads(data)
            if "open" in request:
                self.open(request["open"], *fds)
            else:
                self.control.sendall(b'{"closed": 1}\n')

    def open(self, modules: list[str], request: int, verdicts: int) -> None:
        """Import what is new, and fork a judge that reads `request` and writes `verdicts`."""
        new = [name for name in modules if name not in sys.modules]
        for name in new:
            fork_server.import_quietly(name)
            for more in getattr(sys.modules.get(name), "PRELOAD", ()):
                fork_server.import_quietly(more)
        if new:
            fork_server.settle()
            fork_server.use_huge_pages()
        if not self.apart:
            self.folder = tempfile.mkdtemp(prefix="submission-", dir=os.environ["PYTHONPATH"])
        self.place = os.fork()
        if self.place == 0:
            self.be_a_place(request, verdicts)
        os.close(request)
        os.close(verdicts)

    def be_a_place(self, request: int, verdicts: int) -> None:
        """In the child: move into new namespaces, fork the judge, and fork for it until it ends."""
        try:
            fork_server.prctl(fork_server.PR_SET_PDEATHSIG, signal.SIGKILL)
            fork_server.close_all_but(0, 1, 2, request, verdicts)
            if self.apart:
                namespaces.apart()
            fork_server.prctl(fork_server.PR_SET_CHILD_SUBREAPER, 1)
            ours, theirs = socket.socketpair()
            keeper = (Apart if self.apart else Keeper)(ours)
            judge = keeper.new_process()
            if judge == 0:
                self.be_the_judge(keeper, theirs.detach(), request, verdicts)
            keeper.spared.add(judge)
            for descriptor in (theirs.detach(), request, verdicts):
                os.close(descriptor)
            if self.apart:
                namespaces.hide()
            keeper.serve()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def be_the_judge(self, keeper: Keeper, control: int, request: int, verdicts: int) -> None:
        """In the judge: give up all rights, and what leads elsewhere, before the first byte of a submission is read."""
        status = 1
        try:
            fork_server.prctl(fork_server.PR_SET_PDEATHSIG, signal.SIGKILL)
            keeper.confine("judge")
            fork_server.close_all_but(0, 1, 2, control, request, verdicts)
            from exercises_tests.grading import judge

            judge.main(socket.socket(fileno=control), request, verdicts, self.folder, self.apart)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def close(self) -> None:
        """End all processes of the place, and return when they are gone."""
        if self.place:
            os.kill(self.place, signal.SIGKILL)  # in namespaces all others end with it
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.place, 0)
            while orphans := fork_server.children():  # as subreaper this process is the parent of what is left
                for pid in orphans:
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(-1, 0)
            if not self.apart:
                shutil.rmtree(self.folder, ignore_errors=True)
        self.place = 0


def memory_held() -> int:
    """Return the bytes that all other processes in the sandbox hold; what several share counts once."""
    others = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid())]
    resident = [PAGE * int(pages) for pid in others for pages in _read(pid, "statm").split()[1:2]]
    if sum(resident) <= namespaces.MOST_TOGETHER:  # which counts what is shared again and again, but is quick to see
        return 0
    rollups = [re.search(r"^Pss: +(\d+)", _read(pid, "smaps_rollup"), re.MULTILINE) for pid in others]
    return sum(1024 * int(found[1]) for found in rollups if found)


def _read(pid: str, name: str) -> str:
    """Return what /proc says of a process; nothing if it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}") as file:
        return file.read()
    return ""


def main() -> None:
    """Serve on the socket that the first argument names, as the user that the second names (0: as who one is).

    The third says whether each submission is put apart, the fourth, if there is one, the core to keep to.
    """
    descriptor, user, apart, *cores = map(int, sys.argv[1:])
    if cores:
        os.sched_setaffinity(0, set(cores))  # judge and answers take turns: a second core only costs wake-ups
    os.environ["COURSE_PROGRESS"] = "off"
    control = fork_server.begin(descriptor, user)
    for name in WARM:
        fork_server.import_quietly(name)
    fork_server.settle()
    fork_server.use_huge_pages()
    control.sendall(b'{"ready": 1}\n')
    Template(control, bool(apart)).serve()


if __name__ == "__main__":
    main()
