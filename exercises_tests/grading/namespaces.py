"""Isolates untrusted code in namespaces of its own: processes, files, network and IPC, inside the sandbox.

Twice: `apart` makes a place for each submission, and `alone` one within it for its judge and each process of an answer.
Ranks that shared a folder, a process table, a terminal or a limit could pass data past `dist` and send empty messages
of the right size. Needs Linux; imports nothing but the standard library, so that trying it out is quick.
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
OWN_BYTES = 16 << 20  # of each of a process's two folders
MOST_TOGETHER = 3 << 30  # bytes that all processes of a submission may hold
PROCESSES = 128  # processes and threads of one rank; a limit that ranks shared would tell each how many others have

_libc = ctypes.CDLL(None, use_errno=True)
_proc = -1
"""The sandbox's /proc, kept open: in a new namespace a new one cannot be had everywhere."""


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
    for place in ("/dev/pts", "/proc"):  # terminals are common to all; what /proc tells of the machine, too
        _call(_libc.mount(b"tmpfs", place.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=4k,mode=555"), "mount")
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


def alone(kind: str) -> None:
    """Take files, network and IPC of one's own, and then give up all rights, for good.

    `kind` is that of a job, or "judge": real ranks meet on loopback, and so share a network. For a child that
    `fork_first` made in the process that `apart` went on in.
    """
    _libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    _call(_libc.unshare(CLONE_NEWNS | CLONE_NEWIPC | (0 if kind == "real" else CLONE_NEWNET)), "unshare")
    for place in (SCRATCH, "/dev/shm"):
        options = f"size={OWN_BYTES},mode=1777".encode()
        _call(_libc.mount(b"tmpfs", place.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options), "mount")
    user, group = os.getuid(), os.getgid()
    _call(_libc.unshare(CLONE_NEWUSER), "unshare")
    _same_user(user, group)
    os.close(_proc)
    if kind != "judge":
        for limit, most in LIMITS:  # now, not before: then the new user's count is its own
            resource.setrlimit(limit, (most, most))
    _call(_libc.capset(struct.pack("=Ii", CAPABILITY_VERSION_3, 0), bytes(24)), "capset")
    _call(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _refuse_calls(kind)
    os.chdir(SCRATCH)
    if kind == "judge":
        hide()


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


CALLS = {  # system calls by number: on x86-64, on ARM64 (where some older ones do not exist)
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "mount_setattr": (442, 442),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "shmget": (29, 194), "bpf": (321, 280), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "perf_event_open": (298, 241), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438), "kcmp": (312, 272), "flock": (73, 32),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "fanotify_init": (300, 262), "mq_open": (240, 180),
    "io_setup": (206, 0), "mincore": (27, 232), "cachestat": (451, 451), "sysinfo": (99, 179),
}  # fmt: skip
"""Refused to all: new namespaces (with all rights in them), keyrings and locks (which ranks could share), memory that
belongs to no process, and what tells of limits or memory that all processes of a user or a machine have in common."""
PIPES = {"pipe": (22, None), "pipe2": (293, 59), "mknod": (133, None), "mknodat": (259, 33)}
"""Refused to all but real ranks (gloo needs them) and the judge: a user's pipes have a limit in common."""
NAMES = ("x86_64", "aarch64")
CLONE, CLONE3, FCNTL, SOCKETS = (56, 220), 435, (72, 25), ((41, 53), (198, 199))
FCNTL_REFUSED = (5, 6, 7, 36, 37, 38, 1024, 1026, 1031)  # locks and leases on files, notices, sizes of pipes
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
FAMILIES = {"real": (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)}  # gloo asks by netlink for the name of loopback
LIMITS = (
    (resource.RLIMIT_NPROC, PROCESSES),
    (resource.RLIMIT_SIGPENDING if sys.platform == "linux" else resource.RLIMIT_NPROC, PROCESSES),
    (resource.RLIMIT_MEMLOCK, 0),
)
MACHINE = (0xC000003E, 0xC00000B7)  # as the kernel's audit numbers them
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions of a filter
OTHER_NUMBERS = 0x40000000  # where another numbering of the same calls begins
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
NUMBER, ARCHITECTURE, FIRST, SECOND = 0, 4, 16, 24  # where a filter finds the call, the machine, and its arguments


def _refuse_calls(kind: str) -> None:
    """Have the kernel refuse the calls above to this process and all that it starts; on other processors none."""
    if platform.machine() not in NAMES:
        return
    this = NAMES.index(platform.machine())
    refused = CALLS | ({} if kind in ("real", "judge") else PIPES)
    words = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, MACHINE[this]), (RETURN, 0, 0, REFUSE), (LOAD, 0, 0, NUMBER)]
    words += [(AT_LEAST, 0, 1, OTHER_NUMBERS), (RETURN, 0, 0, REFUSE)]
    for numbers in refused.values():
        if numbers[this] is not None:
            words += [(EQUAL, 0, 1, numbers[this]), (RETURN, 0, 0, REFUSE)]
    words += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, UNKNOWN)]  # its flags cannot be seen; callers then use clone
    words += [(EQUAL, 0, 3, CLONE[this]), (LOAD, 0, 0, FIRST), (ANY_BIT, 0, 1, CLONE_NEWUSER), (RETURN, 0, 0, REFUSE)]
    words += [(LOAD, 0, 0, NUMBER)]
    families = [(EQUAL, 0, 1, family) for family in FAMILIES.get(kind, (AF_UNIX, AF_INET, AF_INET6))]
    for number in SOCKETS[this]:
        words += _of_argument(number, FIRST, families, ALLOW, REFUSE)
    words += _of_argument(FCNTL[this], SECOND, [(EQUAL, 0, 1, command) for command in FCNTL_REFUSED], REFUSE, ALLOW)
    words += [(RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *word) for word in words))
    program = struct.pack("@HxxxxxxQ", len(words), ctypes.addressof(code))
    _call(_libc.prctl(PR_SET_SECCOMP, 2, program, 0, 0), "seccomp")


def _of_argument(number: int, argument: int, known: list[tuple], then: int, otherwise: int) -> list[tuple]:
    """Return the instructions that end a call by one of its arguments, and leave other calls to those that follow."""
    each = [word for test in known for word in (test, (RETURN, 0, 0, then))]
    return [(EQUAL, 0, len(each) + 2, number), (LOAD, 0, 0, argument), *each, (RETURN, 0, 0, otherwise)]


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
    alone("alone")


if __name__ == "__main__":  # a trial: can this be done here, by the user that the words name?
    for number in map(int, sys.argv[1:]):
        os.setgroups([])
        os.setresgid(number, number, number)
        os.setresuid(number, number, number)
    _try()
    sys.exit(0)
