"""How fast ranks start, the simulator and checks run and the ring moves bytes, each beside what it is measured against.

    python bench/bench_ranks.py

All figures of one table come from one run, in turns, so their ratios mean something on a busy machine too.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import torch
import torch.distributed as torch_dist
import torch.multiprocessing as mp
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # solutions/ is a plain folder

from course_lib import Cluster, one_process, run
from course_lib.engine.processes import launcher
from exercises_tests.ch03_ring_all_reduce import check_ring_all_reduce
from solutions.ch03_ring_all_reduce import all_gather_ring, reduce_scatter_ring, ring_all_reduce

MEBIBYTE = 1 << 20
SWITCH = "THP_MEM_ALLOC_ENABLE"  # of torch: memory of new tensors comes 2 MiB at a time


def seconds_of(call: Callable) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# Starting ranks: each starts, all-reduces one number and returns it


def total(dist):
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return tensor.item()


def joined(rank: int, ranks: int, meeting: str, fn: bytes, queue) -> None:
    """Be one rank of the ways of starting that the library does not use."""
    torch.set_num_threads(1)
    torch_dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    queue.put(cloudpickle.loads(fn)(torch_dist))
    torch_dist.destroy_process_group()


def by_processes(method: str, ranks: int) -> None:
    """Start ranks by torch.multiprocessing, a fresh file to meet at each time."""
    context = mp.get_context(method)
    queue = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (ranks, f"{folder}/meeting", cloudpickle.dumps(total), queue)
        mp.start_processes(joined, arguments, ranks, start_method=method)
    assert [queue.get() for _ in range(ranks)] == [ranks] * ranks


def elastic_total() -> float:
    torch.set_num_threads(1)
    torch_dist.init_process_group("gloo")
    value = total(torch_dist)
    torch_dist.destroy_process_group()
    return value


def by_elastic_launch(ranks: int) -> None:
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        1, 1, ranks, rdzv_backend="c10d", rdzv_endpoint="localhost:0", run_id="bench", max_restarts=0,
        start_method="forkserver", signals_to_handle="SIGINT",
    )  # fmt: skip
    assert len(elastic_launch(config, elastic_total)()) == ranks


def bench_start() -> None:
    print("\nstart, all-reduce, return: seconds, median (how often)")
    for ranks in (4, 8):
        ways = {
            "run()": (lambda ranks=ranks: run(total, ranks=ranks), 10),
            "fork": (lambda ranks=ranks: by_processes("fork", ranks), 5),
            "elastic_launch, forkserver": (lambda ranks=ranks: by_elastic_launch(ranks), 3),
            "spawn and cloudpickle": (lambda ranks=ranks: by_processes("spawn", ranks), 1),
        }
        run(total, ranks=ranks)  # the first call of a process starts the helper
        medians = {}
        for name, (call, times) in tqdm(ways.items(), desc=f"{ranks} ranks", leave=False):
            medians[name] = statistics.median(seconds_of(call) for _ in range(times)), times
        for name, (seconds, times) in medians.items():
            ratio = seconds / medians["run()"][0]
            print(f"  {ranks} ranks  {name:<28} {seconds:7.3f} ({times:>2})  {ratio:6.1f} x run()")


# What the fork server does to make forks cheap, with and without


class Without(launcher.Launcher):
    """A launcher whose fork server has one of its functions replaced by one that does nothing."""

    def __init__(self, function: str = "") -> None:
        super().__init__()
        self.function = function

    def command(self, fd: str) -> list[str]:
        skip = f"fork_server.{self.function} = lambda: None; " if self.function else ""
        program = f"from course_lib.engine.processes import fork_server; {skip}fork_server.main()"
        return [sys.executable, "-c", program, fd]

    def wait_until_idle(self) -> None:
        """Wait until the imports of the fork server are over: it has used no CPU for two seconds."""
        quiet, before = 0, ""
        while quiet < 4:
            time.sleep(0.5)
            used = Path(f"/proc/{self._fork_server.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            quiet, before = (quiet + 1, before) if used == before else (0, used)


def bench_huge_pages(times: int = 20) -> None:
    if sys.platform != "linux":
        return
    print("\n4 ranks start, all-reduce, return: seconds, median, with huge pages under the fork server and without")
    ours, ways = launcher.LAUNCHER, {"with": Without(), "without": Without("use_huge_pages")}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for launcher.LAUNCHER in ways.values():
        run(total, ranks=4)
        launcher.LAUNCHER.wait_until_idle()
    for turn in tqdm(range(2 * times), desc="huge pages", leave=False):
        name = ("with", "without", "without", "with")[turn % 4]
        launcher.LAUNCHER = ways[name]
        seconds[name].append(seconds_of(lambda: run(total, ranks=4)))
    for way in ways.values():
        way.stop()
    launcher.LAUNCHER = ours
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = medians["without"] / medians["with"]
    print(f"  with {medians['with']:6.3f}  without {medians['without']:6.3f}  {ratio:4.2f} x")


# The simulator


def ring(dist, elements):
    ring_all_reduce(dist, torch.ones(elements))


class Turns:
    """The least that ranks in threads need for a ring: a lock each, and the turn goes round whenever one has to wait.

    It has no clock, looks at no argument and writes nothing down: what it takes is the price of threads and tensors.
    """

    def __init__(self, rank: int, gates: list[threading.Lock], boxes: list[torch.Tensor | None]) -> None:
        self.rank, self.gates, self.boxes = rank, gates, boxes

    def get_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return len(self.gates)

    def pass_on(self) -> None:
        self.gates[(self.rank + 1) % len(self.gates)].release()

    def wait_while(self, unready: Callable[[], bool]) -> None:
        while unready():
            self.pass_on()
            self.gates[self.rank].acquire()

    def isend(self, tensor, dst):
        self.boxes[dst] = tensor.clone()
        return self

    def wait(self) -> None:
        right = (self.rank + 1) % len(self.gates)
        self.wait_while(lambda: self.boxes[right] is not None)

    def recv(self, tensor, src) -> None:
        self.wait_while(lambda: self.boxes[self.rank] is None)
        tensor.copy_(self.boxes[self.rank])
        self.boxes[self.rank] = None


def ring_in_turns(ranks: int) -> None:
    """Run the ring on bare threads, all on one core and without preemption, as the simulator's are."""
    gates, boxes = [threading.Lock() for _ in range(ranks)], [None] * ranks

    def live(rank: int) -> None:
        gates[rank].acquire()
        dist = Turns(rank, gates, boxes)
        ring(dist, 4 * ranks)
        dist.pass_on()

    def start() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # of this thread, and those it starts
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        threads = [threading.Thread(target=live, args=(rank,)) for rank in range(ranks)]
        for gate, thread in zip(gates, threads, strict=True):
            gate.acquire()
            thread.start()
        gates[0].release()
        for thread in threads:
            thread.join()

    starter = threading.Thread(target=start)
    starter.start()
    starter.join()


def bench_simulator() -> None:
    print("\nring all-reduce, written with isend and recv: seconds, simulated and on bare threads that take turns")
    for ranks, times in ((64, 5), (512, 1)):
        messages = 2 * ranks * (ranks - 1)
        simulate = lambda ranks=ranks: run(ring, 4 * ranks, ranks=ranks, on=Cluster(), timeout=600)  # noqa: E731
        pairs = [
            (seconds_of(simulate), seconds_of(lambda ranks=ranks: ring_in_turns(ranks)))
            for _ in tqdm(range(times), desc=f"{ranks} ranks", leave=False)
        ]
        simulated, bare = (min(times) for times in zip(*pairs, strict=True))
        micro = 1e6 * simulated / messages
        print(f"  {ranks:>3} ranks  {messages:>7,} messages  {simulated:7.2f}  {micro:6.1f} µs a message", end="")
        print(f"  bare {bare:7.2f}  {simulated / bare:4.1f} x")


def bench_sharing(times: int = 10) -> None:
    print("\na simulated run of 4 ranks, each in a process of its own and many in a shared one: milliseconds, median")
    simulate = lambda: run(ring, 16, ranks=4, on=Cluster())  # noqa: E731
    alone = statistics.median(seconds_of(simulate) for _ in range(times))
    with one_process():
        simulate()  # starts the process
        shared = statistics.median(seconds_of(simulate) for _ in range(times))
    print(f"  alone {1e3 * alone:6.1f}  shared {1e3 * shared:6.1f}  {alone / shared:4.1f} x")
    seconds = [seconds_of(lambda: check_ring_all_reduce.outcome(ring_all_reduce)) for _ in range(3)]
    print(f"  a whole check of ring_all_reduce: {statistics.median(seconds):5.2f} s, median of {len(seconds)}")


# The ring beside gloo's own all-reduce


def both(dist, elements, rounds):
    """Return the seconds of each way, in turns."""
    tensor, seconds = torch.ones(elements), {"ring": [], "gloo": []}

    def by_hand() -> None:
        reduce_scatter_ring(dist, tensor)
        all_gather_ring(dist, tensor)

    for turn in range(rounds + 1):
        for name, call in (("ring", by_hand), ("gloo", lambda: dist.all_reduce(tensor))):
            tensor.fill_(1.0)
            dist.barrier()
            spent = seconds_of(call)
            if turn:  # the first turn opens connections and touches memory
                seconds[name].append(spent)
    return seconds


SIZE = 64 * MEBIBYTE


def slowest(trace, name: str) -> list[float]:
    """Return the seconds of the slowest rank in each turn."""
    return [max(times) for times in zip(*(seconds[name] for seconds in trace), strict=True)]


def bandwidth(ranks: int, seconds: list[float]) -> float:
    """Return the bus bandwidth in GB/s of all-reduces that took so long, by their median."""
    return 2 * (ranks - 1) / ranks * SIZE / statistics.median(seconds) / 1e9


def bench_ring(rounds: int = 7) -> None:
    print(f"\nall-reduce of {SIZE // MEBIBYTE} MiB: bus bandwidth in GB/s, median of {rounds}, and ring / gloo")
    for ranks in tqdm((2, 4), desc="ring", leave=False):
        trace = run(both, SIZE // 4, rounds, ranks=ranks, timeout=300)
        rates = {name: bandwidth(ranks, slowest(trace, name)) for name in ("ring", "gloo")}
        ratio = rates["ring"] / rates["gloo"]
        print(f"  {ranks} ranks  ring {rates['ring']:5.2f}  gloo {rates['gloo']:5.2f}  ratio {ratio:4.2f}")


def bench_ring_huge_pages(ranks: int = 2, rounds: int = 3, times: int = 4) -> None:
    """Run the ring with torch's switch for huge pages and without; a fork server reads it once, when it starts."""
    if SWITCH not in launcher.ENVIRON:
        return
    ours, before, ways = launcher.LAUNCHER, os.environ.get(SWITCH), {"without": "0", "with": "1"}
    launchers = {name: launcher.Launcher() for name in ways}
    for name, os.environ[SWITCH] in ways.items():
        launcher.LAUNCHER = launchers[name]
        run(total, ranks=ranks)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in tqdm(range(2 * times), desc="huge pages", leave=False):
        name = ("with", "without", "without", "with")[turn % 4]
        launcher.LAUNCHER = launchers[name]
        seconds[name] += slowest(run(both, SIZE // 4, rounds, ranks=ranks, timeout=300), "ring")
    for one in launchers.values():
        one.stop()
    launcher.LAUNCHER = ours
    del os.environ[SWITCH]
    os.environ |= {} if before is None else {SWITCH: before}
    huge, small = (bandwidth(ranks, seconds[name]) for name in ("with", "without"))
    words = "ring with torch's switch for huge pages"
    print(f"  {ranks} ranks  {words} {huge:5.2f}  without {small:5.2f}  {huge / small:4.2f} x")


if __name__ == "__main__":
    bench_start()
    bench_huge_pages()
    bench_simulator()
    bench_sharing()
    bench_ring()
    bench_ring_huge_pages()
