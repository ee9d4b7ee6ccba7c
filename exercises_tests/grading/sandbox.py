"""Where a learner's answer runs when it is graded: a bubblewrap sandbox in which there is nothing to find or to break.

Own process, network, host-name and IPC namespaces; only the interpreter, its packages and a copy of the course's two
packages to read; a small folder of its own to write to; no capabilities; no environment. One sandbox a submission, so
that nothing passes from one learner to the next.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from course_lib import RankFailed
from course_lib.engine.processes.launcher import Launcher
from exercises_tests.grading import sandbox_server
from exercises_tests.grading.namespaces import SCRATCH, SCRATCH_BYTES, SHM_BYTES

SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/hosts", "/etc/nsswitch.conf")
FIRST_USER = 61_000  # as root, each judge's sandbox runs as a user of its own from here on: limits do not bind root


def why_not(room: str) -> str:
    """Return why no sandbox can be used here; empty if one can. `room` is where the course's packages are."""
    if sys.platform != "linux":
        return "bubblewrap exists on Linux only"
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        command = [*prefix(room), sys.executable, "-m", "exercises_tests.grading.namespaces", *_user()]
        probe = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start ({error})"
    return "" if probe.returncode == 0 else f"bubblewrap does not start ({probe.stderr.strip()[-200:]})"


def prefix(room: str) -> list[str]:
    """Return the words that go before a command to run it in a sandbox that sees `room` and the interpreter."""
    command = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if os.getuid() == 0:
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--cap-drop", "ALL"]
    command += ["--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
    for path in SYSTEM:
        command += ["--ro-bind-try", path, path]
    python = dict.fromkeys((sys.base_prefix, sys.prefix, str(Path(sys.executable).resolve().parent.parent)))
    for folder in ("/etc", *dict.fromkeys(str(up) for path in (*python, room) for up in reversed(Path(path).parents))):
        command += ["--perms", "0755", "--dir", folder]
    for path in (*python, room):
        command += ["--ro-bind", path, path]
    if not any(path.startswith("/tmp/") for path in (*python, room)):
        command += ["--symlink", SCRATCH, "/tmp"]
    command += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm"]
    command += ["--perms", "1777", "--size", str(SCRATCH_BYTES), "--tmpfs", SCRATCH, "--remount-ro", "/dev"]
    command += ["--remount-ro", "/", "--chdir", SCRATCH]
    environ = {"PATH": "/usr/bin:/bin", "HOME": SCRATCH, "TMPDIR": SCRATCH, "LANG": "C.UTF-8", "PYTHONPATH": room}
    environ |= {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
    for name, value in environ.items():
        command += ["--setenv", name, value]
    return [*command, "--"]


class SandboxLauncher(Launcher):
    """A launcher whose fork server, and so every rank, is in a sandbox: one sandbox a judge, a place a submission."""

    room = os.environ.get("PYTHONPATH", "")
    preload: tuple[str, ...] = ()
    """Modules to import once for all ranks."""
    _sandbox: Sandbox | None = None

    def _start_fork_server(self) -> None:
        self.stop()
        if self._sandbox is None or self._sandbox.process.poll() is not None:
            self._sandbox = Sandbox(self.room)
        self._control, theirs = socket.socketpair()
        with theirs:
            self._sandbox.open(self.preload, theirs)
        self._fork_server, self._owner, self._ready, self._heard = self._sandbox, os.getpid(), False, b""

    def _gone(self) -> Exception:
        full = self._fork_server is not None and self._fork_server is self._sandbox and self._sandbox.overfull()
        gone = super()._gone()
        if not full:
            return gone
        most = f"{sandbox_server.MOST_MEMORY >> 30} GiB"
        return RankFailed(f"its processes held more than {most} of memory together and were ended", None, "memory")


class Sandbox:
    """A bubblewrap sandbox with its server; stands in for the process of the fork server whose place is open."""

    def __init__(self, room: str) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            server = [sys.executable, "-m", "exercises_tests.grading.sandbox_server", str(fd), *(_user() or ["0"])]
            self.process = subprocess.Popen(
                [*prefix(room), *server], pass_fds=[fd], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )

    def open(self, modules: tuple[str, ...], link: socket.socket) -> None:
        """Have a place made, whose fork server hears its requests on `link`."""
        with contextlib.suppress(OSError):  # it is gone: the other end of the link tells
            socket.send_fds(self._control, [json.dumps({"open": modules}).encode()], [link.fileno()])

    def poll(self) -> int | None:
        """Return None if the place is open, as `Popen.poll` does of a process."""
        try:
            return None if self._ask("ask", 60)["open"] else 1
        except (OSError, ValueError):
            return 1

    def overfull(self) -> bool:
        """Return whether the place was closed because it held too much memory."""
        try:
            return self._ask("ask", 60)["overfull"]
        except (OSError, ValueError):
            return False

    def wait(self, seconds: float) -> None:
        """Close the place, with all that runs in it."""
        try:
            self._ask("close", seconds)
        except TimeoutError:
            raise subprocess.TimeoutExpired("a sandbox", seconds) from None
        except (OSError, ValueError):
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _ask(self, what: str, seconds: float) -> dict[str, bool]:
        self._control.settimeout(seconds)
        self._control.sendall(json.dumps({what: 1}).encode())
        return json.loads(self._control.recv(4096))


def _user() -> list[str]:
    """Return the user to become inside the sandbox, where we are root."""
    return [str(FIRST_USER + os.getpid() % 1000)] if os.getuid() == 0 else []
