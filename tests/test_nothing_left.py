"""Many runs in a row, of every kind of end, leave nothing behind. COURSE_RUNS sets how many: 1,000 by hand."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
import torch

from course_lib import Cluster, Deadlock, RankFailed, run

RUNS = int(os.environ.get("COURSE_RUNS", "60"))
GROWTH = 30e6  # bytes the process may grow by, whatever the number of runs


def right(dist):
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    print("sum", tensor[0].item())
    return tensor


def failing(dist):
    if dist.get_rank() == 1:
        raise ValueError("on purpose")
    dist.barrier()


def dying(dist):
    if dist.get_rank() == 1:
        os._exit(1)
    dist.barrier()


def hanging(dist):
    dist.recv(torch.empty(1), 1 - dist.get_rank())


def starting_a_child(dist):
    import subprocess

    subprocess.Popen(["sleep", "1000"], start_new_session=True)


def interrupted(dist, parent):
    if dist.get_rank() == 0:
        os.kill(parent, signal.SIGINT)
    while True:
        pass


def one_run(number: int) -> str:
    """Make one run of a kind that depends on its number; return how it ended."""
    kinds = (right, failing, right, dying, right, hanging, right, starting_a_child, right, interrupted)
    program = kinds[number % len(kinds)]
    on = Cluster() if number // len(kinds) % 2 and program is not starting_a_child else None
    args = (os.getpid(),) if program is interrupted else ()
    try:
        run(program, *args, ranks=2, on=on, timeout=0.3 if program is hanging and on is None else 60)
    except Deadlock:
        return "deadlock"
    except RankFailed as failure:
        return failure.error
    except KeyboardInterrupt:
        return "interrupted"
    return "right"


def descendants() -> set[int]:
    """Return the ids of all processes below this one, and of this run's that lost their parent, by walking /proc."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found, new = set(), {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found


def listening() -> Counter:
    """Return the TCP ports on which this process or one below it listens."""
    inodes = set()
    for pid in {os.getpid(), *descendants()}:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.add(os.readlink(link))
            except OSError:
                continue
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return Counter(row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes)


def state() -> dict:
    gc.collect()
    return {
        "processes": descendants(),
        "ports": listening(),
        "files open": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "temporary files": {path.name for path in Path(os.environ["TMPDIR"]).iterdir()},
    }


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_many_runs_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for number in range(20):  # the first of each kind may import or start something that stays
        one_run(number)
    before, memory = state(), resident()
    ends = Counter(one_run(number) for number in range(RUNS))
    assert state() == before
    assert resident() - memory < GROWTH
    print(f"{RUNS} runs: {dict(ends)}; memory grew by {(resident() - memory) / 1e6:.1f} MB")
    assert ends.keys() >= {"right", "ValueError", "exit", "timeout", "deadlock", "interrupted"}


def test_a_failed_run_leaves_no_port_open():
    with pytest.raises(RankFailed):
        run(failing, ranks=2)
    assert listening() == Counter()
