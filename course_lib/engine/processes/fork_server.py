"""The process that ranks are forked from: it has imported torch, has no threads or CUDA context, reaps its children.

It runs in its own session, so a Ctrl-C or an interrupted cell reaches neither it nor a rank, and it ends itself and
every rank when the process that started it is gone.

Why not multiprocessing's forkserver, which also forks from a process that has imported torch? It is as fast (4 ranks
in 0.10 s, measured on 2 cores), but skips a preload that cannot be imported in silence, and each launch then costs 2
s; it imports nothing while idle, does not kill what a rank has started itself, hands a rank Ctrl-C, and fails in a
script without a __main__ guard. Why not fork the notebook's kernel? It has threads, and perhaps a CUDA context, which
a fork breaks. Why not spawn? Every rank imports torch: 6.4 s for 4 ranks.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import math
import os
import re
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MADV_COLLAPSE, HUGE = 25, 2 << 20  # since Linux 6.1; bytes of a huge page
FORKS = 40  # cost with small pages, together, what use_huge_pages() costs once: 9 ms of 20 each, on 2 cores
PRELOAD = (
    "numpy",
    "numpy.random",  # numpy leaves it until it is used, which is in every rank: it is seeded
    "torch",
    "torch.distributed",
    "course_lib.engine.processes.rank",
    "course_lib.engine.simulated.world",
)
LATER = (
    "torch.fx.experimental.symbolic_shapes",  # backward(gradient) imports it, and sympy with it: over 2 s
    "torch._dynamo",  # the first optimizer or DDP of a process imports it: over 1 s in every rank of every run
    "torch.distributed.tensor.debug",  # CommDebugMode
    "torch.distributed.tensor.parallel",
)
"""What only some chapters need: imported while idle, or once a rank has had to import it itself."""
ON_DEMAND = ("course_lib", "exercises_tests", "torch.distributed.fsdp", "torch.distributed.checkpoint.state_dict")
"""Modules, and packages of which any module: imported only once a rank has had to. A check and what it needs of the
course are a dozen files, which else cost every rank of every run 40 to 100 ms of processor time."""

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded once here: else every rank would do it


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        _libc.prctl(option, value, 0, 0, 0)


def children(parent: int = 0) -> list[int]:
    """Return the process ids of a process's children (default: one's own), with grandchildren that it has adopted."""
    parent = parent or os.getpid()
    try:
        with open(f"/proc/{parent}/task/{parent}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # no such file outside Linux
        return []


class ForkServer:
    """Forks a child for each request on `control` and reports each death on it."""

    later = LATER
    on_demand = (*LATER, *ON_DEMAND)
    small_forks: float = FORKS
    """Forks until huge pages are worth their cost; those of a grader have them from the start."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.parent = os.getppid()
        self.alive: set[int] = set()
        self.spared: set[int] = set()
        """Children that are neither ranks nor strays; the grader's judge is one."""
        self.rest = b""
        """The beginning of a request that has arrived in part."""
        self.run: int | None = None
        """The number of the run that a process was last forked for."""
        self.listener: socket.socket | None = None
        """The listening socket that the next rank 0 inherits for its TCPStore."""

    def serve(self) -> None:
        wake, wake_write = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        later = [name for name in self.later if name not in sys.modules]
        while os.getppid() == self.parent:
            readable, _, _ = select.select([self.control, wake], [], [], 1.0)
            if wake in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
            self.reap()
            if later and not readable and not self.alive:
                import_quietly(later.pop(0))
                if not later:
                    settle()
                    self.enlarge_pages()
            if self.control in readable and not self.obey():
                break
        for pid in self.alive:
            self.kill(pid)
        while self.alive:  # we become the parent of what a rank has started only once the rank is gone
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.alive.pop(), 0)
        self.kill_strays()

    def say(self, **message: int) -> None:
        with contextlib.suppress(OSError):  # the notebook is gone: serve() notices
            self.control.sendall(json.dumps(message).encode() + b"\n")

    def obey(self) -> bool:
        """Carry out the requests that have arrived; return False when the notebook has closed the socket."""
        try:
            data, fds, _, _ = socket.recv_fds(self.control, 65536, 8)
        except OSError:
            return False
        if not data:
            return False
        *requests, self.rest = (self.rest + data).split(b"\n")
        for request in requests:
            self.carry_out(json.loads(request), fds)
        return True

    def carry_out(self, request: dict, fds: list[int]) -> None:
        """Kill, dump stacks, listen, import or fork. Of requests that arrive together at most one has fds: a fork."""
        if "kill" in request:
            for pid in set(request["kill"]) & self.alive:
                self.kill(pid)
            self.say(killed=request["run"])
        elif "where" in request:
            for pid in set(request["where"]) & self.alive:
                os.kill(pid, signal.SIGUSR1)
        elif "listen" in request:
            self.listen(request["listen"])
        elif "import" in request:
            new = [name for name in request["import"] if is_one_of(name, self.on_demand) and name not in sys.modules]
            for name in new:
                import_quietly(name)
            if new:
                settle()
                self.small_forks = FORKS
        else:
            if self.small_forks <= 0 and request.get("run") != self.run:  # between two runs: it slows down no rank
                self.enlarge_pages()
            self.run = request.get("run")
            self.fork(fds, request.get("kind", ""))

    def enlarge_pages(self) -> None:
        use_huge_pages()
        self.small_forks = math.inf

    def listen(self, ranks: int) -> None:
        """Open an ephemeral port on loopback, in the network namespace in which the ranks will run."""
        try:
            self.listener = socket.create_server(("127.0.0.1", 0), backlog=max(128, ranks))
        except OSError as error:
            self.say(failed=error.errno or 0)
        else:
            self.say(port=self.listener.getsockname()[1])

    def fork(self, fds: list[int], kind: str) -> None:
        listener, self.listener = self.listener, None
        try:
            pid = self.new_process()
        except OSError as error:
            self.say(failed=error.errno or 0)
            pid = -1
        if pid == 0:
            _become_a_rank(fds, listener, self.confine, kind)
        if listener is not None:
            listener.close()
        for fd in fds:
            os.close(fd)
        if pid > 0:
            self.alive.add(pid)
            self.small_forks -= 1
            self.say(pid=pid)

    def new_process(self) -> int:
        """Fork. The grader overrides this to give an untrusted child namespaces of its own."""
        return os.fork()

    def confine(self, kind: str) -> None:
        """Drop privileges in the child before its job arrives: here none; the grader overrides this."""

    def kill(self, pid: int) -> None:
        for group in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                group(pid, signal.SIGKILL)

    def reap(self) -> None:
        """Reap each dead child, kill what is left of its process group, and report its exit status."""
        while True:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if dead is None:
                return
            pid = dead.si_pid
            if pid in self.alive:  # the zombie still holds its pid, so the group cannot be another's
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            if pid in self.alive:
                self.alive.discard(pid)
                if not self.alive:
                    self.kill_strays()
                self.say(dead=pid, status=status)

    def kill_strays(self) -> None:
        """Kill every orphan that a rank left behind, in whatever session: as subreaper we are its parent now."""
        patience = time.monotonic() + 2.0
        while (strays := set(children()) - self.alive - self.spared) and time.monotonic() < patience:
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            for pid in strays:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _become_a_rank(fds: list[int], listener: socket.socket | None, confine: Callable, kind: str) -> None:
    """In the child: `fds` are the link to the notebook, the pipe for output, and the pipe for faulthandler."""
    code = 1
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        link, out, trace = fds
        os.dup2(out, 1)
        os.dup2(out, 2)
        confine(kind)
        close_all_but(0, 1, 2, link, trace, *([listener.fileno()] if listener else []))
        from course_lib.engine.processes import rank

        port = listener.detach() if listener else None
        code = rank.main(socket.socket(fileno=link), trace, port, (*LATER, *ON_DEMAND))
    except BaseException:
        traceback.print_exc()  # a bug of ours: it goes to the rank's stderr, and so to the notebook
    finally:
        os._exit(code)


def close_all_but(*kept: int) -> None:
    """Close all other inherited file descriptors: a rank shares nothing with the fork server or with other ranks."""
    low = 0
    for fd in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        if low < fd:  # Python 3.11 takes an empty range for everything
            os.closerange(low, fd)
        low = fd + 1


def is_one_of(module: str, names: Sequence[str]) -> bool:
    """Return whether a module, or the package that it is in, is among these names."""
    return module in names or module.partition(".")[0] in names


def import_quietly(name: str) -> None:
    """Import a module that ranks may want; if that fails, the rank that imports it gets the exception."""
    with contextlib.suppress(Exception):
        importlib.import_module(name)


def settle() -> None:
    """Do once what every rank would do first, then gc.freeze(): a collection in a rank would copy every shared page."""
    from course_lib.engine import packing, seeds

    packing.unpack(packing.pack(sys.modules["torch"].ones(2)))
    sys.modules["torch"].manual_seed(seeds.TORCH_SEED)  # looks for devices, and leaves GPUs their seed
    gc.collect()
    gc.freeze()


def use_huge_pages() -> None:
    """Back the heap with huge pages (MADV_COLLAPSE): a fork mostly copies page tables, and one entry then does for 512.

    Kept because `make bench`, which runs with and without it in turns, shows what it buys: starting 4 ranks takes 61
    ms without and 38 ms with it, on 2 cores. It takes a third of a second once, when idle or when that has been paid
    in forks. Kernels older than 6.1 refuse: then pages stay small.
    """
    if sys.platform != "linux":
        return
    _libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    with open("/proc/self/maps") as file:
        spans = re.findall(r"^(\w+)-(\w+) rw-p 00000000 00:00 0 +(?:\[heap\])?$", file.read(), re.MULTILINE)
    for first, last in spans:
        for start in range(-(-int(first, 16) // HUGE) * HUGE, int(last, 16) - HUGE + 1, HUGE):
            _libc.madvise(start, HUGE, MADV_COLLAPSE)


def begin(fd: int, user: int) -> socket.socket:
    """Detach from the notebook's terminal, import PRELOAD, and return the control socket.

    Switches to `user` unless that is 0: a grader that runs as root must not run untrusted code as root, whom no
    resource limit holds.
    """
    control = socket.socket(fileno=fd)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until a rank has its faulthandler
    try:
        for name in PRELOAD:
            importlib.import_module(name)
    except Exception as error:  # else every launch would pay for these imports, and nobody would know why
        control.sendall(json.dumps({"broken": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        raise SystemExit(1) from None
    sys.modules["torch"].set_num_threads(1)
    return control


def main() -> None:
    """Serve on the socket whose descriptor is the first argument; further arguments are modules to import."""
    control = begin(int(sys.argv[1]), 0)
    for name in sys.argv[2:]:
        import_quietly(name)
    settle()
    control.sendall(b'{"ready": 1}\n')
    ForkServer(control).serve()


if __name__ == "__main__":
    main()
