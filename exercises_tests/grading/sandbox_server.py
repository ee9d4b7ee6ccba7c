"""The process in a sandbox from which each submission's place is forked: torch is imported once for a whole class.

It never runs an answer. What it forks for a submission has namespaces of its own (namespaces.py), sees nothing of this
process, and is gone when the next one begins.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import sys
import traceback

from course_lib.engine.processes import fork_server
from exercises_tests.grading import namespaces

MOST_MEMORY = 3 << 30  # bytes that all processes of a submission may hold together
LOOK_EVERY = 0.25  # seconds: what can be had beyond the limit is what can be filled in that time
PAGE = os.sysconf("SC_PAGE_SIZE")


class Keeper(fork_server.ForkServer):
    """The first process of a submission's place: forks each of its processes into namespaces of its own."""

    later = on_demand = ()

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control)
        self._itself = os.pidfd_open(os.getpid())
        self._told = 0.0
        """Seconds of processor time of the processes now alive that the judge has been told of."""

    def new_process(self) -> int:
        return namespaces.fork_first(self._itself)

    def reap(self) -> None:
        """Report deaths, and each further second that the living have spun."""
        super().reap()
        spent = sum(map(namespaces.processor_seconds, self.alive))
        self._told = min(self._told, spent)
        if spent >= self._told + 1.0:
            self._told = spent
            self.say(spent=spent)

    def confine(self, kind: str) -> None:
        namespaces.alone(meets_others=kind == "real")


class Nest:
    """Opens a place for a submission and closes it, as the judge asks on `control`; one at a time."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.place = 0
        """The process that waits for the first one of the place; 0 if none is open."""
        self.overfull = False
        """Whether the last place was closed because it held too much memory."""

    def serve(self) -> None:
        while True:
            while not select.select([self.control], [], [], LOOK_EVERY if self.place else None)[0]:
                if memory_held() > MOST_MEMORY:
                    self.close()
                    self.overfull = True
            data, fds, _, _ = socket.recv_fds(self.control, 65536, 1)
            if not data:
                return self.close()
            request = json.loads(data)
            if "open" in request:
                self.open(request["open"], fds[0])
                continue  # the place itself says when it is ready
            if "close" in request:
                self.close()
            self.control.sendall(json.dumps({"open": self.is_open(), "overfull": self.overfull}).encode() + b"\n")

    def open(self, modules: list[str], link: int) -> None:
        self.close()
        self.overfull = False
        if new := [name for name in modules if name not in sys.modules]:
            for name in new:
                fork_server.import_quietly(name)
            fork_server.settle()
            fork_server.use_huge_pages()
        self.place = os.fork()
        if self.place == 0:
            _be_a_place(link)
        os.close(link)

    def is_open(self) -> bool:
        if self.place and os.waitpid(self.place, os.WNOHANG)[0]:
            self.place = 0
        return bool(self.place)

    def close(self) -> None:
        """End all processes of the place, and return when they are gone."""
        if self.is_open():
            os.kill(self.place, signal.SIGKILL)  # the first process of the place ends with it, and with that all others
        self.place = 0
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)


def memory_held() -> int:
    """Return the bytes that all other processes in the sandbox hold; what several share counts once."""
    others = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid())]
    resident = [PAGE * int(pages) for pid in others for pages in _read(pid, "statm").split()[1:2]]
    if sum(resident) <= MOST_MEMORY:  # which counts what is shared again and again, but is quick to see
        return 0
    rollups = [re.search(r"^Pss: +(\d+)", _read(pid, "smaps_rollup"), re.MULTILINE) for pid in others]
    return sum(1024 * int(found[1]) for found in rollups if found)


def _read(pid: str, name: str) -> str:
    """Return what /proc says of a process; nothing if it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}") as file:
        return file.read()
    return ""


def _be_a_place(link: int) -> None:
    """In the child: move into new namespaces and fork for the judge on `link` until it is closed."""
    try:
        fork_server.prctl(fork_server.PR_SET_PDEATHSIG, signal.SIGKILL)
        fork_server.close_all_but(0, 1, 2, link)
        control = socket.socket(fileno=link)
        try:
            namespaces.apart()
        except OSError as error:
            control.sendall(json.dumps({"broken": f"a submission cannot be put apart: {error}"}).encode() + b"\n")
            return
        namespaces.hide()
        control.sendall(b'{"ready": 1}\n')
        Keeper(control).serve()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def main() -> None:
    """Serve on the socket that the first argument names, as the user that the second names (0: as who one is)."""
    control = fork_server.begin(int(sys.argv[1]), int(sys.argv[2]))
    fork_server.settle()
    fork_server.use_huge_pages()
    Nest(control).serve()


if __name__ == "__main__":
    main()
