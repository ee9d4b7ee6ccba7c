"""The grader's side of a bubblewrap sandbox, in which judges and answers run and there is nothing to find or to break.

Own process, network, host-name and IPC namespaces; only the interpreter, its packages and a copy of the course's two
packages to read; no capabilities; no environment. In it a template process (template.py) forks a judge for each
submission. What a judge says comes out through one pipe and is read by verdicts.py, as what a stranger says.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from exercises_tests.grading import verdicts
from exercises_tests.grading.namespaces import SCRATCH
from exercises_tests.grading.verdicts import Verdicts

SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/hosts", "/etc/nsswitch.conf")
PATIENCE = 120  # seconds until a template is warm, or has ended all of a submission
FIRST_USER = 61_000  # as root, each judge's sandbox runs as a user of its own from here on: limits do not bind root


def why_not(room: str) -> str:
    """Return why no sandbox can be used here; empty if one can. `room` is where the course's packages are."""
    if sys.platform != "linux":
        return "bubblewrap exists on Linux only"
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        command = [*prefix(room), _interpreter(), "-m", "exercises_tests.grading.namespaces", *_user()]
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
    python = (sys.base_prefix, sys.prefix, str(Path(sys.executable).resolve().parents[1]))
    python = dict.fromkeys(map(os.path.abspath, python))
    for folder in ("/etc", *dict.fromkeys(str(up) for path in (*python, room) for up in reversed(Path(path).parents))):
        command += ["--perms", "0755", "--dir", folder]
    for path in (*python, room):
        command += ["--ro-bind", path, path]
    if not any(path.startswith("/tmp/") for path in (*python, room)):
        command += ["--symlink", SCRATCH, "/tmp"]
    command += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm"]
    command += ["--perms", "1777", "--tmpfs", SCRATCH, "--remount-ro", "/dev"]
    command += ["--remount-ro", "/", "--chdir", SCRATCH]
    environ = {"PATH": "/usr/bin:/bin", "HOME": SCRATCH, "TMPDIR": SCRATCH, "LANG": "C.UTF-8", "PYTHONPATH": room}
    environ |= {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
    for name, value in environ.items():
        command += ["--setenv", name, value]
    return [*command, "--"]


class Sandbox:
    """One template process and its sandbox; has a judge forked for one submission after the other."""

    def __init__(self, environ: dict[str, str], core: int | None = None, apart: bool = True) -> None:
        """`environ` is what `room.make` returned; without `apart` all runs with one's own rights."""
        self._environ, self._core, self._apart = environ, core, apart
        self.process: subprocess.Popen | None = None
        self._control: socket.socket | None = None

    def ask(self, request: dict[str, Any], modules: list[str], seconds: float) -> Verdicts:
        """Return what a judge of its own finds about a submission within so many seconds; `modules` it will want.

        Raises OSError when no sandbox starts, which is no submission's doing.
        """
        self._begin()
        read, write = os.pipe()
        try:
            with tempfile.TemporaryFile() as file, os.fdopen(write, "wb"):  # a file: nobody waits for a judge to read
                file.write(json.dumps(request).encode("utf-8", "replace"))
                file.seek(0)
                socket.send_fds(self._control, [json.dumps({"open": modules}).encode()], [file.fileno(), write])
            found = verdicts.read(read, request["exercises"], seconds)
            self._say("close")
            return found
        except OSError:
            self.close()
            return Verdicts([], verdicts.DIED)
        finally:
            os.close(read)

    def _begin(self) -> None:
        """Start the template, and wait until it is warm."""
        if self.process is not None and self.process.poll() is None:
            return
        self.close()
        self._control, theirs = socket.socketpair()
        with theirs:
            user = _user() if self._apart else []
            words = [str(theirs.fileno()), *(user or ["0"]), str(int(self._apart))]
            words += [] if self._core is None else [str(self._core)]
            before = prefix(self._environ["PYTHONPATH"]) if self._apart else []
            command = [*before, _interpreter(), "-m", "exercises_tests.grading.template", *words]
            self.process = subprocess.Popen(
                command, env=self._environ, cwd="/", pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        self._hear()

    def _say(self, what: str) -> None:
        self._control.sendall(json.dumps({what: 1}).encode())
        self._hear()

    def _hear(self) -> None:
        """Wait for a word of the template, which never sees a submission. Raises OSError when it is gone."""
        self._control.settimeout(PATIENCE)
        said = self._control.recv(4096)
        if not said or b"broken" in said:
            why = said.decode("utf-8", "replace").strip()[:200]
            raise ConnectionError(f"no sandbox: {why or 'its template ended'}")

    def close(self) -> None:
        """End the sandbox with all that is in it."""
        process, self.process = self.process, None
        if self._control is not None:
            self._control.close()
            self._control = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # without namespaces it ends what it has started
                process.wait(0 if self._apart else 10)
            process.kill()
            process.wait()


def _user() -> list[str]:
    """Return the user to become inside the sandbox, where we are root."""
    return [str(FIRST_USER + os.getpid() % 1000)] if os.getuid() == 0 else []


def _interpreter() -> str:
    """Return where this Python is, without a detour (`../course/.venv/bin/python`) that a sandbox does not have."""
    return os.path.abspath(sys.executable)
