"""How much memory a learner takes on a shared machine: a kernel and its ranks while solved chapters run.

    python bench/bench_memory.py [ch04 ...]

Pages that processes share are divided among them (PSS, on Linux; elsewhere RSS, which counts them every time). The
first figure is a kernel with four ranks that only add a number up; a chapter's is its peak, sampled ten times a second.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil
from nbclient import NotebookClient
from tqdm import tqdm

from exercises_tests.tools.chapters import ChapterError, find, solved

MEBIBYTE = 1 << 20
FOUR_RANKS = """import torch
from course_lib.ranks import run

def total(dist):
    mine = torch.tensor([1.0 + dist.get_rank()])
    dist.all_reduce(mine)
    dist.barrier()
    return mine.item()

for _ in range(5):
    run(total, ranks=4)"""


def held(process: psutil.Process) -> int:
    """Return the bytes of one process; 0 when it has just ended."""
    try:
        memory = process.memory_full_info()
    except psutil.Error:
        return 0
    return getattr(memory, "pss", memory.rss)


def peak(notebook: nbformat.NotebookNode, done: Callable[[], object]) -> tuple[int, int]:
    """Run a notebook; return the most bytes that its kernel alone, and its kernel with all its processes, held."""
    most, ended = [0, 0], threading.Event()

    def watch() -> None:
        me = psutil.Process()
        while not ended.wait(0.1):
            for kernel in me.children():
                alone = held(kernel)
                with contextlib.suppress(psutil.Error):
                    together = alone + sum(held(child) for child in kernel.children(recursive=True))
                    most[:] = max(most[0], alone), max(most[1], together)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True,
                           resources={"metadata": {"path": folder}},
                           on_cell_executed=lambda cell, cell_index, execute_reply: done()).execute()
    finally:
        ended.set()
        watcher.join()
    return most[0], most[1]


def lab() -> int:
    """Return the bytes that a JupyterLab server holds when it has just started, without kernels."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.port=0", "--ServerApp.ip=127.0.0.1"]
        if os.geteuid() == 0:
            command.append("--allow-root")
        server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        try:
            next(line for line in server.stderr if "running at" in line)
            return held(psutil.Process(server.pid))
        finally:
            server.kill()
            server.communicate()


def main(names: list[str]) -> int:
    small = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(FOUR_RANKS)])
    try:
        books = {"a kernel and 4 ranks": small} | {Path(c.path).stem: solved(c) for c in map(find, names or ["ch04"])}
    except ChapterError as error:
        print(error, file=sys.stderr)
        return 2
    rows = [("a JupyterLab server", 0, lab())]
    with tqdm(total=sum(cell.cell_type == "code" for book in books.values() for cell in book.cells)) as bar:
        for name, book in books.items():
            rows.append((name, *peak(book, bar.update)))
    print(f"{'':<28} {'kernel alone':>14} {'with all ranks':>14}")
    for name, alone, together in rows:
        print(f"{name:<28} {alone / MEBIBYTE:>10,.0f} MiB {together / MEBIBYTE:>10,.0f} MiB")
    print("A learner takes the first line and the largest of the others; leave a third for what the system keeps.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
