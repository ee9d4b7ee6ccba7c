"""How long each real demonstration of chapter 13 takes, many times, alone and beside a busy core, and what it leaves.

    python bench/bench_disasters.py [times]

Every demonstration runs `times` times (20 unless told) in each condition, in turns; Ctrl-C shows what is known by then.
It has failed if it raised, and it has left something if a process that it started lives afterwards or a file lies in
its temporary folder.
"""

from __future__ import annotations

import io
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path

import psutil
import torch
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # solutions/ is a plain folder

from course_lib import RankFailed, run
from course_lib.folder import Folder
from course_lib.lessons import async_saves, bit_flips, killed, recorder, resumed
from solutions.ch13_when_things_break import load_resharded, save_sharded

MARK = "COURSE_DISASTER"  # in the environment of everything that is started here


def save_and_die(dist, folder):
    """Save over the old checkpoint; rank 1 is killed when half of its shard is written."""
    buffer = io.BytesIO()
    torch.save({"weight": torch.ones(1000)}, buffer)
    name = f"shard-{dist.get_rank()}.pt"
    if dist.get_rank() == 1:
        folder.write(name, buffer.getvalue()[:2000])
        os.kill(os.getpid(), signal.SIGKILL)
    folder.write(name, buffer.getvalue())
    dist.barrier()


def a_save_that_dies() -> None:
    """Kill a rank in the middle of its save; the run must end with one sentence, not hang."""
    with tempfile.TemporaryDirectory() as place:
        try:
            run(save_and_die, Folder(place), ranks=2)
        except RankFailed:
            return
    raise RuntimeError("rank 1 was killed, and nobody said so")


def a_resume() -> None:
    """Train 3 steps on 4 real ranks, save, and go on with 3 steps on 2."""
    with tempfile.TemporaryDirectory() as place:
        for ranks in (4, 2):
            run(resumed.train_on, 3, Folder(place), save_sharded, load_resharded, ranks=ranks)


DEMONSTRATIONS: dict[str, Callable] = {
    "a worker killed, torchrun goes on": killed.kill_a_worker,
    "a machine killed, 2 -> 1": killed.kill_a_machine,
    "a desync and its flight recorder": recorder.desync,
    "a save killed half-way": a_save_that_dies,
    "saved on 4 ranks, resumed on 2": a_resume,
    "async_save beside training": async_saves.show,
    "32 flipped bits": lambda: bit_flips.flipped_losses(element=2000),
}


@contextmanager
def busy_core():
    """Keep one core busy meanwhile."""
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        spinning.kill()
        spinning.wait()


def alive(mark: str) -> set[int]:
    """Return the processes that are this one's, at any depth, or carry the mark in their environment."""
    found = {process.pid for process in psutil.Process().children(recursive=True)}
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.add(process.pid)
        except psutil.Error:  # gone, or somebody else's
            continue
    return found - {os.getpid()}


def once(demonstration: Callable) -> tuple[float, str]:
    """Return the seconds that it took, and what was wrong: nothing, or a few words."""
    with tempfile.TemporaryDirectory() as folder:
        before = alive(folder)  # what starts ranks, and what keeps the core busy
        tempfile.tempdir, os.environ["TMPDIR"], os.environ[MARK] = folder, folder, folder
        try:
            begin = time.perf_counter()
            with redirect_stdout(io.StringIO()):
                demonstration()
            wrong = ""
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error)[:200]}"
        finally:
            seconds = time.perf_counter() - begin
            tempfile.tempdir = None
            del os.environ["TMPDIR"], os.environ[MARK]
        left = [*os.listdir(folder), *[f"process {pid}" for pid in alive(folder) - before]]
    return seconds, wrong or (f"left: {', '.join(left)}" if left else "")


def main() -> None:
    torch.set_num_threads(1)  # as the notebook has it
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    run(lambda dist: None, ranks=2)  # what starts ranks is started once, and stays
    print(f"Seconds: median (fastest to slowest) of {times} times. Load at the beginning: {os.getloadavg()[0]:.1f}\n")
    seconds, wrong = defaultdict(list), defaultdict(list)
    rounds = [(name, busy) for _ in range(times) for busy in (False, True) for name in DEMONSTRATIONS]
    try:
        for name, busy in tqdm(rounds, disable=not sys.stderr.isatty()):
            with busy_core() if busy else nullcontext():
                spent, words = once(DEMONSTRATIONS[name])
            seconds[name, busy].append(spent)
            wrong[name, busy] += [words] if words else []
    except KeyboardInterrupt:
        print(f"interrupted after {sum(map(len, seconds.values()))} of {len(rounds)}:")
    report(seconds, wrong)


def report(seconds: dict[tuple[str, bool], list[float]], wrong: dict[tuple[str, bool], list[str]]) -> None:
    """Print a row for each demonstration that ran in both conditions, and what went wrong."""
    print(f"{'':<36}{'alone':^26}{'beside a busy core':^26}failed or left something")
    for name in DEMONSTRATIONS:
        if (name, True) not in seconds:
            continue
        cells = [seconds[name, busy] for busy in (False, True)]
        shown = [f"{statistics.median(one):6.2f} ({min(one):.2f} to {max(one):.2f})" for one in cells]
        print(f"{name:<36}{shown[0]:^26}{shown[1]:^26}{len(wrong[name, False])} and {len(wrong[name, True])}")
    for (name, busy), words in wrong.items():
        for one in words:
            print(f"  {name}{', beside a busy core' * busy}: {one}")


if __name__ == "__main__":
    main()
