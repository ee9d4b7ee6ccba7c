"""Puts strangers' code where nobody else is met: processes, files, network and IPC of its own, inside the sandbox.

Twice: `apart` makes a place for each submission, and `alone` one within it for each process of an answer. Ranks that
shared a folder, a process table or a network could pass data past `dist` and send empty messages of the right size.
Needs Linux; imports nothing but the standard library, so that trying it out is quick.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import resource
import signal
import socket
import struct
import sys
import time

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 2, 4, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
CAPABILITY_VERSION_3 = 0x20080522
CPUCLOCK_SCHED = 2  # what a process has spent, of its clocks
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
SCRATCH = "/scratch"  # the one folder in a sandbox that can be written to, beside /dev/shm
SCRATCH_BYTES, SHM_BYTES, OWN_BYTES = 256 << 20, 64 << 20, 16 << 20  # of a submission's two folders; of a rank's
PROCESSES = 512  # processes and threads of one submission, all of its ranks together

_libc = ctypes.CDLL(None, use_errno=True)
_proc = -1
"""The sandbox's /proc, kept open: in a new namespace a new one cannot be had everywhere."""
_masked = False
"""Whether /proc is masked here, so that there is none in a place: the kernel logs each time that one is asked for."""


def apart() -> None:
    """Go on in a process of its own namespaces; the calling process only waits for it and ends as it ends.

    It has all rights over these namespaces. Raises OSError where the system does not allow it.
    """
    global _proc
    _libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or the map of users belongs to root
    _proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    user, group = os.getuid(), os.getgid()
    spaces = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS
    _call(_libc.unshare(spaces), "unshare")
    _same_user(user, group)
    child = os.fork()
    if child:
        _keep(child)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _call(_libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount")
    _own_folders(SCRATCH_BYTES, SHM_BYTES)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:  # ranks with gloo meet on loopback
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))


def fork_first(itself: int) -> int:
    """Fork a child that is the first process of a namespace of its own; `itself` is a pidfd of the caller."""
    _call(_libc.unshare(CLONE_NEWPID), "unshare")
    pid = -1
    try:
        pid = os.fork()
    finally:
        if pid:
            _call(_libc.setns(itself, CLONE_NEWPID), "setns")
    return pid


def alone(meets_others: bool = False) -> None:
    """Give up all rights, for good; before that take files, network and IPC of one's own, unless it `meets_others`.

    For a child that `fork_first` made in the process that `apart` went on in.
    """
    _libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    if not meets_others:
        _call(_libc.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET), "unshare")
        _own_folders(OWN_BYTES, OWN_BYTES)
    resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))  # the new users' count belongs to the old one's
    user, group = os.getuid(), os.getgid()
    _call(_libc.unshare(CLONE_NEWUSER), "unshare")
    _same_user(user, group)
    os.close(_proc)
    _call(_libc.capset(struct.pack("=Ii", CAPABILITY_VERSION_3, 0), bytes(24)), "capset")
    _call(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _refuse_calls()
    os.chdir(SCRATCH)


def processor_seconds(pid: int) -> float:
    """Return how long a process with all its threads has run on a processor; 0.0 once it is gone.

    By its clock, whose number is made of its own: there may be no /proc to read it from.
    """
    try:
        return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
    except OSError:
        return 0.0


def hide() -> None:
    """Let nobody of the same user look into this process or change it."""
    _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _same_user(user: int, group: int) -> None:
    """In a new user namespace, go on as who one was."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        file = os.open(f"self/{name}", os.O_WRONLY, dir_fd=_proc)
        os.write(file, text.encode())
        os.close(file)


def _own_folders(scratch: int, shm: int) -> None:
    global _masked
    for place, size in ((SCRATCH, scratch), ("/dev/shm", shm)):
        options = f"size={size},mode=1777".encode()
        _call(_libc.mount(b"tmpfs", place.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options), "mount")
    _masked = _masked or bool(_libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV, None))
    if _masked:
        _call(_libc.mount(b"tmpfs", b"/proc", b"tmpfs", MS_NOSUID | MS_NODEV, b"size=4k"), "mount")
    os.chdir(SCRATCH)


REFUSED = {  # system calls by number
    "x86_64": {
        "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "open_tree": 428,
        "move_mount": 429, "fsopen": 430, "mount_setattr": 442, "keyctl": 250, "add_key": 248, "request_key": 249,
        "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425,
        "perf_event_open": 298, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_getfd": 438,
    },
    "aarch64": {
        "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "open_tree": 428,
        "move_mount": 429, "fsopen": 430, "mount_setattr": 442, "keyctl": 219, "add_key": 217, "request_key": 218,
        "memfd_create": 279, "memfd_secret": 447, "shmget": 194, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425,
        "perf_event_open": 241, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "pidfd_getfd": 438,
    },
}  # fmt: skip
"""New namespaces (with all rights in them), keyrings (which ranks could share), memory that belongs to no process."""
CLONE, CLONE3 = {"x86_64": 56, "aarch64": 220}, 435
MACHINE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # as the kernel's audit numbers them
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions of a filter
OTHER_NUMBERS = 0x40000000  # where another numbering of the same calls begins
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS


def _refuse_calls() -> None:
    """Have the kernel refuse the calls above to this process and all that it starts; on other processors none."""
    machine = platform.machine()
    if machine not in REFUSED:
        return
    words = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, MACHINE[machine]), (RETURN, 0, 0, REFUSE), (LOAD, 0, 0, 0)]
    words += [(AT_LEAST, 0, 1, OTHER_NUMBERS), (RETURN, 0, 0, REFUSE)]
    for number in REFUSED[machine].values():
        words += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE)]
    words += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, UNKNOWN)]  # its flags cannot be seen; callers then use clone
    words += [(EQUAL, 0, 3, CLONE[machine]), (LOAD, 0, 0, 16), (ANY_BIT, 0, 1, CLONE_NEWUSER), (RETURN, 0, 0, REFUSE)]
    words += [(RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *word) for word in words))
    program = struct.pack("@HxxxxxxQ", len(words), ctypes.addressof(code))
    _call(_libc.prctl(PR_SET_SECCOMP, 2, program, 0, 0), "seccomp")


def _call(result: int, name: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _keep(child: int) -> None:
    """Wait for the child and end in the same way."""
    status = 0
    try:
        _, status = os.waitpid(child, 0)
    finally:
        if os.WIFSIGNALED(status):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
            os.kill(os.getpid(), os.WTERMSIG(status))
        os._exit(os.WEXITSTATUS(status))


def _try() -> None:
    """Do all of it once."""
    apart()
    if child := fork_first(os.pidfd_open(os.getpid())):
        _keep(child)
    alone()


if __name__ == "__main__":  # a trial: can this be done here, by the user that the words name?
    for number in map(int, sys.argv[1:]):
        os.setgroups([])
        os.setresgid(number, number, number)
        os.setresuid(number, number, number)
    _try()
    sys.exit(0)
