"""Puts one rank where no other rank can be met: its own processes, files, network and IPC, inside the sandbox.

Ranks that share a folder, a process table or a network could pass data past `dist` and send empty messages of the
right size. Needs Linux; imports nothing but the standard library, so that trying it out is quick.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 2, 4, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
SCRATCH = "/scratch"  # the one folder in a sandbox that can be written to


def apart() -> None:
    """Go on in a process of its own namespaces; the calling process only waits for it and ends as it ends.

    Raises OSError where the system does not allow it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or the map of users below belongs to root
    user, group = os.getuid(), os.getgid()
    spaces = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS
    _call(libc.unshare(spaces), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    child = os.fork()
    if child:
        _keep(child)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _call(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount")
    for place in (SCRATCH, "/dev/shm"):
        _call(libc.mount(b"tmpfs", place.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=16m,mode=1777"), "mount")
    if libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV, None):  # where /proc is masked: none at all
        _call(libc.mount(b"tmpfs", b"/proc", b"tmpfs", MS_NOSUID | MS_NODEV, b"size=4k"), "mount")
    os.chdir(SCRATCH)


def _call(result: int, name: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _keep(child: int) -> None:
    """Wait for the child, pass on the question where it is, and end in the same way."""
    signal.signal(signal.SIGUSR1, lambda *_: os.kill(child, signal.SIGUSR1))
    status = 0
    try:
        _, status = os.waitpid(child, 0)
    finally:
        if os.WIFSIGNALED(status):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
            os.kill(os.getpid(), os.WTERMSIG(status))
        os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":  # a trial: can this be done here, by the user that the words name?
    for number in map(int, sys.argv[1:]):
        os.setgroups([])
        os.setresgid(number, number, number)
        os.setresuid(number, number, number)
    apart()
    sys.exit(0)
