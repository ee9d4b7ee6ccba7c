"""A process that has imported what is not the course's, and is forked where judge() would start pytest, which is then
forked for the notebook's kernel, and that for what forks ranks.

Else each of the three imports torch, Jupyter or both anew: four to five seconds of processor time a notebook. What is
forked imports the course itself, and has the environment, folder and descriptors that it would have had; a module that
is imported here must not look at what differs in them. As a process with threads cannot be forked safely, pytest and
the kernel keep a spare: a child forked when they began, which becomes what they start first.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

IMPORTS = (  # not ipykernel.kernelapp: it notes who its parent is when it is imported
    "torch._dynamo", "matplotlib.pyplot", "IPython.core.completer", "ipykernel.ipkernel", "jupyter_client.manager",
    "nbformat", "pytest",
)  # fmt: skip
SERVED = ("pytest", "ipykernel_launcher", "course_lib.engine.processes.fork_server")
"""What may be run in a fork, each by the one before it."""
MOST_BYTES, MOST_FDS = 1 << 20, 64  # of a request; most of it is its environment
START_ANEW = subprocess.Popen._execute_child
STREAMS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")  # as _execute_child calls them
spare: tuple[str, int, socket.socket] | None = None
"""What the spare of this process can become, its process id, and the socket on which it waits to be asked."""


# In the tests


def run(command: Sequence[str], cwd: Path, env: dict[str, str], timeout: float) -> str:
    """Run `python -m pytest ...` to its end, in a fork where that can be, and return what it printed."""
    with tempfile.TemporaryFile("w+") as printed, open(os.devnull) as nothing:
        streams = {"stdin": nothing, "stdout": printed, "stderr": printed}
        if control := server():
            ask(control, command, cwd, env, {number: file.fileno() for number, file in enumerate(streams.values())})
            pid = int(control.recv(20))
            try:
                control.settimeout(timeout)
                control.recv(1)
            except BaseException:  # time is up, or Ctrl-C
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                control.settimeout(None)
                control.recv(1)
                raise
        else:
            subprocess.run(command, cwd=cwd, env=env, timeout=timeout, **streams)
        printed.seek(0)
        return printed.read()


@cache
def server() -> socket.socket | None:
    """Start the process that is forked, once in a worker; None where its imports start threads, and outside Linux."""
    if sys.platform != "linux":
        return None
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYTEST_"))}
    with theirs:
        process = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                                   env=environ, stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours if ours.recv(1) else None


# On both sides


def ask(control: socket.socket, command: Sequence[str], cwd, env, fds: dict[int, int], session: bool = False) -> None:
    """Ask for a process that runs `python -m ...` and whose descriptors, by number, are copies of these."""
    request = {"command": command[command.index("-m") + 1 :], "cwd": os.fspath(cwd or os.getcwd()),
               "env": dict(os.environ if env is None else env), "fds": list(fds), "session": session}  # fmt: skip
    socket.send_fds(control, [json.dumps(request).encode()], list(fds.values()))


def heard(control: socket.socket) -> tuple[dict, list[int]] | None:
    """Return the next request and its descriptors; None when whoever asks has ended."""
    data, fds, _, _ = socket.recv_fds(control, MOST_BYTES, MOST_FDS)
    return (json.loads(data), fds) if data else None


# In the process that is forked, and in its forks


def serve(control: socket.socket) -> None:
    """Fork a process for each request, one after the other, until the worker has ended."""
    for name in IMPORTS:
        importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        return
    subprocess.Popen._execute_child = take_the_spare
    gc.collect()
    gc.freeze()  # or the first collection of each fork would copy every page
    control.send(b"1")
    while asked := heard(control):
        pid = os.fork()
        if pid == 0:
            become(*asked, SERVED)
        for fd in asked[1]:
            os.close(fd)
        with contextlib.suppress(OSError):
            control.send(str(pid).encode())
            os.waitpid(pid, 0)
            control.send(b"1")


def become(request: dict, fds: list[int], served: tuple[str, ...]) -> None:
    """In a fork: be the `python -m ...` that was asked for, and end as that does."""
    numbers = request["fds"]
    above = max(*numbers, *fds) + 1
    for fd, number in zip([fcntl.fcntl(fd, fcntl.F_DUPFD, above) for fd in fds], numbers, strict=True):
        os.dup2(fd, number)
    low = 0
    for number in (*sorted(numbers), os.sysconf("SC_OPEN_MAX")):
        if low < number:  # Python 3.11 takes an empty range for everything
            os.closerange(low, number)
        low = number + 1
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    paths = request["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [os.getcwd(), *filter(None, paths), *PATH]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tempfile.tempdir = None
    sys.modules["numpy"].random.seed()
    keep_a_spare(served[1:])
    module, *sys.argv[1:] = request["command"]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    raise SystemExit


def keep_a_spare(served: tuple[str, ...]) -> None:
    """Fork a child that becomes the first of `served` when asked to, or ends with this process."""
    global spare
    spare = None
    if not served:
        return
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        if asked := heard(theirs):
            if asked[0]["session"]:
                os.setsid()
            theirs.send(b"1")
            become(*asked, served)
        os._exit(0)
    theirs.close()
    spare = served[0], pid, ours


def take_the_spare(popen: subprocess.Popen, *values) -> None:
    """In the place of Popen._execute_child: ask the spare, if it can become what is to be started."""
    global spare
    given = inspect.signature(START_ANEW).bind(popen, *values).arguments
    command = given["args"]
    if spare is None or not isinstance(command, list) or command[:1] != [sys.executable] or spare[0] not in command:
        return START_ANEW(popen, *values)
    (_, popen.pid, control), spare = spare, None
    streams = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
    fds = {number: number if fd == -1 else fd for number, fd in enumerate(streams)}
    with control:
        ask(control, command, given["cwd"], given["env"], fds | {fd: fd for fd in given["pass_fds"]},
            given["start_new_session"])  # fmt: skip
        control.recv(1)  # its session is its own now: whoever started it may ask for that at once
    popen._child_created = True
    popen._close_pipe_fds(*(given[name] for name in STREAMS))


if __name__ == "__main__":
    PATH = sys.path[1:]
    serve(socket.socket(fileno=int(sys.argv[1])))
